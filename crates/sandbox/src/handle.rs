//! Folders by handle: creates, removes and renames names in a folder that another sandbox of the session may
//! swap for a symlink.
//!
//! A folder is opened once, and never through a symlink (`openat2` with `RESOLVE_NO_SYMLINKS`). Every later
//! operation is on that very folder, whatever has its path by then.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read, Write},
    os::fd::OwnedFd,
    path::Path,
};

use kit::files::{open_folder, rename_to_free_name};
use rustix::{
    fs::{AtFlags, Mode, OFlags, Stat, mkdirat, openat, readlinkat, statat, symlinkat, unlinkat},
    io::Errno,
};

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder {
    handle: OwnedFd,
}

impl Folder {
    /// Opens the folder at this absolute path; no component may be a symlink.
    ///
    /// # Errors
    /// When it does not exist, is not a folder, or a symlink lies on the way.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { handle: open_folder(path)? })
    }

    /// Opens the folder that contains this path; returns it and the name in it.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub(crate) fn around(path: &Path) -> io::Result<(Self, &OsStr)> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::INVAL.into());
        };
        Ok((Self::open(folder)?, name))
    }

    /// Returns the status of this name, if it exists. Symlinks are not followed.
    pub(crate) fn look(&self, name: impl AsRef<OsStr>) -> Option<Stat> {
        statat(&self.handle, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    /// Creates an empty folder.
    ///
    /// # Errors
    /// Those of the system, also when the name exists.
    pub(crate) fn create_folder(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(mkdirat(&self.handle, name.as_ref(), Mode::from_raw_mode(0o755))?)
    }

    /// Creates a file with this content.
    ///
    /// # Errors
    /// Those of the system, also when the name exists.
    pub(crate) fn create_file(&self, name: impl AsRef<OsStr>, content: &[u8], mode: u32) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file =
            File::from(openat(&self.handle, name.as_ref(), flags, Mode::from_raw_mode(mode & 0o7777))?);
        file.write_all(content)
    }

    /// Creates a symlink.
    ///
    /// # Errors
    /// Those of the system, also when the name exists.
    pub(crate) fn create_link(&self, name: impl AsRef<OsStr>, to: &Path) -> io::Result<()> {
        Ok(symlinkat(to, &self.handle, name.as_ref())?)
    }

    /// Returns the target of the symlink of this name.
    pub(crate) fn link(&self, name: impl AsRef<OsStr>) -> Option<Vec<u8>> {
        readlinkat(&self.handle, name.as_ref(), Vec::new()).ok().map(std::ffi::CString::into_bytes)
    }

    /// Reads a regular file, if it has at most `most` bytes.
    pub(crate) fn read(&self, name: impl AsRef<OsStr>, most: u64) -> Option<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(&self.handle, name.as_ref(), flags, Mode::empty()).ok()?);
        let about = file.metadata().ok()?;
        if !about.is_file() || about.len() > most {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&self.handle, name.as_ref(), AtFlags::empty())?)
    }

    /// Renames a file within the folder, if the new name is free.
    ///
    /// # Errors
    /// Those of the system, also when the new name exists.
    pub(crate) fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        rename_to_free_name(&self.handle, from.as_ref(), &self.handle, to.as_ref())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::fs;

    use super::*;

    #[test]
    fn a_link_on_the_way_is_refused_and_what_was_entered_stays_what_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir(root.join("other")).unwrap();
        let folder = Folder::open(&root.join("a/b")).unwrap();
        fs::rename(root.join("a"), root.join("moved")).unwrap();
        std::os::unix::fs::symlink("other", root.join("a")).unwrap();
        assert!(Folder::open(&root.join("a")).is_err() && Folder::open(&root.join("a/../other")).is_err());
        folder.create_folder("hooks").unwrap();
        folder.create_file("x", b"1", 0o600).unwrap();
        assert!(folder.create_file("x", b"2", 0o600).is_err() && folder.rename("hooks", "x").is_err());
        assert!(root.join("moved/b/hooks").is_dir());
        assert_eq!(folder.read("x", 1).unwrap(), b"1");
        assert_eq!(folder.read("x", 0), None);
        folder.rename("x", "y").unwrap();
        folder.remove("y").unwrap();
        assert!(fs::read_dir(root.join("other")).unwrap().next().is_none());
    }
}
