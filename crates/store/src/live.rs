//! Liveness: whether the process that began a call still runs.
//!
//! Each process holds a lock on its own file for as long as it lives. The kernel releases the lock however
//! the process ends, and a reused process id can't be mistaken for the old process.

use std::{
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use super::paths::private_file;

/// The lock that marks this process as alive.
pub(super) struct Life {
    path: PathBuf,
    _lock: File,
}

/// The lock of a dead process, held so that no other process cleans up after it at the same time.
pub struct Corpse {
    path: PathBuf,
    _lock: Option<File>,
}

impl Life {
    /// Takes the lock of this instance.
    pub(super) fn begin(folder: &Path, instance: &str) -> io::Result<Self> {
        let path = folder.join(instance);
        // Locked under another name first, so that the file is never visible unlocked under its own.
        let fresh = folder.join(format!(".{instance}"));
        let lock = private_file(&fresh)?;
        lock.lock()?;
        std::fs::rename(&fresh, &path)?;
        Ok(Self { path, _lock: lock })
    }

    /// Removes the file and releases the lock. Call it once no call of this process needs recovery.
    pub(super) fn end(self) {
        drop(std::fs::remove_file(&self.path));
    }
}

/// Returns the lock of `instance` if that process is dead and no other process holds its lock.
pub fn corpse(folder: &Path, instance: &str) -> Option<Corpse> {
    let path = folder.join(instance);
    let lock = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Corpse { path, _lock: None }),
        // A process whose file can't be opened may be alive.
        Err(_) => return None,
    };
    match lock.try_lock() {
        Ok(()) => Some(Corpse { path, _lock: Some(lock) }),
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => None,
    }
}

impl Corpse {
    /// Removes the lock file of the dead process.
    pub(crate) fn bury(self) {
        drop(std::fs::remove_file(&self.path));
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_process_counts_as_alive_until_its_lock_is_released() {
        let folder = tempfile::tempdir().unwrap();
        let life = Life::begin(folder.path(), "a").unwrap();
        assert!(corpse(folder.path(), "a").is_none());
        // The lock is released and the file stays, as after a kill.
        drop(life);
        let first = corpse(folder.path(), "a").unwrap();
        assert!(corpse(folder.path(), "a").is_none(), "two can't hold one corpse");
        first.bury();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
