//! Liveness: whether the process that began a call still runs.
//!
//! Each process holds a lock on a file of its own for as long as it lives. The kernel
//! lets go of the lock however the process ends, and a process id that is used again
//! can't be taken for the old one.

use std::{
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use super::paths::private_file;

/// The lock that says that this process lives.
pub(super) struct Life {
    path: PathBuf,
    _lock: File,
}

/// The lock of a process that is dead, held so that nobody else buries it meanwhile.
pub struct Corpse {
    path: PathBuf,
    _lock: Option<File>,
}

impl Life {
    /// Takes the lock of this instance.
    pub(super) fn begin(folder: &Path, instance: &str) -> io::Result<Self> {
        let path = folder.join(instance);
        // Locked under another name first: under its own it is never seen unlocked.
        let fresh = folder.join(format!(".{instance}"));
        let lock = private_file(&fresh)?;
        lock.lock()?;
        std::fs::rename(&fresh, &path)?;
        Ok(Self { path, _lock: lock })
    }

    /// Lets go of it, when nothing is left to ask this process for.
    pub(super) fn end(self) {
        drop(std::fs::remove_file(&self.path));
    }
}

/// The lock of `instance` when that process is dead, and nobody else is at it.
pub fn corpse(folder: &Path, instance: &str) -> Option<Corpse> {
    let path = folder.join(instance);
    let lock = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Corpse { path, _lock: None }),
        // What can't be looked at may be alive.
        Err(_) => return None,
    };
    match lock.try_lock() {
        Ok(()) => Some(Corpse { path, _lock: Some(lock) }),
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => None,
    }
}

impl Corpse {
    /// Removes what is left of it.
    pub(crate) fn bury(self) {
        drop(std::fs::remove_file(&self.path));
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_no_corpse_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let life = Life::begin(folder.path(), "a").unwrap();
        assert!(corpse(folder.path(), "a").is_none());
        // The lock goes, the file stays: as after a kill.
        drop(life);
        let first = corpse(folder.path(), "a").unwrap();
        assert!(corpse(folder.path(), "a").is_none(), "two can't hold one corpse");
        first.bury();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
