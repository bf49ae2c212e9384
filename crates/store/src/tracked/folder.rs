//! Folders by handle: every change of an undo is made in a folder that was opened without following a symlink.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStringExt},
    path::Path,
};

use kit::{
    files::{attributes, open_folder, rename_to_free_name, set_attributes},
    tracking::{Attribute, Metadata, Node},
};
use rustix::{
    fs::{
        AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps, linkat, mkdirat, openat, readlinkat,
        renameat, statat, symlinkat, unlinkat, utimensat,
    },
    io::Errno,
};

/// An open folder and a name in it.
pub(super) struct Spot<'a> {
    folder: OwnedFd,
    name: &'a OsStr,
}

impl<'a> Spot<'a> {
    /// Opens the folder around this absolute path.
    pub(super) fn at(path: &'a Path) -> io::Result<Self> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::INVAL.into());
        };
        Ok(Self { folder: open_folder(folder)?, name })
    }

    fn stat(&self) -> io::Result<Option<Stat>> {
        match statat(&self.folder, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns what is there.
    pub(super) fn node(&self) -> io::Result<Node> {
        let Some(stat) = self.stat()? else { return Ok(Node::Absent) };
        let metadata = Metadata::of(&stat);
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Node::File(metadata),
            FileType::Directory => Node::Folder(metadata),
            FileType::Symlink => {
                let target = readlinkat(&self.folder, self.name, Vec::new())?.into_bytes();
                Node::Link { target: OsString::from_vec(target), metadata }
            }
            _ => Node::Special(metadata),
        })
    }

    /// Opens the regular file for reading.
    pub(super) fn read(&self) -> io::Result<File> {
        self.open(OFlags::RDONLY)
    }

    /// Opens the regular file for writing in place. If its owner may not write it, that is changed: whoever writes it sets its mode
    /// at the end.
    pub(super) fn write(&self) -> io::Result<File> {
        let opened = self.open(OFlags::WRONLY);
        match (opened, self.node()) {
            (Err(error), Ok(Node::File(about)))
                if error.kind() == io::ErrorKind::PermissionDenied && about.mode & 0o200 == 0 =>
            {
                self.set_mode(about.mode | 0o200)?;
                self.open(OFlags::WRONLY)
            }
            (opened, _) => opened,
        }
    }

    fn open(&self, access: OFlags) -> io::Result<File> {
        let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(&self.folder, self.name, flags, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(Errno::INVAL.into()) }
    }

    /// Creates an empty file that only its owner may use.
    pub(super) fn create(&self) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.folder, self.name, flags, Mode::RUSR | Mode::WUSR)?))
    }

    pub(super) fn create_folder(&self) -> io::Result<()> {
        Ok(mkdirat(&self.folder, self.name, Mode::RWXU)?)
    }

    pub(super) fn create_link(&self, target: &OsStr) -> io::Result<()> {
        Ok(symlinkat(target, &self.folder, self.name)?)
    }

    /// Removes the file or link.
    pub(super) fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.folder, self.name, AtFlags::empty())?)
    }

    /// Removes the empty folder.
    pub(super) fn remove_folder(&self) -> io::Result<()> {
        Ok(unlinkat(&self.folder, self.name, AtFlags::REMOVEDIR)?)
    }

    /// Gives the file another name.
    pub(super) fn link_to(&self, other: &Spot<'_>) -> io::Result<()> {
        Ok(linkat(&self.folder, self.name, &other.folder, other.name, AtFlags::empty())?)
    }

    /// Renames it over what is at the other name.
    pub(super) fn rename_over(&self, other: &Spot<'_>) -> io::Result<()> {
        Ok(renameat(&self.folder, self.name, &other.folder, other.name)?)
    }

    /// Renames it, if the other name is free.
    pub(super) fn rename_to(&self, other: &Spot<'_>) -> io::Result<()> {
        rename_to_free_name(&self.folder, self.name, &other.folder, other.name)
    }

    /// Sets the permission bits. A symlink is refused.
    pub(super) fn set_mode(&self, mode: u32) -> io::Result<()> {
        let mode = Mode::from_raw_mode(raw_mode(mode));
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd;
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let handle = openat(&self.folder, self.name, flags, Mode::empty())?;
            if FileType::from_raw_mode(rustix::fs::fstat(&handle)?.st_mode) == FileType::Symlink {
                return Err(Errno::LOOP.into());
            }
            // A handle without access can't be given to `fchmod`; this path leads to the same file.
            Ok(rustix::fs::chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), mode)?)
        }
        #[cfg(not(target_os = "linux"))]
        Ok(rustix::fs::chmodat(&self.folder, self.name, mode, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Returns the extended attributes that its owner may set.
    pub(super) fn attributes(&self) -> io::Result<Vec<Attribute>> {
        attributes(&self.folder, self.name)
    }

    /// Gives it these, and no others.
    pub(super) fn set_attributes(&self, wanted: &[Attribute]) -> io::Result<()> {
        set_attributes(&self.folder, self.name, wanted)
    }

    /// Sets owner and group.
    pub(super) fn set_owner(&self, owner: (u32, u32)) -> io::Result<()> {
        let user = rustix::process::Uid::from_raw(owner.0);
        let group = rustix::process::Gid::from_raw(owner.1);
        Ok(rustix::fs::chownat(&self.folder, self.name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Sets the time of the last change, also of a symlink itself.
    pub(super) fn set_modified(&self, modified: (i64, u32)) -> io::Result<()> {
        let omit = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
        let last = Timespec { tv_sec: modified.0, tv_nsec: modified.1.into() };
        let times = Timestamps { last_access: omit, last_modification: last };
        Ok(utimensat(&self.folder, self.name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

/// Returns what is at this path; `Absent` also where its folder is gone.
///
/// # Errors
/// When it can't be determined, and when a symlink lies on the way.
pub(super) fn node_at(path: &Path) -> io::Result<Node> {
    match Spot::at(path) {
        Ok(spot) => spot.node(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Node::Absent)
        }
        Err(error) => Err(error),
    }
}

#[cfg(target_os = "linux")]
fn raw_mode(mode: u32) -> rustix::fs::RawMode {
    mode & 0o7777
}

#[cfg(not(target_os = "linux"))]
fn raw_mode(mode: u32) -> rustix::fs::RawMode {
    u16::try_from(mode & 0o7777).unwrap_or_default()
}
