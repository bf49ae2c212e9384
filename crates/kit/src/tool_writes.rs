//! Files that file tools of this process wrote: tells their writes from those of a command.

use std::{
    collections::{HashMap, VecDeque},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use parking_lot::Mutex;

/// How many are remembered.
const MOST: usize = 4096;

static WRITTEN: LazyLock<Mutex<WrittenFiles>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct WrittenFiles {
    states: HashMap<PathBuf, State>,
    order: VecDeque<PathBuf>,
}

/// Which file it is, and when it changed last: device, number, seconds and nanoseconds.
pub type State = (u64, u64, i64, i64);

/// The state of what has this name, if anything has.
pub fn state(path: &Path) -> Option<State> {
    let about = fs::symlink_metadata(path).ok()?;
    Some((about.dev(), about.ino(), about.ctime(), about.ctime_nsec()))
}

/// Notes that a file tool of this process has just written this file.
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

/// Did a file tool write this file, and has nobody changed it since?
pub fn is_ours(path: &Path, state: State) -> bool {
    WRITTEN.lock().states.get(path) == Some(&state)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_file_counts_until_somebody_else_changes_it() {
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
