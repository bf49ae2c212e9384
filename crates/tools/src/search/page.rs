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

/// Maximum offset where a result is only a path.
const MOST_PATHS: usize = 1_000_000;

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
        Self::within(MOST_OFFSET, offset, limit, default)
    }

    /// Like [`new`](Self::new), for paths.
    pub(crate) fn for_paths(offset: usize, limit: Option<usize>, default: usize) -> Result<Self, Fault> {
        Self::within(MOST_PATHS, offset, limit, default)
    }

    fn within(most: usize, offset: usize, limit: Option<usize>, default: usize) -> Result<Self, Fault> {
        let limit = limit.unwrap_or(default);
        if limit == 0 {
            return Err(Fault::bad_args("`limit` is 0").next("Give 1 or more, or leave it out."));
        }
        if offset > most {
            return Err(Fault::bad_args(format!(
                "`offset` is {}; pages go up to {}",
                thousands(offset),
                thousands(most)
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

/// Collects one page of paths from those found in no order. It keeps the paths up to the end of the page, and some
/// more that it drops now and then.
pub(crate) struct Paths<T> {
    ask: Ask,
    kept: Vec<(PathBuf, T)>,
    /// Further paths are wanted only if they come before this one.
    bound: Option<PathBuf>,
    /// Number of all paths, kept or not.
    pub(crate) total: usize,
}

impl<T> Paths<T> {
    pub(crate) fn new(ask: Ask) -> Self {
        Self { ask, kept: Vec::new(), bound: None, total: 0 }
    }

    pub(crate) fn add(&mut self, path: &Path, item: T) {
        self.total += 1;
        if self.bound.as_deref().is_some_and(|bound| path >= bound) {
            return;
        }
        self.kept.push((path.to_owned(), item));
        let need = self.ask.need();
        if self.kept.len() >= need + need / 4 + 1_000 {
            self.kept.select_nth_unstable_by(need, |one, other| one.0.cmp(&other.0));
            self.bound = self.kept.get(need).map(|(path, _)| path.clone());
            self.kept.truncate(need);
        }
    }

    /// Returns the page, in the order of the paths.
    pub(crate) fn into_page(mut self) -> impl Iterator<Item = (PathBuf, T)> {
        let before = self.ask.offset.min(self.kept.len());
        if (1..self.kept.len()).contains(&before) {
            self.kept.select_nth_unstable_by(before, |one, other| one.0.cmp(&other.0));
        }
        let mut page = self.kept.split_off(before);
        page.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        page.into_iter().take(self.ask.limit)
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
    fn a_page_of_paths_is_the_same_in_whatever_order_they_are_found() {
        let name = |number: usize| format!("{:05}", number * 7_919 % 20_000);
        for offset in [0, 1, 9_990, 15_000, 19_995, 20_000, 30_000] {
            let mut paths = Paths::new(Ask { offset, limit: 10 });
            (0..20_000).for_each(|number| paths.add(Path::new(&name(number)), number));
            assert_eq!(paths.total, 20_000);
            assert!(paths.kept.len() < (offset + 10) * 5 / 4 + 1_000, "{}", paths.kept.len());
            let page: Vec<String> = paths.into_page().map(|(path, _)| path.display().to_string()).collect();
            let expected: Vec<String> = (offset..20_000).take(10).map(|it| format!("{it:05}")).collect();
            assert_eq!(page, expected);
        }
    }

    #[test]
    fn numbers_are_easy_to_read() {
        let numbers = [0, 12, 999, 1_000, 20_345, 1_234_567];
        assert_eq!(numbers.map(thousands), ["0", "12", "999", "1,000", "20,345", "1,234,567"]);
    }
}
