//! Line map: where each line of a view is in the current file.
//!
//! A line has a place only if every shortest difference between the two leaves it unchanged and puts it
//! there. A shortest difference is a path of least cost through the grid of both files: a step down deletes a
//! line, a step right inserts one, each at a cost of 1, and a diagonal step over two equal lines is free.
//! With `F` the least cost from the start and `G` the least cost to the end, a step is on some shortest path
//! exactly when the `F` before it, its cost and the `G` behind it add up to the distance of the files.

use std::{borrow::Cow, collections::HashMap, ops::Range};

use crate::text::Text;

/// Maximum number of cells of the band that are computed; each costs about four nanoseconds.
const CELLS: usize = 128_000_000;
/// Maximum distance, in inserted and deleted lines, that is computed.
const DISTANCE: usize = 20_000;
/// A cost above any distance. Two of them and a step for each row can be added without overflow.
const UNREACHED: u32 = u32::MAX / 4;
const NO_LINE: u32 = u32::MAX;

/// The role of an old line in all shortest differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// All leave it unchanged at this row.
    Kept(usize),
    /// The differences disagree. The first and the last row that it can have.
    Unclear(usize, usize),
    /// All delete it; this row follows.
    Gone(usize),
}

/// The fates of all lines of a text.
#[derive(Debug)]
pub(crate) struct Map {
    fates: Vec<Fate>,
}

impl Map {
    /// Maps the lines of `shown` to `current`. `None` if that would take too long.
    pub(crate) fn between(shown: &Text, current: &Text) -> Option<Self> {
        let (shown, current) = interned(shown, current);
        fates(&shown, &current).map(|fates| Self { fates })
    }

    /// Returns the current place of these rows, if all are certainly unchanged and adjacent.
    pub(crate) fn place(&self, rows: Range<usize>) -> Option<usize> {
        let Some(Fate::Kept(place)) = self.fates.get(rows.start) else { return None };
        let all = self.fates.get(rows)?;
        let adjacent = all.iter().enumerate().all(|(at, fate)| *fate == Fate::Kept(place + at));
        adjacent.then_some(*place)
    }

    /// Returns the rows near which this one may be found.
    pub(crate) fn near(&self, row: usize) -> Vec<usize> {
        match self.fates.get(row) {
            Some(Fate::Kept(row) | Fate::Gone(row)) => vec![*row],
            Some(Fate::Unclear(first, last)) => vec![*first, *last],
            None => Vec::new(),
        }
    }
}

/// Returns the fates of all lines of `a` in `b`. `None` if that would take too long.
pub(crate) fn fates(a: &[u32], b: &[u32]) -> Option<Vec<Fate>> {
    let most = (CELLS / a.len().max(1)).min(a.len() + b.len());
    let distance = distance(a, b, most)?;
    if a.is_empty() {
        return Some(Vec::new());
    }
    let band = Band::new(a, b, distance);
    // The forward costs of every 64th row or so are kept and those between computed
    // again, so that memory grows with the root of the work.
    let step = a.len().isqrt() + 1;
    let mut kept = Vec::new();
    let mut forward = band.first();
    for (row, line) in a.iter().enumerate() {
        if row % step == 0 {
            kept.push(forward.clone());
        }
        forward = band.down(row, *line, &forward);
    }

    let mut fates = vec![Fate::Gone(0); a.len()];
    let mut backward = band.last();
    for (block, first) in kept.into_iter().enumerate().rev() {
        let start = block * step;
        let lines = a.get(start..).unwrap_or_default();
        let mut rows = vec![first];
        for (at, line) in lines.iter().enumerate().take(step - 1) {
            let next = rows.last().map(|row| band.down(start + at, *line, row));
            rows.extend(next);
        }
        for (at, (forward, line)) in rows.iter().zip(lines).enumerate().rev() {
            if let Some(fate) = fates.get_mut(start + at) {
                *fate = band.fate(start + at, *line, forward, &backward);
            }
            backward = band.up(start + at, *line, &backward);
        }
    }
    Some(fates)
}

/// The diagonals that a shortest path can reach: from as many to the left as lines
/// are deleted, to as many to the right as lines are inserted.
struct Band {
    deleted: usize,
    inserted: usize,
    /// `b`, padded on either side for the parts of the band that are outside it. The line at `row + at` faces
    /// row `row` on the diagonal `at`.
    facing: Vec<u32>,
}

impl Band {
    fn new(a: &[u32], b: &[u32], distance: usize) -> Self {
        let deleted = (distance + a.len() - b.len().min(distance + a.len())) / 2;
        let inserted = distance - deleted;
        let room = vec![NO_LINE; deleted];
        Self { deleted, inserted, facing: [&room, b, &room].concat() }
    }

    fn width(&self) -> usize {
        self.deleted + self.inserted + 1
    }

    fn facing(&self, row: usize) -> &[u32] {
        self.facing.get(row..row + self.width()).unwrap_or_default()
    }

    /// Returns the costs from the start to the cells of row 0, and one unreached cell behind.
    fn first(&self) -> Vec<u32> {
        let before = std::iter::repeat_n(UNREACHED, self.deleted);
        before.chain(0..=cost(self.inserted)).chain([UNREACHED]).collect()
    }

    /// Returns the costs from the start to the cells of the row below.
    fn down(&self, row: usize, line: u32, above: &[u32]) -> Vec<u32> {
        let mut below = Vec::with_capacity(above.len());
        let mut left = UNREACHED;
        let cells = self.facing(row).iter().zip(above).zip(above.get(1..).unwrap_or_default());
        for ((facing, diagonal), up) in cells {
            left = if *facing == line { *diagonal } else { left.min(*up) + 1 };
            below.push(left);
        }
        below.push(UNREACHED);
        below
    }

    /// Returns one unreached cell, and the costs from the cells of the last row to the end.
    fn last(&self) -> Vec<u32> {
        let behind = std::iter::repeat_n(UNREACHED, self.deleted);
        std::iter::once(UNREACHED).chain((0..=cost(self.inserted)).rev()).chain(behind).collect()
    }

    /// Returns the costs to the end from the cells of a row, given those of the row below.
    fn up(&self, row: usize, line: u32, below: &[u32]) -> Vec<u32> {
        let mut above = vec![UNREACHED; below.len()];
        let mut right = UNREACHED;
        let cells = self.facing(row).iter().zip(below.get(1..).unwrap_or_default()).zip(below);
        for (out, ((facing, diagonal), down)) in
            above.get_mut(1..).unwrap_or_default().iter_mut().zip(cells).rev()
        {
            right = if *facing == line { *diagonal } else { right.min(*down) + 1 };
            *out = right;
        }
        above
    }

    /// Returns what all shortest paths do in this row.
    fn fate(&self, row: usize, line: u32, forward: &[u32], below: &[u32]) -> Fate {
        let distance = cost(self.deleted + self.inserted);
        let mut kept: Option<(usize, usize)> = None;
        let mut gone = None;
        let cells =
            self.facing(row).iter().zip(forward).zip(below.get(1..).unwrap_or_default().iter().zip(below));
        for (at, ((facing, before), (diagonal, down))) in cells.enumerate() {
            let place = || (row + at).saturating_sub(self.deleted);
            if *facing == line && before + diagonal == distance {
                kept = Some((kept.map_or_else(place, |(first, _)| first), place()));
            }
            if before + 1 + down == distance {
                gone = gone.or_else(|| Some(place()));
            }
        }
        match (kept, gone) {
            (Some((first, last)), None) if first == last => Fate::Kept(first),
            (Some((first, last)), _) => Fate::Unclear(first, last),
            (None, place) => Fate::Gone(place.unwrap_or(row)),
        }
    }
}

fn cost(lines: usize) -> u32 {
    u32::try_from(lines).unwrap_or(UNREACHED)
}

/// Returns the number of lines that a shortest difference deletes and inserts, if at most `most`.
fn distance(a: &[u32], b: &[u32], most: usize) -> Option<usize> {
    // A common head or tail does not change the length of a shortest difference.
    let head = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (a.get(head..)?, b.get(head..)?);
    let tail = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (a.get(..a.len() - tail)?, b.get(..b.len() - tail)?);
    if a.is_empty() || b.is_empty() {
        let all = a.len() + b.len();
        return (all <= most).then_some(all);
    }
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
    greedy(a, b, most.min(DISTANCE))
}

/// Myers, "An O(ND) Difference Algorithm and Its Variations" (1986), forward only.
fn greedy(a: &[u32], b: &[u32], most: usize) -> Option<usize> {
    let most = most.min(a.len() + b.len());
    // furthest[k + most + 1]: the furthest row reached on the diagonal row - column = k.
    let mut furthest = vec![0_usize; 2 * most + 3];
    let middle = most + 1;
    let mut work = 0_usize;
    for edits in 0..=most {
        for slot in (middle - edits..=middle + edits).step_by(2) {
            let up = furthest.get(slot - 1).copied().unwrap_or(0);
            let left = furthest.get(slot + 1).copied().unwrap_or(0);
            let inserted = slot == middle - edits || (slot != middle + edits && up < left);
            let mut row = if inserted { left } else { up + 1 };
            let Some(mut column) = (row + middle).checked_sub(slot) else { continue };
            let begun = row;
            while let (Some(line), Some(other)) = (a.get(row), b.get(column))
                && line == other
            {
                row += 1;
                column += 1;
            }
            if row >= a.len() && column >= b.len() {
                return Some(edits);
            }
            if let Some(furthest) = furthest.get_mut(slot) {
                *furthest = row;
            }
            work += 1 + row - begun;
        }
        if work > CELLS {
            return None;
        }
    }
    None
}

/// Numbers the lines of both texts; equal lines have equal numbers, whatever their line endings.
fn interned(a: &Text, b: &Text) -> (Vec<u32>, Vec<u32>) {
    let raw = a.encoding() == b.encoding();
    let mut numbers = HashMap::new();
    let a = numbered(a, raw, &mut numbers);
    let b = numbered(b, raw, &mut numbers);
    (a, b)
}

fn numbered<'a>(text: &'a Text, raw: bool, numbers: &mut HashMap<Cow<'a, [u8]>, u32>) -> Vec<u32> {
    (0..text.line_count())
        .map(|row| {
            let next = cost(numbers.len());
            *numbers.entry(key(text, row, raw)).or_insert(next)
        })
        .collect()
}

/// Returns the key of a line: its bytes, or its characters if the encodings differ.
fn key(text: &Text, row: usize, raw: bool) -> Cow<'_, [u8]> {
    let content = text.content(row).unwrap_or_default();
    if raw {
        return Cow::Borrowed(content);
    }
    let line = text.line(row).unwrap_or_default();
    if line.contains(char::REPLACEMENT_CHARACTER) {
        // Two lines that can't be decoded may look alike and still differ; 0xff begins no line in UTF-8.
        return Cow::Owned([b"\xff", content].concat());
    }
    Cow::Owned(line.into_owned().into_bytes())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Returns all shortest differences: every longest common subsequence as its pairs of rows.
    fn all_alignments(a: &[u32], b: &[u32]) -> Vec<Vec<(usize, usize)>> {
        fn extend(
            (a, b): (&[u32], &[u32]),
            from: (usize, usize),
            pairs: &mut Vec<(usize, usize)>,
            found: &mut Vec<Vec<(usize, usize)>>,
        ) {
            found.push(pairs.clone());
            for i in from.0..a.len() {
                for j in from.1..b.len() {
                    if a[i] == b[j] {
                        pairs.push((i, j));
                        extend((a, b), (i + 1, j + 1), pairs, found);
                        pairs.pop();
                    }
                }
            }
        }
        let mut found = Vec::new();
        extend((a, b), (0, 0), &mut Vec::new(), &mut found);
        let longest = found.iter().map(Vec::len).max().unwrap();
        found.retain(|pairs| pairs.len() == longest);
        found
    }

    /// Returns the rows that each row of `a` can have, and whether it can be deleted, by the optimal moves of
    /// a full table of longest common subsequences.
    fn by_table(a: &[u32], b: &[u32]) -> Vec<(BTreeSet<usize>, bool)> {
        let (n, m) = (a.len(), b.len());
        let mut longest = vec![vec![0_usize; m + 1]; n + 1];
        for i in (0..n).rev() {
            for j in (0..m).rev() {
                longest[i][j] = if a[i] == b[j] {
                    longest[i + 1][j + 1] + 1
                } else {
                    longest[i + 1][j].max(longest[i][j + 1])
                };
            }
        }
        let mut reached = vec![vec![false; m + 1]; n + 1];
        reached[0][0] = true;
        let mut fates = vec![(BTreeSet::new(), false); n];
        for i in 0..=n {
            for j in 0..=m {
                if !reached[i][j] {
                    continue;
                }
                if i < n && longest[i + 1][j] == longest[i][j] {
                    reached[i + 1][j] = true;
                    fates[i].1 = true;
                }
                if j < m && longest[i][j + 1] == longest[i][j] {
                    reached[i][j + 1] = true;
                }
                if i < n && j < m && a[i] == b[j] && longest[i + 1][j + 1] + 1 == longest[i][j] {
                    reached[i + 1][j + 1] = true;
                    fates[i].0.insert(j);
                }
            }
        }
        fates
    }

    fn kept(fates: &[Fate]) -> Vec<Option<usize>> {
        fates.iter().map(|fate| if let Fate::Kept(row) = fate { Some(*row) } else { None }).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]
        #[test]
        fn agrees_with_all_shortest_differences_written_out(
            a in proptest::collection::vec(0..4_u32, 0..7),
            b in proptest::collection::vec(0..4_u32, 0..7),
        ) {
            let all = all_alignments(&a, &b);
            let expected: Vec<Option<usize>> = (0..a.len()).map(|row| {
                let places: BTreeSet<Option<usize>> = all
                    .iter()
                    .map(|pairs| pairs.iter().find(|(i, _)| *i == row).map(|(_, j)| *j))
                    .collect();
                if places.len() == 1 { places.into_iter().next().unwrap() } else { None }
            }).collect();
            prop_assert_eq!(kept(&fates(&a, &b).unwrap()), expected);
        }

        #[test]
        fn agrees_with_a_full_table(
            a in proptest::collection::vec(0..6_u32, 0..60),
            cuts in proptest::collection::vec((0..60_usize, 0..4_usize, proptest::collection::vec(0..8_u32, 0..4)), 0..5),
        ) {
            let mut b = a.clone();
            for (from, length, new) in cuts {
                let from = from.min(b.len());
                let to = (from + length).min(b.len());
                b.splice(from..to, new);
            }
            let expected: Vec<Fate> = by_table(&a, &b).into_iter().enumerate().map(|(row, (places, gone))| {
                match (places.len(), gone) {
                    (1, false) => Fate::Kept(*places.first().unwrap()),
                    (0, _) => Fate::Gone(row),
                    _ => Fate::Unclear(*places.first().unwrap(), *places.last().unwrap()),
                }
            }).collect();
            let found = fates(&a, &b).unwrap();
            prop_assert_eq!(kept(&found), kept(&expected));
            for (found, expected) in found.iter().zip(&expected) {
                match expected {
                    Fate::Gone(_) => prop_assert!(matches!(found, Fate::Gone(_))),
                    _ => prop_assert_eq!(found, expected),
                }
            }
        }

        #[test]
        fn measures_as_a_full_table_does(
            a in proptest::collection::vec(0..3_u32, 0..30),
            b in proptest::collection::vec(0..3_u32, 0..12),
            most in 0..40_usize,
        ) {
            let mut row: Vec<usize> = (0..=b.len()).collect();
            for (i, line) in a.iter().enumerate() {
                let mut next = vec![i + 1];
                for j in 0..b.len() {
                    next.push(if b[j] == *line { row[j] } else { row[j + 1].min(next[j]) + 1 });
                }
                row = next;
            }
            let expected = row[b.len()];
            prop_assert_eq!(distance(&a, &b, most), (expected <= most).then_some(expected));
            prop_assert_eq!(distance(&b, &a, most), (expected <= most).then_some(expected));
        }
    }

    #[test]
    fn a_brace_that_took_the_place_of_another_is_not_taken_for_it() {
        // a { b } c { d }  ->  a { d }
        let shown = [1, 10, 2, 11, 3, 10, 4, 11];
        let now = [1, 10, 4, 11];
        let fates = fates(&shown, &now).unwrap();
        assert_eq!(fates[0], Fate::Kept(0));
        assert_eq!(fates[6], Fate::Kept(2));
        assert_eq!((fates[1], fates[5]), (Fate::Unclear(1, 1), Fate::Unclear(1, 1)));
    }

    #[test]
    fn follows_lines_through_a_large_file_and_gives_up_on_a_rewritten_one() {
        let shown: Vec<u32> = (0..100_000).map(|row| row % 5000).collect();
        let mut now = shown.clone();
        now.splice(50_000..50_010, []);
        now.splice(20_000..20_000, [9_000_001; 7]);
        let fates_found = fates(&shown, &now).unwrap();
        assert_eq!(fates_found[10], Fate::Kept(10));
        assert_eq!(fates_found[30_000], Fate::Kept(30_007));
        assert_eq!(fates_found[99_999], Fate::Kept(99_996));
        assert!(matches!(fates_found[50_004], Fate::Gone(_)));

        let other: Vec<u32> = (10_000_000..10_100_000).collect();
        assert_eq!(fates(&shown, &other), None);
    }

    #[test]
    fn line_endings_and_encodings_do_not_count_as_differences() {
        let shown = Text::parse("a\nnaïve\nb").unwrap();
        let now = Text::parse(b"new\r\na\r\nna\xefve\r\nb\r\n".to_vec()).unwrap();
        assert_eq!(Map::between(&shown, &now).unwrap().place(0..3), Some(1));
    }
}
