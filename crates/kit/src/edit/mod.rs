//! Edits: plans the result of edits on a file, and refuses any that might land in the wrong place.
//!
//! An edit is applied where the model meant it, or not at all. The model meant what the session showed it
//! ([`Views`]). Every shortest difference between the file as shown and the current file has to put those
//! lines in the same place (`map.rs`). If the newest view is a read of the current file, it alone decides.

use std::{borrow::Cow, ops::Range, path::Path};

use crate::{
    Fault, Kind,
    anchor::{self, Anchor, Rendered},
    seen::{Identity, Region, Rows, Views},
    text::{Change, FinalNewline, SpliceError, Text, Unwritable, compose},
};

mod diff;
mod earlier_views;
mod find;
mod hunks;
mod map;
mod nearest;
mod refusal;
mod regions;

use earlier_views::{Past, lines};
use find::{Needle, Places};
use refusal::Refusal;
pub use regions::around;

/// One edit of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Replaces the lines from one anchor to another.
    Replace {
        /// The first line.
        from: Anchor,
        /// The last line, if it is not the first.
        to: Option<Anchor>,
        /// The new lines; empty to delete.
        new: String,
    },
    /// Inserts lines.
    Insert {
        /// The place of the new lines.
        at: At,
        /// The new lines.
        new: String,
    },
    /// Replaces a text, which need not be whole lines.
    Text {
        /// The text as it is in the file.
        old: String,
        /// The replacement.
        new: String,
        /// Whether to replace the only occurrence or all.
        which: Which,
    },
    /// Applies a unified diff.
    Diff(String),
    /// Ends the last line with a newline if it has none. Used along with other edits, and not counted among them.
    FinalNewline,
}

/// A place for inserted lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Before all lines.
    Start,
    /// After all lines.
    End,
    /// Before this line.
    Before(Anchor),
    /// After this line.
    After(Anchor),
}

/// The occurrences of a text that a replacement applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The only one; several are an error.
    Only,
    /// All of them.
    All,
}

/// The result of all edits of a call on one file. Nothing is written yet.
#[derive(Debug)]
pub struct Plan {
    /// The file after the edits.
    pub text: Text,
    /// The changed lines with a few around them and their fresh anchors.
    pub fresh: Rendered,
    /// Number of added lines.
    pub plus: usize,
    /// Number of removed lines.
    pub minus: usize,
    /// Notes for the model, one line each.
    pub notes: Vec<String>,
    before: Text,
    regions: Vec<Region>,
}

impl Plan {
    /// Returns the bytes to write.
    pub fn bytes(&self) -> &[u8] {
        self.text.bytes()
    }

    /// Returns the rows of the new text that were added or changed; an empty range where rows were only removed.
    pub fn changed(&self) -> impl Iterator<Item = Range<usize>> {
        self.regions.iter().map(|(_, new)| new.clone())
    }

    /// Returns the old rows that were removed or changed, each with the rows that replaced them.
    pub fn regions(&self) -> &[(Range<usize>, Range<usize>)] {
        &self.regions
    }

    /// Returns the file before the edits.
    pub fn before(&self) -> &Text {
        &self.before
    }

    /// The fault of edits that would be made but may not be written, for this reason: with fresh anchors of the places that
    /// they mean, which are recorded as shown.
    pub fn refused(&self, views: &Views, file: &Path, identity: Option<&Identity>, why: Fault) -> Fault {
        let places: Vec<Region> = self.regions.iter().map(|(old, new)| (new.clone(), old.clone())).collect();
        let refusal = Refusal {
            kind: why.kind,
            what: why.what,
            next: why.next,
            rows: around(&places, self.before.line_count()),
            retired: Vec::new(),
            more: Vec::new(),
        };
        refusal::fault(vec![(None, refusal)], &self.before, identity, views, file)
    }

    /// Records that the edits were written and the fresh anchors shown. A file over
    /// [`LARGE`](crate::seen::LARGE) needs its new identity.
    pub fn landed(&self, views: &Views, file: &Path, identity: Option<&Identity>) {
        views.landed(file, (&self.before, &self.text), identity, &self.regions, &self.fresh.shown);
    }
}

/// Plans `edits` of a file that holds `current`. All of them refer to this one state of the file; all are
/// applied, or none.
///
/// # Errors
/// A fault of kind `BadArgs`, `NotFound`, `Ambiguous` or `Stale`. The lines that it shows are recorded in
/// `views`, so a retry with these anchors works without another read.
pub fn plan(current: &Text, views: &Views, file: &Path, edits: &[Edit]) -> Result<Plan, Fault> {
    plan_large(current, None, views, file, edits, || Ok(()))
}

/// Like [`plan`], for a file that may have been shown in windows: `identity` is what the file had when
/// `current` was read. `check` is called repeatedly; its error ends the work.
///
/// # Errors
/// Those of [`plan`] and of `check`.
pub fn plan_large(
    current: &Text,
    identity: Option<&Identity>,
    views: &Views,
    file: &Path,
    edits: &[Edit],
    check: impl Fn() -> Result<(), Fault>,
) -> Result<Plan, Fault> {
    if edits.is_empty() {
        return Err(Fault::bad_args("there is no edit").next("Give one edit or more."));
    }
    let alive = || check().is_ok();
    let past = Past::new(current, identity, views.of(file), &alive);
    let mut made = Made::default();
    let mut refusals = Vec::new();
    let (of_file, edits): (Vec<&Edit>, Vec<&Edit>) = edits.iter().partition(|it| **it == Edit::FinalNewline);
    if !of_file.is_empty() && !current.has_final_newline() {
        made.final_newline = FinalNewline::Add;
    }
    for (at, edit) in edits.iter().enumerate() {
        check()?;
        let which = (edits.len() > 1).then_some(at);
        match made.add(at, edit, &past, file) {
            Ok(()) => {}
            Err(Trouble::Fault(fault)) => return Err(numbered(*fault, which)),
            Err(Trouble::Refusal(refusal)) => refusals.push((which, *refusal)),
        }
    }
    check()?;
    if !refusals.is_empty() {
        return Err(refusal::fault(refusals, current, identity, views, file));
    }
    made.finish(current)
}

/// The reason why an edit can't be made: a complete fault, or a refusal with lines to show.
enum Trouble {
    Fault(Box<Fault>),
    Refusal(Box<Refusal>),
}

/// State of the edits that were planned so far.
#[derive(Default)]
struct Made {
    changes: Vec<Change>,
    /// For each change, the index of its edit.
    of: Vec<usize>,
    final_newline: FinalNewline,
    notes: Vec<String>,
}

impl Made {
    fn add(&mut self, at: usize, edit: &Edit, past: &Past<'_>, file: &Path) -> Result<(), Trouble> {
        let text = past.current;
        let changes = match edit {
            Edit::Replace { from, to, new } => {
                let to = to.unwrap_or(*from);
                if to.line < from.line {
                    return Err(Fault::bad_args(format!("Range start {from} must be <= end {to}")).into());
                }
                let rows = self.rows(past, *from, to)?;
                vec![text.line_change(rows, &self.new_lines(past, new))?]
            }
            Edit::Insert { at, new } => {
                if new.is_empty() {
                    return Err(Fault::bad_args("an insertion needs text").next("Give `new`.").into());
                }
                let gap = match at {
                    At::Start => 0,
                    At::End => text.line_count(),
                    At::Before(anchor) => self.rows(past, *anchor, *anchor)?.start,
                    At::After(anchor) => self.rows(past, *anchor, *anchor)?.end,
                };
                vec![text.line_change(gap..gap, &self.new_lines(past, new))?]
            }
            Edit::Text { old, new, which } => self.replaced(past, old, new, *which)?,
            Edit::Diff(diff) => {
                let (changes, final_newline) = hunks::changes(past, diff, file)?;
                if final_newline != FinalNewline::Keep {
                    self.final_newline = final_newline;
                }
                changes
            }
            Edit::FinalNewline => Vec::new(),
        };
        if self.final_newline == FinalNewline::Keep && changes.iter().all(|change| text.holds(change)) {
            let what = changes.first().map_or_else(String::new, |change| {
                let first = text.row_at(change.span.start);
                let last = text.row_at(change.span.end.saturating_sub(1)).max(first);
                format!(": {} already read so", lines(&(first..last + 1)))
            });
            return Err(Fault::bad_args(format!("this edit changes nothing{what}"))
                .next("Leave it out, or say what is to be different.")
                .into());
        }
        self.of.extend(std::iter::repeat_n(at, changes.len()));
        self.changes.extend(changes);
        Ok(())
    }

    /// Returns the rows that the anchors refer to, and adds a note if they moved.
    fn rows(&mut self, past: &Past<'_>, from: Anchor, to: Anchor) -> Result<Range<usize>, Trouble> {
        let place = past.anchored(from, to)?;
        let then = from.row()..to.row() + 1;
        let now = place..place + then.len();
        if now != then {
            let verb = if then.len() == 1 { "is" } else { "are" };
            let place = lines(&now);
            let place = place.trim_start_matches("lines ").trim_start_matches("line ");
            self.note(format!("{} {verb} at {place} now; edited there", lines(&then)));
        }
        Ok(now)
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Returns the lines of new text, without pasted anchors.
    fn new_lines(&mut self, past: &Past<'_>, new: &str) -> Vec<String> {
        let new = self.without_anchors(past, new);
        if new.is_empty() {
            return Vec::new();
        }
        new.strip_suffix('\n').unwrap_or(&new).split('\n').map(str::to_owned).collect()
    }

    /// Returns the text with plain line feeds and without pasted anchors.
    fn without_anchors<'t>(&mut self, past: &Past<'_>, given: &'t str) -> Cow<'t, str> {
        let plain = if given.contains("\r\n") {
            Cow::Owned(given.replace("\r\n", "\n"))
        } else {
            Cow::Borrowed(given)
        };
        if !plain.contains('|') {
            return plain;
        }
        let lines: Vec<Cow<'_, str>> = plain.split('\n').map(Cow::Borrowed).collect();
        let Some(bare) = anchor::unpaste(&lines, |anchor| past.showed(anchor)) else { return plain };
        // A file that holds such lines itself may be meant to get more of them.
        if past.holds_anchors() {
            return plain;
        }
        self.note("took the pasted `LINE:HASH|` off the text".to_owned());
        Cow::Owned(bare.join("\n"))
    }

    fn replaced(
        &mut self,
        past: &Past<'_>,
        old: &str,
        new: &str,
        which: Which,
    ) -> Result<Vec<Change>, Trouble> {
        let text = past.current;
        if old.is_empty() {
            return Err(Fault::bad_args("`old` is empty, and would be everywhere")
                .next("Give the text to replace, or insert by an anchor, at the start or at the end.")
                .into());
        }
        let new = self.without_anchors(past, new);
        let places = match which {
            Which::Only => Places::Sharing,
            Which::All => Places::Apart,
        };
        let most = if which == Which::All { usize::MAX } else { find::MOST };
        let all = Rows::from(0..text.line_count());
        let everywhere = |old: &str| {
            Needle::new(text, old)
                .map(|needle| needle.hits(text, places, most, all.ranges()))
                .unwrap_or_default()
        };
        let mut old = Cow::Borrowed(old);
        let mut hits = everywhere(&old);
        if hits.is_empty() {
            let bare = self.without_anchors(past, &old).into_owned();
            if bare != old {
                hits = everywhere(&bare);
                old = bare.into();
            }
        }
        if hits.is_empty() {
            return Err(not_found(past, &old).into());
        }
        if which == Which::Only {
            let [hit] = hits.as_slice() else { return Err(ambiguous(past, &hits).into()) };
            past.settled(&hit.rows, None, |text, shown| {
                let Some(needle) = Needle::new(text, &old) else { return Vec::new() };
                let hits = needle.hits(text, Places::Sharing, find::MOST, shown.ranges());
                hits.into_iter().map(|hit| hit.rows).collect()
            })?;
        }
        Ok(hits.iter().map(|hit| find::replacement(text, hit, &new)).collect::<Result<_, _>>()?)
    }

    fn finish(self, current: &Text) -> Result<Plan, Fault> {
        let of = |change: usize| self.of.get(change).copied().unwrap_or(0);
        let composed = compose(current, &self.changes, self.final_newline).map_err(|(one, other)| {
            let place = self.changes.get(other).map_or(0, |change| current.row_at(change.span.start));
            let (one, other) = (of(one).min(of(other)) + 1, of(one).max(of(other)) + 1);
            let who = if one == other {
                format!("parts of edit {one}")
            } else {
                format!("edits {one} and {other}")
            };
            Fault::bad_args(format!("{who} overlap at line {}; nothing was written", place + 1))
                .next("All edits mean the file as it is before any of them; make one of the two.")
        })?;
        if composed.bytes == current.bytes() {
            return Err(Fault::bad_args("these edits together change nothing")
                .next("Leave them out, or say what is to be different."));
        }
        let text = reread(current, composed.bytes, &self.changes)?;
        let spans: Vec<_> =
            self.changes.iter().map(|change| change.span.clone()).zip(composed.spans).collect();
        let regions = regions::regions(current, &text, spans);
        let plus = regions.iter().map(|(_, new)| new.len()).sum();
        let minus = regions.iter().map(|(old, _)| old.len()).sum();
        let around = regions::around(&regions, text.line_count());
        let fresh = anchor::render(&text, &anchor::in_passing(&text, &around));
        Ok(Plan { text, fresh, plus, minus, notes: self.notes, before: current.clone(), regions })
    }
}

/// Decodes the edited bytes again; the result must equal what was written.
fn reread(current: &Text, bytes: Vec<u8>, changes: &[Change]) -> Result<Text, Fault> {
    let name = current.encoding().name();
    let next = "Convert the file to UTF-8 first, or keep to characters it has.";
    let from = changes.iter().map(|it| it.span.start).min().unwrap_or(0);
    // A newline that the file lacks, and may get, counts as its last byte.
    let to = changes.iter().map(|it| it.span.end).max().unwrap_or(0).min(current.bytes().len());
    let Ok(text) = current.parse_changed(bytes, from..to) else {
        return Err(Fault::bad_args(format!(
            "after these edits the file could not be read as {name} any more"
        ))
        .next(next));
    };
    let plain = || changes.iter().all(|change| change.bytes.is_ascii());
    if text.encoding() != current.encoding() && !plain() {
        let what = format!(
            "after these edits the file, which is {name}, would be read as {}",
            text.encoding().name()
        );
        return Err(Fault::bad_args(what).next(next));
    }
    Ok(text)
}

fn not_found(past: &Past<'_>, old: &str) -> Refusal {
    let nearest = past.nearby.nearest(old);
    let mut refusal = Refusal {
        kind: Kind::NotFound,
        what: "`old` is not in the file.".to_owned(),
        next: Some("Read the lines to change, and copy the text from them exactly.".to_owned()),
        rows: Rows::new(),
        retired: Vec::new(),
        more: Vec::new(),
    };
    let Some(nearest) = nearest else { return refusal };
    let place = lines(&nearest.rows);
    refusal.what = match nearest.only {
        Some(only) if nearest.rows.len() == 1 => format!("`old` is not in the file: {place} differs {only}."),
        Some(only) => format!("`old` is not in the file: {place} differ {only}."),
        None if nearest.rows.len() == 1 => format!("`old` is not in the file; {place} is nearest."),
        None => format!("`old` is not in the file; {place} are nearest."),
    };
    refusal.next =
        Some("Send the text as the file has it[?, or edit by these anchors`if:edit.anchor`?]:".to_owned());
    refusal.rows = past.around(nearest.rows.start, nearest.rows.len());
    refusal.more = nearest.differences;
    refusal
}

fn ambiguous(past: &Past<'_>, hits: &[find::Hit]) -> Refusal {
    let rows = hits.iter().map(|hit| hit.rows.clone()).collect::<Vec<_>>();
    ambiguous_at(past, "`old` occurs", &rows, "add a line of context or set `all`")
}

/// Returns the refusal of an edit that matches several places.
fn ambiguous_at(past: &Past<'_>, what: &str, places: &[Range<usize>], next: &str) -> Refusal {
    const NAMED: usize = 10;
    let count = if places.len() < find::MOST { places.len().to_string() } else { format!("{}+", find::MOST) };
    let mut named: Vec<String> = places.iter().take(NAMED).map(|rows| (rows.start + 1).to_string()).collect();
    if places.len() > NAMED {
        named.push("…".to_owned());
    }
    let mut rows = Rows::new();
    for place in places.iter().take(NAMED) {
        rows.add_all(&past.around(place.start, place.len()));
    }
    Refusal {
        kind: Kind::Ambiguous,
        what: format!("{what} {count} times (lines {}); {next}.", named.join(", ")),
        next: Some("Or edit by one of these anchors:".to_owned()),
        rows,
        retired: Vec::new(),
        more: Vec::new(),
    }
}

fn numbered(mut fault: Fault, edit: Option<usize>) -> Fault {
    if let Some(edit) = edit {
        fault.what = format!("edit {}: {}", edit + 1, fault.what);
    }
    fault
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self::Fault(Box::new(fault))
    }
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(Box::new(refusal))
    }
}

impl From<Box<Refusal>> for Trouble {
    fn from(refusal: Box<Refusal>) -> Self {
        Self::Refusal(refusal)
    }
}

impl From<Unwritable> for Trouble {
    fn from(error: Unwritable) -> Self {
        Fault::bad_args(error.to_string())
            .next("Use characters that it has, or convert the file first.")
            .into()
    }
}

impl From<SpliceError> for Trouble {
    fn from(error: SpliceError) -> Self {
        match error {
            SpliceError::Unwritable(error) => error.into(),
            SpliceError::Overlap(..) | SpliceError::OutOfRange(_) => Fault::bug(error.to_string()).into(),
        }
    }
}

#[cfg(test)]
mod tests;
