//! Folders of a worker below the state folder: one for each piece of work, removed at its end, swept after a crash.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use crate::{Place, state_folder};

/// The folder of all workers, below the state folder.
const WORKERS: &str = "workers";

/// The file that a living worker has locked.
const LOCK: &str = "lock";

/// The contents of workspaces by hash, which the workers of this machine share.
const CONTENTS: &str = "contents";

/// The folder of one worker. It is removed when this is dropped.
pub(super) struct WorkerFolder {
    path: PathBuf,
    contents: PathBuf,
    state: PathBuf,
    /// Locked as long as the worker lives.
    _lock: File,
}

/// The folder of one piece of work, with the workspace in it. Both are removed when this is dropped.
pub(super) struct WorkFolder {
    path: PathBuf,
    state: PathBuf,
}

impl WorkerFolder {
    /// Creates the folder of this worker, and removes those of workers that are gone.
    ///
    /// # Errors
    /// When the state folder can't be written.
    pub(super) fn create(place: &Place, id: &str) -> io::Result<Self> {
        let all = place.state.join(WORKERS);
        state_folder::make(&all)?;
        // Canonical, as the records of a workspace are found by its canonical path.
        let all = all.canonicalize()?;
        // One at a time: a folder that is not locked yet is not that of a dead worker.
        let turn = File::create(all.join(LOCK))?;
        turn.lock()?;
        sweep(&all, &place.state);
        let path = all.join(id);
        state_folder::make(&path)?;
        let lock = File::create_new(path.join(LOCK))?;
        lock.lock()?;
        let contents = all.join(CONTENTS);
        state_folder::make(&contents)?;
        Ok(Self { path, contents, state: place.state.clone(), _lock: lock })
    }

    /// Returns an empty workspace, for a session that runs nothing.
    pub(super) fn empty(&self) -> io::Result<WorkFolder> {
        self.of_work("none")
    }

    /// Creates the folder of a piece of work.
    pub(super) fn of_work(&self, name: &str) -> io::Result<WorkFolder> {
        let path = self.path.join(name);
        state_folder::make(&path)?;
        let folder = WorkFolder { path, state: self.state.clone() };
        state_folder::make(&folder.workspace())?;
        Ok(folder)
    }

    /// Returns the folder of contents by hash.
    pub(super) fn contents(&self) -> &Path {
        &self.contents
    }
}

impl Drop for WorkerFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl WorkFolder {
    /// Returns the workspace.
    pub(super) fn workspace(&self) -> PathBuf {
        self.path.join("workspace")
    }

    /// Returns a file beside the workspace.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        remove(&self.path, &self.state);
    }
}

/// Removes the folder of a piece of work, and haft's records of its workspace. What can't be removed now is swept later.
fn remove(path: &Path, state: &Path) {
    let _ = fs::remove_dir_all(store::folder_of(state, &path.join("workspace")));
    let _ = fs::remove_dir_all(path);
}

/// Removes what workers left that were killed.
fn sweep(all: &Path, state: &Path) {
    let Ok(workers) = fs::read_dir(all) else { return };
    let workers = workers.flatten().map(|it| it.path()).filter(|it| it.is_dir());
    for worker in workers.filter(|it| it.file_name() != Some(CONTENTS.as_ref())) {
        let is_alive =
            OpenOptions::new().read(true).open(worker.join(LOCK)).is_ok_and(|it| it.try_lock().is_err());
        if is_alive {
            continue;
        }
        let works = fs::read_dir(&worker).into_iter().flatten().flatten();
        works.filter(|it| it.path().is_dir()).for_each(|it| remove(&it.path(), state));
        let _ = fs::remove_dir_all(&worker);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn folders_of_dead_workers_are_swept_and_those_of_living_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let place =
            Place { state: dir.path().join("state"), config: dir.path().join("c"), variables: Vec::new() };
        let alive = WorkerFolder::create(&place, "alive").unwrap();
        let work = alive.of_work("w1").unwrap();
        fs::write(work.workspace().join("a.txt"), "a").unwrap();
        let dead = place.state.canonicalize().unwrap().join("workers/dead");
        fs::create_dir_all(dead.join("w2/workspace")).unwrap();
        fs::write(dead.join(LOCK), "").unwrap();
        let records = store::folder_of(&place.state, &dead.join("w2/workspace"));
        fs::create_dir_all(&records).unwrap();
        let other = WorkerFolder::create(&place, "other").unwrap();
        assert!(!dead.exists() && !records.exists() && work.workspace().join("a.txt").exists());
        drop(work);
        assert!(alive.path.exists() && !alive.path.join("w1").exists());
        drop((alive, other));
        let left: Vec<_> = fs::read_dir(place.state.join("workers")).unwrap().flatten().collect();
        assert_eq!(left.len(), 2, "the shared contents and the lock: {left:?}");
    }
}
