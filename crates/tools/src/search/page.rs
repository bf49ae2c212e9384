//! Pagination of results: limits, ordering, and the footer that names the next page.

use std::{
    collections::BTreeMap,
    ops::Range,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use kit::{files::Location, prelude::*};

/// Maximum bytes of an answer.
pub(crate) const MOST_BYTES: usize = 48 * 1024;

/// Maximum number of results of an answer.
const MOST_LIMIT: usize = 1_000;

/// Maximum offset: all results before a page have to be kept, because they are found in no order.
const MOST_OFFSET: usize = 10_000;

/// Time after which a search returns its results so far.
const SEARCH_TIME: Duration = Duration::from_secs(20);

/// The requested range of results.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) offset: usize,
    pub(crate) limit: usize,
}

impl Ask {
    pub(crate) fn new(offset: usize, limit: Option<usize>, default: usize) -> Result<Self, Fault> {
        let limit = limit.unwrap_or(default);
        if limit == 0 {
            return Err(Fault::bad_args("`limit` is 0").next("Give 1 or more, or leave it out."));
        }
        if offset > MOST_OFFSET {
            return Err(Fault::bad_args(format!(
                "`offset` is {}; pages go up to {}",
                thousands(offset),
                thousands(MOST_OFFSET)
            ))
            .next("Narrow the search instead."));
        }
        Ok(Self { offset, limit: limit.min(MOST_LIMIT) })
    }

    /// Returns the number of results to keep, counted from the first.
    pub(crate) fn need(self) -> usize {
        self.offset + self.limit
    }

    pub(crate) fn range(self) -> Range<usize> {
        self.offset..self.need()
    }

    /// Returns the footer of a page that shows `shown` of `total`, such as `3 files`.
    pub(crate) fn footer(self, shown: usize, total: usize, what: &str) -> String {
        let (first, after) = (self.offset + 1, self.offset + shown);
        if shown == 0 {
            return format!("[offset {} is past the last of {what}]", self.offset);
        }
        match (self.offset, after < total) {
            (0, false) => format!("[{what}]"),
            (0, true) => format!("[showing {shown} of {what}; next: offset {after}]"),
            (_, false) => format!("[showing {first} to {after} of {what}; that is all]"),
            (_, true) => format!("[showing {first} to {after} of {what}; next: offset {after}]"),
        }
    }
}

/// Collects the first results by path from those found in no order. By path and not by time of change, so
/// that the next page continues correctly even if files were edited in between.
pub(crate) struct First<T> {
    need: usize,
    kept: usize,
    items: BTreeMap<PathBuf, (usize, T)>,
    /// Number of all results, kept or not.
    pub(crate) total: usize,
    /// Number of paths with results.
    pub(crate) paths: usize,
}

impl<T> First<T> {
    pub(crate) fn new(need: usize) -> Self {
        Self { need, kept: 0, items: BTreeMap::new(), total: 0, paths: 0 }
    }

    /// Returns whether results at this path could be among the first.
    pub(crate) fn wants(&self, path: &Path) -> bool {
        self.kept < self.need || self.items.last_key_value().is_some_and(|(last, _)| path < last.as_path())
    }

    /// Adds the results at a path.
    pub(crate) fn add(&mut self, path: &Path, results: usize, item: T) {
        self.total += results;
        self.paths += 1;
        if !self.wants(path) {
            return;
        }
        self.kept += results;
        self.items.insert(path.to_owned(), (results, item));
        while let Some(last) = self.items.last_entry()
            && self.kept - last.get().0 >= self.need
        {
            self.kept -= last.get().0;
            last.remove();
        }
    }

    /// Returns the kept results, in the order of their paths.
    pub(crate) fn into_items(self) -> impl Iterator<Item = (PathBuf, usize, T)> {
        self.items.into_iter().map(|(path, (results, item))| (path, results, item))
    }
}

/// The time limit of a search.
pub(crate) struct Deadline {
    until: Instant,
    lost: AtomicBool,
}

impl Deadline {
    pub(crate) fn new() -> Self {
        Self::of(SEARCH_TIME)
    }

    pub(crate) fn of(time: Duration) -> Self {
        Self { until: Instant::now() + time, lost: AtomicBool::new(false) }
    }

    /// Returns whether time is left, and records when it is not.
    pub(crate) fn lasts(&self) -> bool {
        if Instant::now() < self.until {
            return true;
        }
        self.lost.store(true, Ordering::Relaxed);
        false
    }

    /// Returns a line on a search that was stopped after `seen`, such as `12 files`.
    pub(crate) fn report(&self, seen: &str) -> Option<String> {
        self.lost.load(Ordering::Relaxed).then(|| {
            format!(
                "[stopped after {} s and {seen}: there may be more; search a smaller part]",
                SEARCH_TIME.as_secs()
            )
        })
    }
}

/// Formats a path as the model should write it, on one line whatever characters it has.
pub(crate) fn shown(location: &Location) -> String {
    let path = location.to_string();
    if path.contains(char::is_control) { format!("{path:?}") } else { path }
}

/// Formats `1,234 files`, `1 file`.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{} {}", thousands(number), if number == 1 { one } else { many })
}

pub(crate) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_first_by_path_and_counts_all() {
        let mut first = First::new(3);
        for (path, results) in [("d", 2), ("b", 1), ("e", 1), ("a", 1), ("c", 5)] {
            first.add(Path::new(path), results, ());
        }
        assert!(!first.wants(Path::new("d")) && first.wants(Path::new("bb")));
        assert_eq!((first.total, first.paths), (10, 5));
        let kept: Vec<_> = first.into_items().map(|(path, results, ())| (path, results)).collect();
        assert_eq!(kept, [("a".into(), 1), ("b".into(), 1), ("c".into(), 5)]);
    }

    #[test]
    fn numbers_are_easy_to_read() {
        let numbers = [0, 12, 999, 1_000, 20_345, 1_234_567];
        assert_eq!(numbers.map(thousands), ["0", "12", "999", "1,000", "20,345", "1,234,567"]);
    }
}
