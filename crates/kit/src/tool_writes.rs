//! Files that file tools of this process wrote: distinguishes their writes from those of a command.

use std::{
    collections::{HashMap, VecDeque},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use parking_lot::Mutex;

/// Number of files that are remembered.
const MOST: usize = 4096;

static WRITTEN: LazyLock<Mutex<WrittenFiles>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct WrittenFiles {
    states: HashMap<PathBuf, State>,
    order: VecDeque<PathBuf>,
}

/// The identity and change time of a file: device, inode, seconds and nanoseconds.
pub type State = (u64, u64, i64, i64);

/// Returns the state of the file of this name, if it exists.
pub fn state(path: &Path) -> Option<State> {
    let about = fs::symlink_metadata(path).ok()?;
    Some((about.dev(), about.ino(), about.ctime(), about.ctime_nsec()))
}

/// Records that a file tool of this process has just written this file.
pub fn note(path: &Path) {
    let Some(state) = state(path) else { return };
    let mut written = WRITTEN.lock();
    if written.states.insert(path.to_owned(), state).is_none() {
        written.order.push_back(path.to_owned());
    }
    if written.order.len() > MOST
        && let Some(oldest) = written.order.pop_front()
    {
        written.states.remove(&oldest);
    }
}

/// Returns whether a file tool wrote this file, and it has not changed since.
pub fn is_ours(path: &Path, state: State) -> bool {
    WRITTEN.lock().states.get(path) == Some(&state)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_written_file_is_ours_until_somebody_else_changes_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, "a").unwrap();
        note(&path);
        assert!(is_ours(&path, state(&path).unwrap()));
        fs::rename(&path, dir.path().join("y")).unwrap();
        fs::write(&path, "a").unwrap();
        assert!(!is_ours(&path, state(&path).unwrap()));
    }
}
