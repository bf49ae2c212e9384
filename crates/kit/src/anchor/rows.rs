//! Sets of rows.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A set of rows: sorted ranges that neither touch nor overlap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows {
    ranges: Vec<Range<usize>>,
}

impl Rows {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the ranges, in order.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// Returns the rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.ranges.iter().cloned().flatten()
    }

    /// Returns the number of rows.
    pub fn count(&self) -> usize {
        self.ranges.iter().map(ExactSizeIterator::len).sum()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns whether a row is in the set.
    pub fn contains(&self, row: usize) -> bool {
        self.covers(row..row + 1)
    }

    /// Returns whether all these rows are in the set.
    pub fn covers(&self, rows: Range<usize>) -> bool {
        if rows.is_empty() {
            return true;
        }
        let at = self.ranges.partition_point(|range| range.end <= rows.start);
        self.ranges.get(at).is_some_and(|range| range.start <= rows.start && rows.end <= range.end)
    }

    /// Adds rows.
    pub fn add(&mut self, rows: Range<usize>) {
        if rows.is_empty() {
            return;
        }
        let from = self.ranges.partition_point(|range| range.end < rows.start);
        let to = self.ranges.partition_point(|range| range.start <= rows.end);
        let touched = self.ranges.get(from..to).unwrap_or_default();
        let start = touched.first().map_or(rows.start, |range| range.start.min(rows.start));
        let end = touched.last().map_or(rows.end, |range| range.end.max(rows.end));
        self.ranges.splice(from..to, std::iter::once(start..end));
    }

    /// Adds all the other's rows.
    pub fn add_all(&mut self, other: &Self) {
        for range in &other.ranges {
            self.add(range.clone());
        }
    }

    /// Removes rows.
    pub fn remove(&mut self, rows: Range<usize>) {
        if rows.is_empty() {
            return;
        }
        let from = self.ranges.partition_point(|range| range.end <= rows.start);
        let to = self.ranges.partition_point(|range| range.start < rows.end);
        let touched = self.ranges.get(from..to.max(from)).unwrap_or_default();
        let before = touched.first().map(|range| range.start..rows.start);
        let after = touched.last().map(|range| rows.end..range.end);
        let kept: Vec<_> = before.into_iter().chain(after).filter(|range| !range.is_empty()).collect();
        self.ranges.splice(from..to.max(from), kept);
    }

    /// Removes all the other's rows.
    pub fn remove_all(&mut self, other: &Self) {
        for range in &other.ranges {
            self.remove(range.clone());
        }
    }
}

impl FromIterator<Range<usize>> for Rows {
    fn from_iter<I: IntoIterator<Item = Range<usize>>>(ranges: I) -> Self {
        let mut rows = Self::new();
        for range in ranges {
            rows.add(range);
        }
        rows
    }
}

impl From<Range<usize>> for Rows {
    fn from(rows: Range<usize>) -> Self {
        std::iter::once(rows).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_like_a_set(acts in proptest::collection::vec((any::<bool>(), 0..30_usize, 0..8_usize), 0..12)) {
            let mut rows = Rows::new();
            let mut set = BTreeSet::new();
            for (add, start, length) in acts {
                let range = start..start + length;
                if add {
                    rows.add(range.clone());
                    set.extend(range);
                } else {
                    rows.remove(range.clone());
                    set.retain(|row| !range.contains(row));
                }
                prop_assert!(rows.iter().eq(set.iter().copied()));
                prop_assert_eq!(rows.count(), set.len());
                prop_assert!(rows.ranges().is_sorted_by(|one, next| one.end < next.start));
                prop_assert!((0..40).all(|row| rows.contains(row) == set.contains(&row)));
            }
        }
    }
}
