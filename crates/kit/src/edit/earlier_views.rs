//! Earlier views: decides whether the lines that an anchor names now are those that the model was shown.

use std::{cell::OnceCell, ops::Range};

use super::{map::Map, nearest::Nearby, refusal::Refusal};
use crate::{
    Kind,
    anchor::{self, Anchor},
    counted,
    seen::{Identity, Rows, Version, Window},
    text::Text,
};

/// The current file, and everything that the session was shown of it.
pub(super) struct Past<'a> {
    pub(super) current: &'a Text,
    pub(super) nearby: Nearby<'a>,
    /// Whether a line of the file begins with something that looks like an anchor.
    holds_anchors: OnceCell<bool>,
    identity: Option<&'a Identity>,
    versions: Vec<Then>,
    windows: Vec<Window>,
}

/// The file as it was shown at one time.
struct Then {
    text: Text,
    /// Rows that can be named by anchors.
    shown: Rows,
    /// Rows that can be quoted.
    quotable: Rows,
    /// Rows that the newest read showed.
    read: Rows,
    /// Whether this version equals the current file.
    same: bool,
    map: OnceCell<Option<Map>>,
}

/// The place of the meant lines according to one view of the file.
struct Claim {
    place: Option<usize>,
    near: Vec<usize>,
}

impl<'a> Past<'a> {
    pub(super) fn new(
        current: &'a Text,
        identity: Option<&'a Identity>,
        (versions, windows): (Vec<Version>, Vec<Window>),
        alive: &'a dyn Fn() -> bool,
    ) -> Self {
        // No two versions are equal, and the current one is mostly the newest: comparing is faster than hashing.
        let same = versions.iter().position(|version| version.text == *current);
        let versions = versions
            .into_iter()
            .enumerate()
            .map(|(at, version)| Then {
                same: same == Some(at),
                text: version.text,
                shown: version.shown,
                read: version.read,
                quotable: if version.followed { Rows::new() } else { version.known },
                map: OnceCell::new(),
            })
            .collect();
        let nearby = Nearby::new(current, alive);
        Self { current, nearby, holds_anchors: OnceCell::new(), identity, versions, windows }
    }

    /// Returns whether a line of the current file looks like one that was pasted with its anchor.
    pub(super) fn holds_anchors(&self) -> bool {
        let text = self.current;
        let is_anchored = |row| text.line(row).is_some_and(|line| anchor::split(&line).is_some());
        *self.holds_anchors.get_or_init(|| (0..text.line_count()).any(is_anchored))
    }

    /// Returns whether a line was shown under this anchor.
    pub(super) fn showed(&self, anchor: Anchor) -> bool {
        self.versions.iter().any(|then| then.claims(anchor))
            || self.windows.iter().any(|window| window.claims(anchor.row(), anchor.hash))
    }

    /// Returns the current row of the lines from one anchor to another.
    pub(super) fn anchored(&self, from: Anchor, to: Anchor) -> Result<usize, Box<Refusal>> {
        let rows = from.row()..to.row() + 1;
        let named = |anchor: Anchor| Anchor::of(self.current, anchor.row()) == Some(anchor);
        if named(from) && named(to) && self.just_read(&rows) {
            return Ok(rows.start);
        }
        let mut unseen = None;
        let mut claims = Vec::new();
        for then in self.versions.iter().filter(|then| then.claims(from) && then.claims(to)) {
            if then.shown.covers(rows.clone()) {
                claims.push(then.claim(self.current, &rows));
            } else {
                let mut missing = Rows::from(rows.clone());
                missing.remove_all(&then.shown);
                unseen = unseen.or(Some(missing));
            }
        }
        let by_window =
            |window: &&Window| window.claims(from.row(), from.hash) && window.claims(to.row(), to.hash);
        for window in self.windows.iter().filter(by_window) {
            let as_shown = Some(&window.identity) == self.identity && self.reads_so(window, &rows);
            claims.push(Claim { place: as_shown.then_some(rows.start), near: vec![rows.start] });
        }
        match (claims.split_first(), unseen) {
            (None, Some(unseen)) => Err(self.not_all_shown(&rows, &unseen).into()),
            (None, None) => Err(self.never_shown(from, to).into()),
            (Some((first, others)), _) => match first.place {
                Some(place) if others.iter().all(|other| other.place == Some(place)) => Ok(place),
                _ => Err(self.moved(&rows, &claims).into()),
            },
        }
    }

    /// Checks that the match at `now` is the one that the model was shown. If the text occurred at several
    /// places then, `picked` is the row that was meant.
    pub(super) fn settled(
        &self,
        now: &Range<usize>,
        picked: Option<usize>,
        found: impl Fn(&Text, &Rows) -> Vec<Range<usize>>,
    ) -> Result<(), Box<Refusal>> {
        if self.just_read(now) {
            return Ok(());
        }
        for then in self.versions.iter().filter(|then| !then.same) {
            let places = found(&then.text, &then.quotable);
            let meant = match places.as_slice() {
                [] => continue,
                [only] => Some(only),
                several => several.iter().find(|rows| Some(rows.start) == picked),
            };
            let place = meant.and_then(|rows| then.claim(self.current, rows).place);
            if place == Some(now.start) {
                continue;
            }
            let what = match meant {
                None => format!(
                    "it occurred {} times when it was shown, and the file changed: {} may not be the place that was meant",
                    places.len(),
                    lines(now)
                ),
                Some(rows) => format!(
                    "it was at {} when it was shown, and the file changed: {} may not be the place that was meant",
                    lines(rows),
                    lines(now)
                ),
            };
            let retired = places.into_iter().map(|rows| (then.text.digest(), rows)).collect();
            return Err(Refusal { retired, ..Refusal::stale(what, self.around(now.start, now.len())) }.into());
        }
        let other = self.windows.iter().any(|window| Some(&window.identity) != self.identity);
        if other && !self.shown_as_is(now) {
            let what =
                format!("the file changed since it was shown, and {} not shown again", lines_were(now));
            return Err(Refusal::stale(what, self.around(now.start, now.len())).into());
        }
        Ok(())
    }

    /// Returns whether the newest view is a read of the current file that includes these rows. Then that view
    /// alone decides: an older one may have had other lines under the same anchors.
    fn just_read(&self, rows: &Range<usize>) -> bool {
        let in_window = |window: &Window| {
            window.read.covers(rows.clone())
                && Some(&window.identity) == self.identity
                && self.reads_so(window, rows)
        };
        self.versions.iter().any(|then| then.same && then.read.covers(rows.clone()))
            || self.windows.iter().any(in_window)
    }

    /// Returns whether these rows are as the window showed them.
    fn reads_so(&self, window: &Window, rows: &Range<usize>) -> bool {
        rows.clone().all(|row| self.current.line(row).is_some_and(|line| window.showed(row, &line)))
    }

    /// Returns whether these rows of the current file were shown.
    pub(super) fn shown_as_is(&self, rows: &Range<usize>) -> bool {
        let in_version = |then: &Then| then.same && then.shown.covers(rows.clone());
        let in_window =
            |window: &Window| Some(&window.identity) == self.identity && self.reads_so(window, rows);
        self.versions.iter().any(in_version) || self.windows.iter().any(in_window)
    }

    /// Returns the rows to show for a place: its own and a few on either side.
    pub(super) fn around(&self, row: usize, length: usize) -> Rows {
        let end = (row + length.max(1) + 2).min(self.current.line_count());
        Rows::from(row.min(end).saturating_sub(2)..end)
    }

    fn never_shown(&self, from: Anchor, to: Anchor) -> Refusal {
        let count = self.current.line_count();
        let anchor = if self.showed(from) { to } else { from };
        let shown_as = self
            .versions
            .iter()
            .find(|then| then.shown.contains(anchor.row()))
            .and_then(|then| Anchor::of(&then.text, anchor.row()));
        let clipped =
            self.current.line(anchor.row()).is_some_and(|line| line.chars().nth(anchor::CLIP).is_some());
        let what = match shown_as {
            Some(shown) if shown.hash != anchor.hash => {
                format!("line {} was shown as {shown}, not {anchor}", anchor.line)
            }
            _ if anchor.line > count => {
                format!("line {} does not exist (the file has {})", anchor.line, counted(count, "line"))
            }
            _ if clipped => format!("line {} is too long to be shown in full", anchor.line),
            _ => format!("line {} was not shown as {anchor} in this session", anchor.line),
        };
        let refusal = Refusal::stale(what, self.around(from.row(), to.line - from.row()));
        if clipped {
            Refusal { next: Some("Change a part of it with `old` and `new`.".to_owned()), ..refusal }
        } else {
            refusal
        }
    }

    fn not_all_shown(&self, rows: &Range<usize>, unseen: &Rows) -> Refusal {
        let meant = if rows.len() <= 1 { "is" } else { "are" };
        let unseen = match unseen.ranges() {
            [only] => lines_were(only),
            several => {
                let several: Vec<String> = several.iter().map(lines).collect();
                format!("{} were", several.join(", "))
            }
        };
        let what = format!("{} {meant} meant, but {unseen} never shown", lines(rows));
        Refusal::stale(what, self.around(rows.start, rows.len()))
    }

    fn moved(&self, rows: &Range<usize>, claims: &[Claim]) -> Refusal {
        let mut shown = Rows::new();
        for row in claims.iter().flat_map(|claim| claim.place.into_iter().chain(claim.near.iter().copied())) {
            shown.add_all(&self.around(row, rows.len()));
        }
        let places: Vec<String> = claims
            .iter()
            .filter_map(|claim| claim.place)
            .map(|place| lines(&(place..place + rows.len())))
            .collect();
        let what = if places.len() == claims.len() {
            let they = if rows.len() <= 1 { "it" } else { "they" };
            format!("{} shown more than once; {they} may be {} now", lines_were(rows), places.join(" or "))
        } else if places.contains(&lines(rows)) {
            // The other view may be of the current file, so "changed" could be untrue.
            format!(
                "{} stood for something else in an earlier view, and it isn't sure which is meant",
                lines(rows)
            )
        } else {
            format!("{} changed since shown, or can't be told from others that read the same", lines(rows))
        };
        Refusal::stale(what, shown)
    }
}

impl Then {
    fn claims(&self, anchor: Anchor) -> bool {
        self.shown.contains(anchor.row()) && Anchor::of(&self.text, anchor.row()) == Some(anchor)
    }

    fn claim(&self, current: &Text, rows: &Range<usize>) -> Claim {
        if self.same {
            return Claim { place: Some(rows.start), near: Vec::new() };
        }
        let map = self.map.get_or_init(|| Map::between(&self.text, current)).as_ref();
        let place = map.and_then(|map| map.place(rows.clone()));
        let mut near = map.map_or_else(|| vec![rows.start], |map| map.near(rows.start));
        if place.is_none() {
            let around = near.first().copied().unwrap_or(rows.start);
            near.extend(self.alike(current, rows.start, around));
        }
        Claim { place, near }
    }

    /// Returns the rows nearest to this one that have the same text: the line may have been moved there.
    fn alike(&self, current: &Text, row: usize, around: usize) -> Vec<usize> {
        const FEW: usize = 3;
        let Some(line) = self.text.line(row).filter(|line| !line.trim().is_empty()) else {
            return Vec::new();
        };
        let mut alike: Vec<usize> =
            (0..current.line_count()).filter(|row| current.line(*row).as_ref() == Some(&line)).collect();
        alike.sort_by_key(|row| row.abs_diff(around));
        alike.truncate(FEW);
        alike
    }
}

impl Refusal {
    fn stale(what: String, rows: Rows) -> Self {
        Self { kind: Kind::Stale, what, next: None, rows, retired: Vec::new(), more: Vec::new() }
    }
}

/// `line 4` or `lines 4-6`.
pub(super) fn lines(rows: &Range<usize>) -> String {
    if rows.len() <= 1 {
        format!("line {}", rows.start + 1)
    } else {
        format!("lines {}-{}", rows.start + 1, rows.end)
    }
}

/// `line 4 was` or `lines 4-6 were`.
fn lines_were(rows: &Range<usize>) -> String {
    format!("{} {}", lines(rows), if rows.len() <= 1 { "was" } else { "were" })
}
