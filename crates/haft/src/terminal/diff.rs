//! File diffs as terminal rows: line numbers, colours, the words that changed, in a bounded number of rows.
//!
//! Without colours, the signs `+` and `-` carry the same information.

use std::ops::Range;

use agent::{Change, ChangeKind};
use similar::{Algorithm, DiffOp, capture_diff_slices};

use unicode_width::UnicodeWidthChar;

use super::row::{Letter, Row, Style, harmless, wrap};

/// Maximum number of rows of a call's diffs in the chat.
pub(crate) const SHOWN: usize = 40;

/// This many excess rows are shown in full rather than replaced by a line that counts them.
const SLACK: usize = 2;

/// Maximum number of rows of one line of a file.
const ROWS: usize = 4;

/// Below this many columns line numbers are left out.
const NARROW: usize = 30;

/// Two lines are compared word by word if at least this share of them is equal.
const ALIKE: f64 = 0.5;

/// Returns the diffs of a call in at most about `most` rows, each indented by `indent` columns. The last row counts the
/// omitted rows; `hint` names where to find them.
pub(crate) fn rows(changes: &[Change], indent: usize, columns: usize, most: usize, hint: &str) -> Vec<Row> {
    rows_under(header, changes, indent, columns, most, hint)
}

/// Returns the whole diffs of proposed changes: none of them is applied yet.
pub(crate) fn proposed(changes: &[Change], indent: usize, columns: usize) -> Vec<Row> {
    rows_under(proposal, changes, indent, columns, usize::MAX, "")
}

/// Returns one row per file of a call, for diffs that the person has just read.
pub(crate) fn headers(changes: &[Change], indent: usize, columns: usize) -> Vec<Row> {
    let margin = || Row::new(" ".repeat(indent), Style::PLAIN);
    changes.iter().map(|it| margin().and(header(it)).cut(columns)).collect()
}

fn rows_under(
    header: fn(&Change) -> Row,
    changes: &[Change],
    indent: usize,
    columns: usize,
    most: usize,
    hint: &str,
) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut left_out = 0;
    let bodies: Vec<Vec<Vec<Row>>> = changes.iter().map(|it| body(it, indent, columns)).collect();
    let all = changes.len() + bodies.iter().flatten().map(Vec::len).sum::<usize>();
    let most = if all <= most.saturating_add(SLACK) { usize::MAX } else { most };
    for (change, lines) in changes.iter().zip(bodies) {
        if rows.len() >= most {
            left_out += 1 + count(change);
            continue;
        }
        rows.push(Row::new(" ".repeat(indent), Style::PLAIN).and(header(change)).cut(columns));
        let shown = lines.len();
        let mut fits = 0;
        for line in lines {
            if rows.len() + line.len() > most {
                break;
            }
            rows.extend(line);
            fits += 1;
        }
        left_out += change.more + (shown - fits);
    }
    if left_out > 0 {
        let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
        let text = format!("{}… {left_out} more {}{hint}", " ".repeat(indent), lines(left_out));
        rows.extend(Row::new(text, Style::DIM).wrapped(columns, indent));
    }
    rows
}

/// Returns the diffs of a call without colours or numbers, for pipes and logs: at most about `most` lines.
pub(crate) fn plain(changes: &[Change], indent: usize, most: usize, hint: &str) -> Vec<String> {
    plain_under(header, changes, indent, most, hint)
}

/// Returns the whole diffs of proposed changes without colours or numbers.
pub(crate) fn proposed_plain(changes: &[Change], indent: usize) -> Vec<String> {
    plain_under(proposal, changes, indent, usize::MAX, "")
}

fn plain_under(
    header: fn(&Change) -> Row,
    changes: &[Change],
    indent: usize,
    most: usize,
    hint: &str,
) -> Vec<String> {
    let margin = " ".repeat(indent);
    let all: usize = changes.iter().map(|it| 1 + hunks(it).count()).sum();
    let most = if all <= most.saturating_add(SLACK) { usize::MAX } else { most };
    let mut text: Vec<String> = Vec::new();
    let mut left_out = 0;
    for change in changes {
        if text.len() >= most {
            left_out += 1 + count(change);
            continue;
        }
        text.push(format!("{margin}{}", header(change).painted(false)));
        for line in hunks(change) {
            if text.len() < most {
                text.push(format!("{margin}{}", harmless(line)));
            } else {
                left_out += 1;
            }
        }
        left_out += change.more;
    }
    if left_out > 0 {
        let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
        text.push(format!("{margin}… {left_out} more {}{hint}", lines(left_out)));
    }
    text
}

/// Returns the header of an applied change: `src/a.rs (+3 -1)`.
pub(crate) fn header(change: &Change) -> Row {
    let did = match change.kind {
        ChangeKind::Created => "created ",
        ChangeKind::Changed => "",
        ChangeKind::Deleted => "deleted ",
    };
    headed(did, change)
}

/// Returns the header of a proposed change: `create src/a.rs (+3 -0)`.
fn proposal(change: &Change) -> Row {
    let does = match change.kind {
        ChangeKind::Created => "create ",
        ChangeKind::Changed => "",
        ChangeKind::Deleted => "delete ",
    };
    headed(does, change)
}

fn headed(did: &str, change: &Change) -> Row {
    let mut row = Row::new(did, Style::PLAIN).with(harmless(&change.path), Style::BOLD);
    if change.added + change.removed > 0 {
        row = row
            .with(" (", Style::PLAIN)
            .with(format!("+{}", change.added), Style::GOOD)
            .with(" ", Style::PLAIN)
            .with(format!("-{}", change.removed), Style::BAD)
            .with(")", Style::PLAIN);
    }
    match &change.note {
        Some(note) => row.with(format!(": {}", harmless(note)), Style::DIM),
        None => row,
    }
}

/// Returns "line" or "lines", by the count.
fn lines(count: usize) -> &'static str {
    if count == 1 { "line" } else { "lines" }
}

/// Returns the lines of a diff with hunk headers, without file names and the mark of a truncation.
fn hunks(change: &Change) -> impl Iterator<Item = &str> {
    change.diff.split_terminator('\n').skip(2).filter(|it| !it.starts_with('…'))
}

/// Returns how many lines a diff has, omitted ones included and hunk headers not.
fn count(change: &Change) -> usize {
    change.more + hunks(change).filter(|it| !it.starts_with('@')).count()
}

/// A line of a diff with its number in the file.
struct Numbered<'a> {
    sign: char,
    number: usize,
    text: &'a str,
    /// The byte ranges that differ from its counterpart.
    differs: Vec<Range<usize>>,
}

/// Returns the rows of each line.
fn body(change: &Change, indent: usize, columns: usize) -> Vec<Vec<Row>> {
    let (hunks, unended) = parsed(change);
    let last = hunks.iter().flatten().map(|it| it.number).max().unwrap_or(0);
    let digits = if columns.saturating_sub(indent) < NARROW { 0 } else { last.to_string().len() };
    // If all lines of a file end with CR, the CR carries no information.
    let all_cr = hunks.iter().flatten().all(|it| it.text.ends_with('\r'));
    let mut rows = Vec::new();
    let mut lines_before = 0;
    for (at, hunk) in hunks.into_iter().enumerate() {
        if at > 0 {
            let gap = if digits == 0 { 1 } else { digits };
            rows.push(vec![Row::new(format!("{}⋮", " ".repeat(indent + gap - 1)), Style::DIM).cut(columns)]);
        }
        for line in hunk {
            let mut drawn = drawn(&line, all_cr, indent, digits, columns);
            if unended.contains(&lines_before) {
                let margin = " ".repeat(indent + digits + usize::from(digits > 0) + 2);
                drawn.push(Row::new(format!("{margin}(no line break at the end)"), Style::DIM).cut(columns));
            }
            rows.push(drawn);
            lines_before += 1;
        }
    }
    rows
}

/// Parses a diff: returns its hunks, and which of its lines end without a line break.
fn parsed(change: &Change) -> (Vec<Vec<Numbered<'_>>>, Vec<usize>) {
    let (mut all, mut unended): (Vec<Vec<Numbered<'_>>>, Vec<usize>) = (Vec::new(), Vec::new());
    let (mut old, mut new, mut count) = (0, 0, 0);
    for line in hunks(change) {
        if let Some(header) = line.strip_prefix("@@ -") {
            let start = |it: &str| it.split([',', ' ']).next().and_then(|it| it.parse().ok()).unwrap_or(0);
            old = start(header);
            new = header.split_once('+').map_or(0, |it| start(it.1));
            all.push(Vec::new());
            continue;
        }
        let Some(hunk) = all.last_mut() else { continue };
        let Some(sign) = line.chars().next() else { continue };
        let text = line.get(sign.len_utf8()..).unwrap_or_default();
        let number = match sign {
            '-' => counted(&mut old),
            '+' => counted(&mut new),
            ' ' => {
                old += 1;
                counted(&mut new)
            }
            _ => {
                unended.extend(usize::checked_sub(count, 1));
                continue;
            }
        };
        hunk.push(Numbered { sign, number, text, differs: Vec::new() });
        count += 1;
    }
    all.iter_mut().for_each(|it| compare(it));
    (all, unended)
}

/// Finds the words that changed between a removed line and the one that replaces it.
fn compare(hunk: &mut [Numbered<'_>]) {
    let mut at = 0;
    while at < hunk.len() {
        let run = |from: usize, sign: char| {
            hunk.get(from..).unwrap_or_default().iter().take_while(|it| it.sign == sign).count()
        };
        let removed = run(at, '-');
        let added = run(at + removed, '+');
        for pair in 0..removed.min(added) {
            let (one, other) = (at + pair, at + removed + pair);
            let texts = hunk.get(one).zip(hunk.get(other)).map(|(one, other)| (one.text, other.text));
            let Some((before, after)) = texts.and_then(|(one, other)| words_that_differ(one, other)) else {
                continue;
            };
            if let Some(line) = hunk.get_mut(one) {
                line.differs = before;
            }
            if let Some(line) = hunk.get_mut(other) {
                line.differs = after;
            }
        }
        at += (removed + added).max(1);
    }
}

type Ranges = Vec<Range<usize>>;

/// Returns where two lines differ, in bytes of each, or `None` if they have too little in common.
fn words_that_differ(one: &str, other: &str) -> Option<(Ranges, Ranges)> {
    /// Longer lines are not compared: it would take too long for a difference that nobody sees.
    const LONGEST: usize = 4_000;
    if one.len() + other.len() > LONGEST {
        return None;
    }
    let (old, new) = (words(one), words(other));
    let length = |words: &[&str]| words.iter().map(|it| it.len()).sum::<usize>();
    let (mut before, mut after): (Ranges, Ranges) = (Vec::new(), Vec::new());
    let (mut same, mut old_at, mut new_at) = (0, 0, 0);
    for op in capture_diff_slices(Algorithm::Myers, &old, &new) {
        let removed = length(old.get(op.old_range()).unwrap_or_default());
        let added = length(new.get(op.new_range()).unwrap_or_default());
        if matches!(op, DiffOp::Equal { .. }) {
            let text = one.get(old_at..old_at + removed).unwrap_or_default();
            same += text.trim().len();
        } else {
            join(&mut before, old_at..old_at + removed, one);
            join(&mut after, new_at..new_at + added, other);
        }
        old_at += removed;
        new_at += added;
    }
    let total = (one.trim().len() + other.trim().len()).max(1);
    (2.0 * same as f64 / total as f64 >= ALIKE).then_some((before, after))
}

/// Adds a range; merges it with the range before it if only blanks are between them.
fn join(ranges: &mut Ranges, range: Range<usize>, text: &str) {
    match ranges.last_mut() {
        _ if range.is_empty() => {}
        Some(last) if text.get(last.end..range.start).is_some_and(|it| it.trim().is_empty()) => {
            last.end = range.end;
        }
        _ => ranges.push(range),
    }
}

/// Splits a line into words, blanks and signs.
fn words(line: &str) -> Vec<&str> {
    let kind =
        |it: char| if it.is_alphanumeric() || it == '_' { 0 } else { usize::from(it.is_whitespace()) + 1 };
    let mut words = Vec::new();
    let mut start = 0;
    let mut before = None;
    for (at, letter) in line.char_indices() {
        let now = kind(letter);
        // Each sign is a word of its own.
        if before.is_some_and(|it| it != now || now == 1) {
            words.extend(line.get(start..at));
            start = at;
        }
        before = Some(now);
    }
    words.extend(line.get(start..).filter(|it| !it.is_empty()));
    words
}

/// Returns a line of a file in rows of `columns` columns.
fn drawn(line: &Numbered<'_>, all_cr: bool, indent: usize, digits: usize, columns: usize) -> Vec<Row> {
    let look = match line.sign {
        '+' => Style::GOOD,
        '-' => Style::BAD,
        _ => Style::PLAIN,
    };
    let text = if all_cr { line.text.strip_suffix('\r').unwrap_or(line.text) } else { line.text };
    let margin = " ".repeat(indent);
    let number = if digits == 0 { String::new() } else { format!("{:>digits$} ", line.number) };
    let room = columns.saturating_sub(indent + number.len() + 2).max(4);
    let letters = fitting(letters(text, &line.differs, look), room);
    let mut rows = Vec::new();
    for range in wrap(&letters, room, 0, false) {
        let mut row = if rows.is_empty() {
            Row::new(format!("{margin}{number}"), Style::DIM).with(format!("{} ", line.sign), look)
        } else {
            Row::new(format!("{margin}{}", " ".repeat(number.len() + 2)), Style::PLAIN)
        };
        for it in letters.get(range).unwrap_or_default() {
            row = row.with(it.letter, it.style);
        }
        rows.push(row.cut(columns));
    }
    rows
}

/// Returns the visible form of a line, letter by letter.
fn letters(text: &str, differs: &[Range<usize>], look: Style) -> Vec<Letter> {
    let strong = Style { reverse: true, ..look };
    let mut letters = Vec::new();
    let mut add = |range: Range<usize>, style| {
        let shown = harmless(text.get(range).unwrap_or_default());
        letters.extend(shown.chars().map(|letter| Letter { letter, style, end: 0 }));
    };
    let mut from = 0;
    for range in differs {
        add(from..range.start, look);
        add(range.start..range.end.min(text.len()), strong);
        from = range.end;
    }
    add(from.min(text.len())..text.len(), look);
    letters
}

/// Cuts a line that takes too many rows: keeps the part with the first change.
fn fitting(letters: Vec<Letter>, room: usize) -> Vec<Letter> {
    let columns = |letters: &[Letter]| letters.iter().map(|it| it.letter.width().unwrap_or(0)).sum::<usize>();
    let most = room * ROWS;
    if columns(&letters) <= most {
        return letters;
    }
    let first = letters.iter().position(|it| it.style.reverse).unwrap_or(0);
    // Keep a little of the text before it, and fill up with the text after it.
    let start = first.saturating_sub(room / 2);
    let dots = Letter { letter: '…', style: Style::DIM, end: 0 };
    let mut shown: Vec<Letter> = (start > 0).then_some(dots).into_iter().collect();
    let mut used = 2;
    for it in letters.into_iter().skip(start) {
        used += it.letter.width().unwrap_or(0);
        if used > most {
            shown.push(dots);
            break;
        }
        shown.push(it);
    }
    shown
}

/// Returns a line's number, and advances to the next.
fn counted(next: &mut usize) -> usize {
    let this = *next;
    *next += 1;
    this
}

#[cfg(test)]
mod tests;
