//! Changed regions, and the lines shown after an edit.

use std::ops::Range;

use crate::{
    seen::{Region, Rows},
    text::Text,
};

/// Lines shown on either side of a change.
const CONTEXT: usize = 1;
/// If more lines than this were added in one place, only both ends are shown.
const WHOLE: usize = 12;
const END: usize = 4;

/// Returns the removed and added rows, in order, given the ranges of bytes.
pub(super) fn regions(
    before: &Text,
    after: &Text,
    mut spans: Vec<(Range<usize>, Range<usize>)>,
) -> Vec<Region> {
    spans.sort_by_key(|(old, new)| (old.start, new.start));
    let mut regions: Vec<Region> = Vec::new();
    for (old, new) in spans {
        let (old_start, _) = row_of(before, old.start);
        let (new_start, _) = row_of(after, new.start);
        let (mut old_end, old_at_start) = row_of(before, old.end);
        let (mut new_end, new_at_start) = row_of(after, new.end);
        if !(old_at_start && new_at_start) {
            old_end = (old_end + 1).min(before.line_count());
            new_end = (new_end + 1).min(after.line_count());
        }
        let joins = |(gone, come): &&mut Region| old_start < gone.end || new_start < come.end;
        if let Some((gone, come)) = regions.last_mut().filter(|last| joins(last)) {
            gone.end = gone.end.max(old_end);
            come.end = come.end.max(new_end);
        } else {
            regions.push((old_start..old_end.max(old_start), new_start..new_end.max(new_start)));
        }
    }
    regions.into_iter().map(|region| trimmed(before, after, region)).collect()
}

/// Strips the lines at either end that are the same before and after.
fn trimmed(before: &Text, after: &Text, (mut gone, mut come): Region) -> Region {
    let same = |old: usize, new: usize| before.raw(old) == after.raw(new);
    while !gone.is_empty() && !come.is_empty() && same(gone.start, come.start) {
        gone.start += 1;
        come.start += 1;
    }
    while !gone.is_empty() && !come.is_empty() && same(gone.end - 1, come.end - 1) {
        gone.end -= 1;
        come.end -= 1;
    }
    (gone, come)
}

/// Returns the rows that came, with a few around them, of a text with `count` lines: what is shown after an edit. Of many
/// in one place only the ends are among them.
pub fn around(regions: &[(Range<usize>, Range<usize>)], count: usize) -> Rows {
    let mut rows = Rows::new();
    for (_, new) in regions {
        let (start, end) = (new.start.saturating_sub(CONTEXT), (new.end + CONTEXT).min(count));
        if new.len() <= WHOLE {
            rows.add(start.min(end)..end);
        } else {
            rows.add(start..new.start + END);
            rows.add(new.end - END..end);
        }
    }
    rows
}

/// Returns the row of an offset into the text with its final newline, and whether the row starts there.
fn row_of(text: &Text, offset: usize) -> (usize, bool) {
    let count = text.line_count();
    if offset >= text.gap(count) {
        return (count, true);
    }
    let row = text.row_at(offset);
    (row, text.gap(row) == offset)
}
