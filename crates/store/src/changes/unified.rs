//! Unified diffs of two texts: three lines of context, masked, cut to a budget.

use std::{borrow::Cow, ops::Range, time::Duration};

use kit::{redact::Secrets, services::Redact};
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline, group_diff_ops};

use super::DiffLimits;

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// Time after which a diff may be longer than necessary; it is still correct.
const TIMEOUT: Duration = Duration::from_millis(300);

/// The lines of a text, and their masked forms.
pub(super) struct Lines<'a> {
    lines: Vec<&'a str>,
    /// The offset of each line in the text, if it contains secrets.
    starts: Vec<usize>,
    /// The ranges that must not be shown, each with its placeholder.
    hidden: Vec<(Range<usize>, String)>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str, secrets: &Secrets) -> Self {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        // Searched in the whole text: a multi-line key is one secret.
        let hidden: Vec<(Range<usize>, String)> = secrets
            .find(text)
            .into_iter()
            .filter_map(|range| {
                let name = secrets.mask(text.get(range.clone())?).into_owned();
                Some((range, name))
            })
            .collect();
        let mut starts = Vec::new();
        if !hidden.is_empty() {
            let mut start = 0;
            for line in &lines {
                starts.push(start);
                start += line.len();
            }
        }
        Self { lines, starts, hidden }
    }

    /// Returns a line as it may be shown, without its line feed.
    fn shown(&self, at: usize) -> Cow<'a, str> {
        let line = self.lines.get(at).copied().unwrap_or_default();
        let bare = line.strip_suffix('\n').unwrap_or(line);
        let Some(start) = self.starts.get(at).copied() else { return Cow::Borrowed(bare) };
        let end = start + bare.len();
        let mut shown = String::new();
        let mut from = start;
        for (range, name) in self.hidden.iter().filter(|(it, _)| it.start < end && it.end > start) {
            let piece = from.max(start) - start..range.start.max(start) - start;
            shown.push_str(bare.get(piece).unwrap_or_default());
            shown.push_str(name);
            from = range.end.min(end);
        }
        if from == start {
            return Cow::Borrowed(bare);
        }
        shown.push_str(bare.get(from - start..).unwrap_or_default());
        Cow::Owned(shown)
    }

    fn has_line_feed(&self, at: usize) -> bool {
        self.lines.get(at).is_some_and(|it| it.ends_with('\n'))
    }
}

/// The rest of a size limit.
pub(super) struct Budget {
    lines: usize,
    bytes: usize,
    columns: usize,
}

impl Budget {
    pub(super) fn new(limits: DiffLimits) -> Self {
        Self { lines: limits.lines, bytes: limits.bytes, columns: limits.columns }
    }

    /// Reserves space for this line; returns false if the limit is reached.
    fn takes(&mut self, line: &str) -> bool {
        if self.lines == 0 || self.bytes < line.len() {
            self.lines = 0;
            return false;
        }
        self.lines -= 1;
        self.bytes -= line.len();
        true
    }
}

/// A diff, as far as the limit allows.
#[derive(Default)]
pub(super) struct Unified {
    /// Hunks, without the names of the files.
    pub(super) text: String,
    pub(super) added: usize,
    pub(super) removed: usize,
    /// Number of lines beyond the limit.
    pub(super) more: usize,
    /// Whether some lines are shown in part.
    pub(super) has_cut_lines: bool,
}

/// Returns the difference between two texts; without a hunk if they are equal.
pub(super) fn unified(old: &Lines<'_>, new: &Lines<'_>, budget: &mut Budget) -> Unified {
    let deadline = std::time::Instant::now() + TIMEOUT;
    let ops = capture_diff_slices_deadline(Algorithm::Myers, &old.lines, &new.lines, Some(deadline));
    let mut unified = Unified::default();
    for op in &ops {
        if !matches!(op, DiffOp::Equal { .. }) {
            unified.removed += op.old_range().len();
            unified.added += op.new_range().len();
        }
    }
    for group in group_diff_ops(ops, CONTEXT) {
        let Some((first, last)) = group.first().zip(group.last()) else { continue };
        let ranges =
            [first.old_range().start..last.old_range().end, first.new_range().start..last.new_range().end]
                .map(|it| header(&it));
        unified.push(&format!("@@ -{} +{} @@", ranges[0], ranges[1]), budget);
        for op in &group {
            match *op {
                DiffOp::Equal { old_index, len, .. } => {
                    (old_index..old_index + len).for_each(|at| unified.line(' ', old, at, 0, budget));
                }
                _ => unified.changed(old, op.old_range(), new, op.new_range(), budget),
            }
        }
    }
    unified
}

impl Unified {
    /// Adds lines that replace others.
    fn changed(
        &mut self,
        old: &Lines<'_>,
        removed: Range<usize>,
        new: &Lines<'_>,
        added: Range<usize>,
        budget: &mut Budget,
    ) {
        // A long line is shown around its first difference from its counterpart.
        let same = |one: usize, other: usize| {
            let one = old.lines.get(one).copied().unwrap_or_default().chars();
            one.zip(new.lines.get(other).copied().unwrap_or_default().chars())
                .take_while(|(a, b)| a == b)
                .count()
        };
        let (before, after) = (removed.clone(), added.clone());
        for at in removed {
            let other = after.start + (at - before.start);
            self.line('-', old, at, if other < after.end { same(at, other) } else { 0 }, budget);
        }
        for at in added {
            let other = before.start + (at - after.start);
            self.line('+', new, at, if other < before.end { same(other, at) } else { 0 }, budget);
        }
    }

    fn line(&mut self, sign: char, of: &Lines<'_>, at: usize, differs: usize, budget: &mut Budget) {
        if budget.lines == 0 {
            self.more += 1;
            return;
        }
        let shown = of.shown(at);
        let (shown, is_cut) = cut(&shown, differs, budget.columns);
        let mut line = format!("{sign}{shown}");
        if !of.has_line_feed(at) {
            line.push_str("\n\\ No newline at end of file");
        }
        self.has_cut_lines |= self.push(&line, budget) && is_cut;
    }

    fn push(&mut self, line: &str, budget: &mut Budget) -> bool {
        let fits = budget.takes(line);
        if fits {
            self.text.push_str(line);
            self.text.push('\n');
        } else {
            self.more += 1;
        }
        fits
    }
}

/// Formats the lines of a hunk on one side for its header: `12,3`.
fn header(range: &Range<usize>) -> String {
    match range.len() {
        // An empty range is named by the line before it.
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        length => format!("{},{length}", range.start + 1),
    }
}

/// Returns at most `columns` characters of a line, around the character `differs`.
fn cut(line: &str, differs: usize, columns: usize) -> (Cow<'_, str>, bool) {
    if line.len() <= columns || line.chars().count() <= columns {
        return (Cow::Borrowed(line), false);
    }
    let start = differs.saturating_sub(columns / 4);
    let piece: String = line.chars().skip(start).take(columns).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if line.chars().nth(start + columns).is_some() { "…" } else { "" };
    (Cow::Owned(format!("{before}{piece}{after}")), true)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::path::Path;

    use kit::text::Content;
    use proptest::prelude::*;

    use super::{
        super::{Change, Version, Versions, changes},
        *,
    };

    fn versions(path: &str, before: Option<&[u8]>, after: Option<&[u8]>) -> Versions {
        let version = |it: Option<&[u8]>| Version::of(it.map(Content::from).as_ref());
        Versions { path: path.into(), before: version(before), after: version(after) }
    }

    fn diff(before: Option<&[u8]>, after: Option<&[u8]>, limits: DiffLimits) -> Change {
        let file = versions("/w/src/a.txt", before, after);
        changes(&[file], Path::new("/w"), &Secrets::none(), limits).into_iter().next().unwrap()
    }

    fn of(before: &str, after: &str) -> Change {
        diff(Some(before.as_bytes()), Some(after.as_bytes()), DiffLimits::default())
    }

    /// Applies a unified diff: each hunk exactly where its header says.
    fn applied(before: &str, diff: &str) -> String {
        let old: Vec<&str> = before.split_inclusive('\n').collect();
        let mut new = String::new();
        let mut at = 0;
        let mut lines = diff.split_inclusive('\n').skip(2).peekable();
        while let Some(line) = lines.next() {
            if let Some(header) = line.strip_prefix("@@ -") {
                let (start, _) = header.split_once(' ').unwrap();
                let (start, length) = start.split_once(',').unwrap_or((start, "1"));
                let start: usize = start.parse().unwrap();
                let first = if length == "0" { start } else { start - 1 };
                new.extend(old[at..first].iter().copied());
                at = first;
                continue;
            }
            let unended = lines.next_if(|it| it.starts_with('\\')).is_some();
            let text = &line[1..];
            let text = if unended { text.strip_suffix('\n').unwrap() } else { text };
            match &line[..1] {
                "+" => new.push_str(text),
                sign => {
                    assert_eq!(old[at], text);
                    at += 1;
                    if sign == " " {
                        new.push_str(text);
                    }
                }
            }
        }
        new.extend(old[at..].iter().copied());
        new
    }

    proptest! {
        #[test]
        fn applying_the_diff_to_what_was_before_gives_what_is_after(
            before in "([ab+ -]{0,3}\r?\n){0,30}[ab@]{0,2}",
            after in "([ab+ -]{0,3}\r?\n){0,30}[ab@]{0,2}",
        ) {
            prop_assume!(before != after);
            let change = diff(Some(before.as_bytes()), Some(after.as_bytes()), DiffLimits::NONE);
            prop_assert_eq!(applied(&before, &change.diff), after.clone());
            let count = |sign: char| change.diff.lines().skip(2).filter(|it| it.starts_with(sign)).count();
            prop_assert_eq!((count('+'), count('-')), (change.added, change.removed));
            prop_assert_eq!((change.more, change.note), (0, None));
        }

        #[test]
        fn a_cut_diff_counts_the_lines_that_it_leaves_out(
            before in "([abc]{0,3}\n){0,60}",
            after in "([abc]{0,3}\n){0,60}",
            lines in 0..50_usize,
        ) {
            prop_assume!(before != after);
            let body = |it: &Change| it.diff.lines().skip(2).count();
            let whole = diff(Some(before.as_bytes()), Some(after.as_bytes()), DiffLimits::NONE);
            let cut = diff(Some(before.as_bytes()), Some(after.as_bytes()), DiffLimits { lines, ..DiffLimits::NONE });
            prop_assert_eq!((whole.added, whole.removed), (cut.added, cut.removed));
            prop_assert_eq!(cut.more, body(&whole).saturating_sub(lines));
            prop_assert_eq!(cut.diff.contains('…'), cut.more > 0);
            if cut.more > 0 {
                prop_assert_eq!(body(&cut), lines + 1);
            }
        }
    }

    #[test]
    fn a_diff_is_as_patch_takes_it() {
        let change = of("1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\nfive\n6\n7\n8");
        assert_eq!((change.added, change.removed, change.path.as_str()), (2, 2, "src/a.txt"));
        assert_eq!(
            change.diff,
            "--- a/src/a.txt\n+++ b/src/a.txt\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n-8\n+8\n\\ No newline at end of file\n"
        );
    }

    #[test]
    fn created_and_deleted_files_differ_from_empty_ones() {
        let made = diff(None, Some(b"a\nb\n"), DiffLimits::default());
        assert_eq!(made.diff, "--- /dev/null\n+++ b/src/a.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n");
        let gone = diff(Some(b"a\n"), None, DiffLimits::default());
        assert_eq!(gone.diff, "--- a/src/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n");
        let emptied = of("a\n", "");
        assert_eq!(emptied.diff, "--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1 +0,0 @@\n-a\n");
        let empty = diff(None, Some(b""), DiffLimits::default());
        assert_eq!((empty.diff.as_str(), empty.note.as_deref()), ("", Some("empty file")));
        let kinds = [made, gone, emptied].map(|it| serde_json::to_value(it.kind).unwrap());
        assert_eq!(kinds, ["created", "deleted", "changed"]);
    }

    #[test]
    fn binary_files_are_shown_by_size() {
        let change = diff(Some(b"\x7fELF\0\0"), Some(b"\x7fELF\0\0\0\0"), DiffLimits::default());
        assert_eq!((change.diff.as_str(), change.added), ("", 0));
        assert_eq!(change.note.as_deref(), Some("binary, 6 bytes -> 8 bytes"));
        let made = diff(None, Some(b"\0\0\0\0"), DiffLimits::default());
        assert_eq!(made.note.as_deref(), Some("binary, 4 bytes"));
        let json = serde_json::to_string(&made).unwrap();
        assert_eq!(
            json,
            r#"{"path":"src/a.txt","kind":"created","added":0,"removed":0,"diff":"","note":"binary, 4 bytes"}"#
        );
    }

    #[test]
    fn other_encodings_are_decoded_and_a_change_of_encoding_is_shown() {
        let wide = |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
        let (one, two) = (wide("\u{feff}grün\nrot\n"), wide("\u{feff}grün\nblau\n"));
        let change = diff(Some(&one), Some(&two), DiffLimits::default());
        assert!(change.diff.ends_with("@@ -1,2 +1,2 @@\n grün\n-rot\n+blau\n"), "{}", change.diff);
        assert_eq!(change.note, None);
        let change = diff(Some(&one), Some("grün\nrot\n".as_bytes()), DiffLimits::default());
        assert_eq!(
            (change.diff.as_str(), change.note.as_deref()),
            ("", Some("encoding: UTF-16 LE -> UTF-8"))
        );
        let change = of("a\n", "\u{feff}a\n");
        assert_eq!((change.diff.as_str(), change.note.as_deref()), ("", Some("byte order mark added")));
        let broken = diff(
            Some(b"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9 \xff\n"),
            Some(b"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9 \xfe\n"),
            DiffLimits::default(),
        );
        assert_eq!(broken.note.as_deref(), Some("only bytes that are not valid text differ"));
    }

    #[test]
    fn a_secret_is_masked_in_every_line_of_it_and_the_lines_stay_lines() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nshort=\n-----END KEY-----";
        let secrets = Secrets::collect::<&str, &str>(
            [],
            [("key".to_owned(), key.to_owned()), ("token".to_owned(), "hunter2!".to_owned())],
        );
        let before = format!("a\nkey = {key} end\nz\n");
        let after = format!("a\nkey = {key} end\nz = hunter2!, hunter2!\n");
        let file = versions("/w/x", Some(before.as_bytes()), Some(after.as_bytes()));
        let change =
            changes(&[file], Path::new("/w"), &secrets, DiffLimits::NONE).into_iter().next().unwrap();
        assert!(!change.diff.contains("short=") && !change.diff.contains("hunter2"), "{}", change.diff);
        assert!(
            change.diff.ends_with(
                "@@ -3,4 +3,4 @@\n [masked:key]\n [masked:key]\n [masked:key] end\n-z\n+z = [masked:token], [masked:token]\n"
            ),
            "{}",
            change.diff
        );
    }

    #[test]
    fn a_long_line_is_cut_around_what_changed_in_it() {
        let long = |middle: &str| format!("{}{middle}{}\n", "x".repeat(3_000), "y".repeat(3_000));
        let change = of(&long("OLD"), &long("NEW"));
        assert!(change.diff.contains("xxOLDyy") && change.diff.contains("xxNEWyy"), "{}", change.diff);
        assert!(change.diff.lines().all(|it| it.chars().count() <= 503), "{}", change.diff);
        assert_eq!(change.note.as_deref(), Some("long lines are cut"));
    }

    #[test]
    fn all_files_of_a_call_share_one_budget() {
        let text = "line\n".repeat(300);
        let files: Vec<Versions> =
            (0..3).map(|at| versions(&format!("/w/{at}"), None, Some(text.as_bytes()))).collect();
        let all = changes(&files, Path::new("/w"), &Secrets::none(), DiffLimits::default());
        let more: Vec<(usize, usize)> = all.iter().map(|it| (it.added, it.more)).collect();
        assert_eq!(more, [(300, 0), (300, 202), (300, 301)]);
        assert!(all[1].diff.ends_with("\n+line\n… 202 more lines\n"));
    }

    #[test]
    fn a_path_cannot_break_the_lines_of_the_diff() {
        let file = versions("/w/a\n+++ b/evil\u{1b}[2J", None, Some(b"x\n"));
        let change = &changes(&[file], Path::new("/w"), &Secrets::none(), DiffLimits::NONE)[0];
        assert_eq!(change.diff.lines().nth(1), Some("+++ b/a\\n+++ b/evil\\u{1b}[2J"));
    }
}
