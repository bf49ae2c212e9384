//! Places of a diff's hunks.

use std::{ops::Range, path::Path};

use super::{
    Trouble, ambiguous_at,
    diff::{self, Hunk, LineRole},
    earlier_views::Past,
    find, not_found,
};
use crate::{
    Fault, Kind,
    text::{Change, FinalNewline, Text},
};

/// Returns the changes of a diff, and what it declares about the final newline.
pub(super) fn changes(
    past: &Past<'_>,
    diff: &str,
    file: &Path,
) -> Result<(Vec<Change>, FinalNewline), Trouble> {
    let mut changes = Vec::new();
    let mut final_newline = FinalNewline::Keep;
    for hunk in diff::parse(diff, file)? {
        let rows = place(past, &hunk)?;
        add(past.current, &hunk, rows.start, &mut changes)?;
        if hunk.old_unended == hunk.new_unended {
            continue;
        }
        if rows.end != past.current.line_count() {
            let what = format!(
                "`\\ No newline at end of file` is in a hunk that ends at line {}, not at the end",
                rows.end
            );
            return Err(Fault::bad_args(what).next("Leave that line out.").into());
        }
        final_newline = if hunk.new_unended { FinalNewline::Drop } else { FinalNewline::Add };
    }
    Ok((changes, final_newline))
}

/// Returns the rows of the file that are the old lines of the hunk; an error unless they are certain.
fn place(past: &Past<'_>, hunk: &Hunk) -> Result<Range<usize>, Trouble> {
    let old = hunk.old();
    if old.is_empty() {
        return gap(past, hunk).map(|row| row..row);
    }
    let picked = hunk.start.and_then(|line| line.checked_sub(1));
    let places = occurrences(past.current, &old, |_| true);
    let place = match places.as_slice() {
        [] => {
            let mut refusal = not_found(past, &old.join("\n"));
            refusal.what = refusal.what.replace("`old` is not", "the old lines of the hunk are not");
            refusal.next = refusal.next.map(|it| it.replace("`old`", "them"));
            refusal.more = refusal.more.iter().map(|it| it.replace("`old` has", "the hunk has")).collect();
            return Err(refusal.into());
        }
        [only] => only,
        several => {
            let numbered = several.iter().find(|rows| Some(rows.start) == picked && past.shown_as_is(rows));
            let next = "add lines of context";
            numbered.ok_or_else(|| ambiguous_at(past, "the old lines of the hunk occur", several, next))?
        }
    };
    past.settled(place, picked, |text, shown| occurrences(text, &old, |rows| shown.covers(rows)))?;
    Ok(place.clone())
}

/// Returns the row of a hunk that has no old line: its line number must give it, and must refer to the current file.
fn gap(past: &Past<'_>, hunk: &Hunk) -> Result<usize, Trouble> {
    let count = past.current.line_count();
    if count == 0 {
        return Ok(0);
    }
    let row = hunk.start.filter(|row| *row <= count);
    let beside = |row: usize| row.saturating_sub(1)..row.max(1).min(count);
    match row {
        Some(row) if past.shown_as_is(&beside(row)) => Ok(row),
        _ => {
            let row = row.unwrap_or(0);
            Err(super::Refusal {
                kind: Kind::Ambiguous,
                what: "a hunk has no line of the file as it is, so its place isn't sure".to_owned(),
                next: Some("Add lines of context, or insert by one of these anchors:".to_owned()),
                rows: past.around(row, 1),
                retired: Vec::new(),
                more: Vec::new(),
            }
            .into())
        }
    }
}

/// Returns the places at which these lines follow each other, with any line endings.
fn occurrences(text: &Text, old: &[&str], within: impl Fn(Range<usize>) -> bool) -> Vec<Range<usize>> {
    let encoded: Option<Vec<_>> = old.iter().map(|line| text.encoding().encode(line).ok()).collect();
    let Some(encoded) = encoded else { return Vec::new() };
    let is_at =
        |row: usize| encoded.iter().enumerate().all(|(at, line)| text.content(row + at) == Some(&**line));
    (0..(text.line_count() + 1).saturating_sub(old.len()))
        .filter(|row| is_at(*row))
        .map(|row| row..row + old.len())
        .filter(|rows| within(rows.clone()))
        .take(find::MOST)
        .collect()
}

/// Adds the changes of a hunk whose old lines begin at `row`. Context is not part of them.
fn add(text: &Text, hunk: &Hunk, row: usize, changes: &mut Vec<Change>) -> Result<(), Trouble> {
    let mut row = row;
    let mut gone = row..row;
    let mut come: Vec<&str> = Vec::new();
    let end = (LineRole::Context, String::new());
    for (role, line) in hunk.lines.iter().chain(std::iter::once(&end)) {
        match role {
            LineRole::Added => come.push(line),
            LineRole::Removed => {
                row += 1;
                gone.end = row;
            }
            LineRole::Context => {
                if !gone.is_empty() || !come.is_empty() {
                    changes.push(text.line_change(gone, &come)?);
                    come.clear();
                }
                row += 1;
                gone = row..row;
            }
        }
    }
    Ok(())
}
