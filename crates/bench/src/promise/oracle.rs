//! The oracle: where the meant lines are, by two definitions that share nothing with the code under test.

use std::{collections::BTreeSet, ops::Range};

use super::world::Sheet;

/// Returns the place of rows of `then` in `now` by every longest common subsequence of the two: each row has
/// one place only, none may be left out, and the places are adjacent.
///
/// All longest common subsequences are walked at once, over a full table of the remaining lengths.
pub(super) fn by_definition(then: &Sheet, now: &Sheet, rows: &Range<usize>) -> Option<usize> {
    let (a, b) = (then.texts(), now.texts());
    let left = Table::left(&a, &b);
    let mut reached = BTreeSet::from([(0, 0)]);
    let mut places: Vec<BTreeSet<Option<usize>>> = vec![BTreeSet::new(); a.len()];
    while let Some((i, j)) = reached.pop_first() {
        let here = left.at(i, j);
        if i < a.len() && left.at(i + 1, j) == here {
            reached.insert((i + 1, j));
            places.get_mut(i)?.insert(None);
        }
        if j < b.len() && left.at(i, j + 1) == here {
            reached.insert((i, j + 1));
        }
        if let (Some(one), Some(other)) = (a.get(i), b.get(j))
            && one == other
            && left.at(i + 1, j + 1) + 1 == here
        {
            reached.insert((i + 1, j + 1));
            places.get_mut(i)?.insert(Some(j));
        }
    }
    let only = |places: &BTreeSet<Option<usize>>| if places.len() == 1 { *places.first()? } else { None };
    let meant = places.get(rows.clone())?;
    let first = only(meant.first()?)?;
    meant.iter().enumerate().all(|(at, places)| only(places) == Some(first + at)).then_some(first)
}

/// Returns the place of the very same lines, if all exist and are adjacent.
pub(super) fn by_identity(then: &Sheet, now: &Sheet, rows: &Range<usize>) -> Option<usize> {
    let ids: Vec<usize> = then.lines.get(rows.clone())?.iter().map(|line| line.id).collect();
    let first = now.lines.iter().position(|line| Some(&line.id) == ids.first())?;
    let there = now.lines.get(first..first + ids.len())?;
    there.iter().map(|line| line.id).eq(ids).then_some(first)
}

/// Returns whether the change from `then` to `now` is visible in the text: no new line reads like an old one,
/// and no line moved past others unless each was unique.
pub(super) fn is_visible(then: &Sheet, now: &Sheet) -> bool {
    let old: BTreeSet<&str> = then.lines.iter().map(|line| line.text.as_str()).collect();
    let row = |id: usize| then.lines.iter().position(|line| line.id == id);
    let kept: Vec<usize> = now.lines.iter().filter_map(|line| row(line.id)).collect();
    let new_are_new =
        now.lines.iter().filter(|line| row(line.id).is_none()).all(|line| !old.contains(&*line.text));
    new_are_new && (kept.is_sorted() || old.len() == then.lines.len())
}

/// Returns the places where a text occurs, as the rows of its characters. Places may overlap.
pub(super) fn occurrences(sheet: &Sheet, old: &str) -> Vec<Range<usize>> {
    let joined = sheet.joined();
    joined
        .char_indices()
        .filter(|(at, _)| joined.get(*at..).is_some_and(|rest| rest.starts_with(old)))
        .map(|(at, _)| {
            let row_of = |at: usize| joined.bytes().take(at).filter(|byte| *byte == b'\n').count();
            row_of(at)..row_of((at + old.len()).saturating_sub(1)) + 1
        })
        .collect()
}

/// Returns the places where these lines are adjacent.
pub(super) fn blocks(sheet: &Sheet, old: &[String]) -> Vec<Range<usize>> {
    let texts = sheet.texts();
    (0..texts.len())
        .map(|row| row..row + old.len())
        .filter(|rows| texts.get(rows.clone()).is_some_and(|there| there.iter().eq(old.iter())))
        .collect()
}

/// The length of the longest common subsequence of each pair of suffixes.
struct Table {
    width: usize,
    cells: Vec<usize>,
}

impl Table {
    fn left(a: &[&str], b: &[&str]) -> Self {
        let width = b.len() + 1;
        let mut table = Self { width, cells: vec![0; width * (a.len() + 1)] };
        for (i, one) in a.iter().enumerate().rev() {
            for (j, other) in b.iter().enumerate().rev() {
                let longest = if one == other {
                    table.at(i + 1, j + 1) + 1
                } else {
                    table.at(i + 1, j).max(table.at(i, j + 1))
                };
                if let Some(cell) = table.cells.get_mut(i * width + j) {
                    *cell = longest;
                }
            }
        }
        table
    }

    fn at(&self, i: usize, j: usize) -> usize {
        self.cells.get(i * self.width + j).copied().unwrap_or(0)
    }
}
