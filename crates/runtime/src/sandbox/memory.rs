//! What was found below a root when it was last searched for folders of git's, and is that still so?
//!
//! A search reads every folder, and each tool that is a file needs one for its own sandbox. Whatever is made, removed or
//! renamed in a folder changes the time of that folder's last change, which nobody can set: as long as no folder that was
//! read has another one, the same would be found again.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;

/// A folder that was changed this shortly before it was read may be changed again without another time: there are
/// file systems that keep whole seconds.
const COARSE: Duration = Duration::from_millis(2500);

/// The searches of one session. Cheap to clone; all clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    searches: Arc<Mutex<BTreeMap<(PathBuf, Vec<PathBuf>), Search>>>,
}

/// What came of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Search {
    /// The folders that are git's, or have one of git's in them.
    pub(super) found: Vec<PathBuf>,
    /// Not everything was looked at.
    pub(super) cut: bool,
    /// The folders that were read, and when each had last been changed; nothing, if that can't be relied on.
    read: Vec<(PathBuf, Option<Changed>)>,
}

/// When a folder was last changed: seconds and nanoseconds.
type Changed = (i64, i64);

impl Search {
    /// To be called before a folder is read.
    pub(super) fn note(&mut self, folder: &Path) {
        self.read.push((folder.to_owned(), changed(folder).filter(|it| is_settled(*it))));
    }

    fn still_holds(&self) -> bool {
        self.read.iter().all(|(folder, then)| then.is_some() && changed(folder) == *then)
    }
}

impl Memory {
    /// What was found below this root, without what is closed below it, if it would be found again.
    pub(super) fn recall(&self, root: &Path, closed: &[PathBuf]) -> Option<Search> {
        let searches = self.searches.lock();
        let search = searches.get(&(root.to_owned(), closed.to_owned()))?;
        search.still_holds().then(|| search.clone())
    }

    pub(super) fn keep(&self, root: &Path, closed: Vec<PathBuf>, search: Search) {
        self.searches.lock().insert((root.to_owned(), closed), search);
    }
}

fn changed(folder: &Path) -> Option<Changed> {
    let about = fs::symlink_metadata(folder).ok()?;
    Some((about.ctime(), about.ctime_nsec()))
}

fn is_settled((seconds, _): Changed) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(seconds).is_ok_and(|it| Duration::from_secs(it) + COARSE < now)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_search_holds_until_a_folder_changes() {
        let dir = tempfile::tempdir().unwrap();
        let old = PathBuf::from("/");
        let mut search = Search::default();
        search.note(&old);
        let memory = Memory::default();
        memory.keep(&old, Vec::new(), search.clone());
        assert_eq!(memory.recall(&old, &[]), Some(search.clone()));
        assert_eq!(memory.recall(&old, &["/closed".into()]), None);
        // What was just made may still change unseen.
        search.note(dir.path());
        assert!(!search.still_holds());
        search.read = vec![(dir.path().to_owned(), changed(dir.path()))];
        assert!(search.still_holds());
        search.read = vec![(dir.path().to_owned(), Some((1, 1)))];
        assert!(!search.still_holds());
    }
}
