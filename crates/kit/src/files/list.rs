//! Folder listings.

use std::{
    ffi::{OsStr, OsString},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
};

use rustix::{
    fs::{Dir, FileType, Mode, OFlags, openat},
    io::Errno,
};

use super::{
    Files, Location, Roots,
    roots::{Opened, refused},
};
use crate::Fault;

/// One name in a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The name.
    pub name: OsString,
    /// Its kind.
    pub kind: EntryKind,
}

/// The kind of a name in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symlink, which is not followed here.
    Link,
    /// A pipe, a socket, a device.
    Special,
}

impl From<FileType> for EntryKind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Self::Special,
        }
    }
}

impl Files {
    /// Lists a folder that this call was granted to read, in no order.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound), [`Kind::BadArgs`](crate::Kind::BadArgs) for a file.
    pub fn list(&self, dir: &str) -> Result<Vec<Entry>, Fault> {
        let (handle, location) = self.open_folder(dir)?;
        let hidden = self.roots().hidden_in(&location.absolute());
        let mut entries = Vec::new();
        let mut folder = Dir::new(handle).map_err(|errno| refused(dir, "list", errno.into()))?;
        while let Some(entry) = folder.read() {
            let entry = entry.map_err(|errno| refused(dir, "list", errno.into()))?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." || hidden.iter().any(|it| it == name) {
                continue;
            }
            entries.push(Entry { name: name.to_owned(), kind: entry.file_type().into() });
        }
        Ok(entries)
    }

    /// Opens a folder to list it.
    pub(super) fn open_folder(&self, dir: &str) -> Result<(OwnedFd, Location), Fault> {
        let opened = self.resolve(dir)?;
        self.may_read(dir, &opened.location)?;
        if !opened.found.rest.is_empty() {
            return Err(self.not_there(dir, &opened));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle =
            openat(&opened.found.dir, opened.name(), flags, Mode::empty()).map_err(|errno| match errno {
                Errno::NOTDIR => Fault::bad_args(format!("`{dir}` is a file, not a folder")),
                Errno::NOENT => self.not_there(dir, &opened),
                errno => refused(dir, "list", errno.into()),
            })?;
        Ok((handle, opened.location))
    }
}

/// Returns at most three names similar to the missing one, the nearest first.
pub(super) fn nearest_names(opened: &Opened, roots: &Roots) -> Vec<String> {
    const LOOK_AT: usize = 5_000;
    let wanted = opened.name().to_string_lossy().to_lowercase();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(folder) = openat(&opened.found.dir, ".", flags, Mode::empty()).and_then(Dir::new) else {
        return Vec::new();
    };
    let around = opened.location.above(opened.found.rest.len() + 1);
    let hidden = roots.hidden_in(&around.absolute());
    let mut near: Vec<(f32, String)> = folder
        .flatten()
        .filter(|entry| !hidden.iter().any(|it| it.as_bytes() == entry.file_name().to_bytes()))
        .take(LOOK_AT)
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let ratio = similar::TextDiff::from_chars(wanted.as_str(), name.to_lowercase().as_str()).ratio();
            (ratio >= 0.6).then_some((ratio, name))
        })
        .collect();
    near.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    near.into_iter().take(3).map(|(_, name)| around.join(&name).to_string()).collect()
}
