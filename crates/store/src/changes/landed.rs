//! File changes that were made while a call runs: held in memory until its answer, within a limit.

use std::path::{Path, PathBuf};

use kit::{services::After, text::Content, tool_writes};
use parking_lot::Mutex;

use super::{Version, Versions};

/// Maximum bytes of contents that are held for one call; of further ones only the sizes are known.
const HELD: usize = 64 << 20;

/// Maximum number of files that are held for one call.
const FILES: usize = 1_000;

/// The changes made during one call.
#[derive(Default)]
pub struct Landed(Mutex<Vec<Versions>>);

impl Landed {
    /// Adds a change. Several changes of one file are merged, unless another program changed it between them.
    pub fn add(&self, path: &Path, before: Option<&Content>, after: After<'_>) {
        tool_writes::note(path);
        let after = match after {
            After::Gone => Version::Absent,
            After::Holds(content) => Version::Known(content.clone()),
            After::Long(bytes) => Version::Long(bytes),
        };
        self.put(Versions { path: path.to_owned(), before: Version::of(before), after });
    }

    /// Adds the changes of a call that was made by this one.
    pub fn extend(&self, files: impl IntoIterator<Item = Versions>) {
        files.into_iter().for_each(|it| self.put(it));
    }

    /// Returns the changes, and forgets them.
    pub fn take(&self) -> Vec<Versions> {
        let mut files = std::mem::take(&mut *self.0.lock());
        files.retain(|it| it.before != it.after);
        files
    }

    /// Returns the paths that were changed.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.0.lock().iter().map(|it| it.path.clone()).collect()
    }

    fn put(&self, new: Versions) {
        let mut files = self.0.lock();
        let held: usize = files.iter().map(|it| it.before.bytes() + it.after.bytes()).sum();
        let new = if held + new.before.bytes() + new.after.bytes() > HELD {
            Versions { before: sized(new.before), after: sized(new.after), path: new.path }
        } else {
            new
        };
        if let Some(last) = files.iter_mut().rfind(|it| it.path == new.path) {
            if last.after == new.before {
                last.after = new.after;
                return;
            }
            // An undo of a command reports what it did, and the log of its own changes has the same.
            if (&last.before, &last.after) == (&new.before, &new.after) {
                return;
            }
        }
        if files.len() < FILES {
            files.push(new);
        }
    }
}

fn sized(version: Version) -> Version {
    match version {
        Version::Known(content) => Version::Long(content.len() as u64),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(landed: &Landed, path: &str, before: Option<&str>, after: Option<&str>) {
        let content = |it: &str| Content::from(it.as_bytes());
        let (before, after) = (before.map(content), after.map(content));
        landed.add(Path::new(path), before.as_ref(), after.as_ref().map_or(After::Gone, After::Holds));
    }

    fn told(landed: &Landed) -> Vec<(String, usize, usize)> {
        let files = landed.take();
        files.iter().map(|it| (it.path.display().to_string(), it.before.bytes(), it.after.bytes())).collect()
    }

    #[test]
    fn several_changes_of_a_file_are_one() {
        let landed = Landed::default();
        add(&landed, "a", Some("1"), Some("22"));
        add(&landed, "b", None, Some("x"));
        add(&landed, "a", Some("22"), Some("333"));
        assert_eq!(told(&landed), [("a".to_owned(), 1, 3), ("b".to_owned(), 0, 1)]);
        assert_eq!(told(&landed), []);
    }

    #[test]
    fn a_change_that_is_reported_twice_is_one() {
        let landed = Landed::default();
        for _ in 0..2 {
            add(&landed, "a", None, Some("1"));
            add(&landed, "b", Some("1"), None);
        }
        assert_eq!(told(&landed), [("a".to_owned(), 0, 1), ("b".to_owned(), 1, 0)]);
    }

    #[test]
    fn changes_by_others_are_not_shown_as_the_call_s() {
        let landed = Landed::default();
        add(&landed, "a", Some("1"), Some("22"));
        add(&landed, "a", Some("somebody"), Some("333"));
        assert_eq!(told(&landed), [("a".to_owned(), 1, 2), ("a".to_owned(), 8, 3)]);
    }

    #[test]
    fn a_reverted_change_is_not_shown() {
        let landed = Landed::default();
        add(&landed, "a", Some("1"), Some("2"));
        add(&landed, "a", Some("2"), Some("1"));
        add(&landed, "b", None, Some("x"));
        add(&landed, "b", Some("x"), None);
        assert_eq!(told(&landed), []);
    }

    #[test]
    fn contents_beyond_the_bound_are_known_by_their_size_only() {
        let landed = Landed::default();
        let large = "x".repeat(HELD / 2);
        add(&landed, "a", None, Some(&large));
        add(&landed, "b", Some(&large), Some("new"));
        let files = landed.take();
        assert!(matches!(files.first().map(|it| &it.after), Some(Version::Known(_))));
        let sizes = files.last().map(|it| (it.before.size(), it.after.size(), it.before.bytes()));
        assert_eq!(sizes, Some((Some(HELD as u64 / 2), Some(3), 0)));
    }
}
