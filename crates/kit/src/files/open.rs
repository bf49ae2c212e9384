//! Opening files: without hanging, and without following links out of the roots.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::{fd::OwnedFd, unix::fs::FileExt},
    path::Path,
};

use rustix::{
    buffer::spare_capacity,
    fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, statat},
    io::{Errno, read, retry_on_intr},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Files, Location, roots::refused, unsaved};
use crate::{Fault, Kind, memory, references::call, text::Content};

/// A regular file, open for reading.
pub struct Open {
    /// Its place.
    pub location: Location,
    /// Its identity.
    pub identity: Identity,
    pub(super) file: File,
    pub(super) mode: Mode,
    pub(super) owner: (u32, u32),
    /// It is what an editor has, and the disk has not.
    unsaved: bool,
}

/// The identity and state of a file. Equal identities mean equal bytes, as far as the file system can tell
/// without reading them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The device it is on.
    pub device: u64,
    /// Its inode number.
    pub inode: u64,
    /// Its length in bytes.
    pub size: u64,
    /// The last change of its bytes, in nanoseconds since 1970.
    pub modified_ns: i128,
    /// The last change of anything about it, in nanoseconds since 1970.
    pub changed_ns: i128,
}

/// The whole of a file, as it was at one moment.
pub struct Loaded {
    /// Its place.
    pub location: Location,
    /// Its identity when it was read.
    pub identity: Identity,
    /// Its content.
    pub bytes: Content,
    pub(super) mode: Mode,
    pub(super) owner: (u32, u32),
    unsaved: bool,
}

impl Loaded {
    /// Returns whether the content is an editor's unsaved text, and not the content on disk.
    pub fn is_unsaved(&self) -> bool {
        self.unsaved
    }

    /// Returns whether its owner may execute it.
    pub fn is_executable_by_owner(&self) -> bool {
        self.mode.contains(Mode::XUSR)
    }

    /// Returns whether any user may execute it.
    pub fn is_executable(&self) -> bool {
        self.mode.intersects(Mode::XUSR | Mode::XGRP | Mode::XOTH)
    }
}

impl Identity {
    /// Returns whether both are equal except for the change time, which a rename, a new hard link and a new
    /// mode set as well.
    pub(super) fn is_but_for_change(&self, then: &Self) -> bool {
        Self { changed_ns: then.changed_ns, ..*self } == *then
    }

    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            #[expect(clippy::unnecessary_cast, reason = "i32 on some systems")]
            device: stat.st_dev as u64,
            #[expect(clippy::unnecessary_cast, reason = "u32 on some systems")]
            inode: stat.st_ino as u64,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified_ns: nanoseconds(stat.st_mtime.into(), stat.st_mtime_nsec.into()),
            changed_ns: nanoseconds(stat.st_ctime.into(), stat.st_ctime_nsec.into()),
        }
    }
}

fn nanoseconds(seconds: i128, nanoseconds: i128) -> i128 {
    seconds * 1_000_000_000 + nanoseconds
}

impl Files {
    /// Opens a regular file that this call was granted to read.
    ///
    /// # Errors
    /// [`Kind::NotFound`] with the nearest names, [`Kind::BadArgs`] for a folder, a pipe or a device,
    /// [`Kind::Denied`] outside the grants.
    pub fn open(&self, path: &str) -> Result<Open, Fault> {
        let opened = self.resolve(path)?;
        let location = opened.location.clone();
        self.may_read(path, &location)?;
        if !opened.found.rest.is_empty() {
            return Err(self.not_there(path, &opened));
        }
        let name = opened.name();
        let (file, stat) = match open_regular(&opened.found.dir, &name) {
            Ok(open) => open,
            Err(Unopened::Folder) => {
                return Err(Fault::bad_args(format!("`{path}` is a folder")).hint(format!(
                    "[?List it with {}, then name a file.?]",
                    call("tree", &json!({"dir": location.to_string()}))
                )));
            }
            Err(Unopened::Special(what)) => {
                return Err(Fault::bad_args(format!(
                    "`{path}` is {what}, not a regular file; it is not read"
                )));
            }
            Err(Unopened::Link) => {
                return Err(Fault::new(
                    Kind::Stale,
                    format!("`{path}` was replaced by a link while it was opened"),
                ));
            }
            Err(Unopened::Errno(Errno::NOENT)) => return Err(self.not_there(path, &opened)),
            Err(Unopened::Errno(errno)) => return Err(refused(path, "read", errno.into())),
        };
        self.check_other_names(path, &stat)?;
        let identity = Identity::of(&stat);
        let (mode, owner) = (Mode::from_raw_mode(stat.st_mode), (stat.st_uid, stat.st_gid));
        let in_editor = match self.inner.follows_editor {
            true => self.roots().unsaved(&location, identity.size, &file),
            false => None,
        };
        if let Some((file, text)) = in_editor.and_then(|text| Some((unsaved::file(&text)?, text))) {
            let identity = unsaved::identity(&identity, &text);
            return Ok(Open { location, identity, file, mode, owner, unsaved: true });
        }
        Ok(Open { location, identity, file, mode, owner, unsaved: false })
    }

    /// Opens a file where no editor is asked for its text; `None` where one is, which may take long.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_brief(&self, path: &str) -> Option<Result<Open, Fault>> {
        if self.inner.follows_editor && self.roots().has_editor() {
            return None;
        }
        Some(self.open(path))
    }

    /// Reads the whole of a file, at most `limit` bytes.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), and [`Kind::TooBig`].
    pub fn load(&self, path: &str, limit: u64) -> Result<Loaded, Fault> {
        self.open(path)?.load(path, limit)
    }

    /// Returns whether anything exists under this name.
    ///
    /// # Errors
    /// [`Kind::Denied`] outside the grants.
    pub fn exists(&self, path: &str) -> Result<bool, Fault> {
        let opened = self.resolve(path)?;
        self.may_read(path, &opened.location)?;
        Ok(opened.exists())
    }

    pub(super) fn not_there(&self, path: &str, opened: &super::roots::Opened) -> Fault {
        let fault = Fault::not_found(format!("`{path}` does not exist"));
        let near = super::list::nearest_names(opened, self.roots());
        if near.is_empty() {
            let name = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
            let name = name.replace(['*', '?', '[', ']', '{', '}', '\\'], "?");
            return fault.hint(format!(
                "[?Find it with {}.?]",
                call("glob", &json!({"pattern": format!("**/{name}*")}))
            ));
        }
        let near: Vec<String> = near.iter().map(|it| format!("`{it}`")).collect();
        fault.next(format!("Did you mean {}?", near.join(" or ")))
    }
}

/// Reads a file that has this size, in one call unless it grows meanwhile; no more than it takes to see that it is over `limit`.
fn whole(file: &File, size: u64, limit: u64) -> rustix::io::Result<Vec<u8>> {
    /// For files that have no size, as those of `/proc`, and for those that grow.
    const MORE: usize = 8 << 10;
    // One byte more, to see the end.
    let mut bytes = memory::block(usize::try_from(size).ok().filter(|it| *it > 0).map_or(MORE, |it| it + 1));
    while bytes.len() as u64 <= limit {
        if bytes.len() == bytes.capacity() {
            bytes.reserve(MORE);
        }
        if retry_on_intr(|| read(file, spare_capacity(&mut bytes)))? == 0 {
            break;
        }
    }
    Ok(bytes)
}

impl Open {
    /// Reads the whole file, at most `limit` bytes.
    ///
    /// # Errors
    /// [`Kind::TooBig`] over the limit, [`Kind::Stale`] when it is being written to.
    pub fn load(self, path: &str, limit: u64) -> Result<Loaded, Fault> {
        let size = self.identity.size;
        let too_big = |size: u64| {
            Fault::new(
                Kind::TooBig,
                format!("`{path}` has {size} bytes; at most {limit} are handled in one piece"),
            )
            .hint(
                "[?`tool:read` shows any part of it by `arg:read.offset` and `arg:read.limit`.?][? `tool:filegrep` finds lines in it.| `tool:grep` finds lines in it.?]"
                    .to_owned(),
            )
        };
        if size > limit {
            return Err(too_big(size));
        }
        let bytes = whole(&self.file, size, limit).map_err(|errno| refused(path, "read", errno.into()))?;
        if bytes.len() as u64 > limit {
            return Err(too_big(bytes.len() as u64));
        }
        let now = fstat(&self.file).map_err(|errno| refused(path, "read", errno.into()))?;
        let Self { location, identity, mode, owner, unsaved, .. } = self;
        if !unsaved && Identity::of(&now) != identity && !Identity::of(&now).is_but_for_change(&identity) {
            return Err(Fault::new(
                Kind::Stale,
                format!("`{path}` is being written to by another program just now"),
            )
            .next("Try again in a moment.".to_owned()));
        }
        Ok(Loaded { location, identity, bytes: bytes.into(), mode, owner, unsaved })
    }

    /// Reads bytes from `offset` until the buffer is full or the file ends.
    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    /// Reads the first bytes, at most `most`.
    ///
    /// # Errors
    /// Those of the system.
    pub fn head(&self, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; most.min(usize::try_from(self.identity.size).unwrap_or(most))];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|it| !it.is_empty()) {
            match self.read_at(rest, filled as u64)? {
                0 => break,
                read => filled += read,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// Returns whether it can be read in less time than it takes to wake a thread: it has at most `most` bytes, and is on
    /// a local file system.
    pub fn is_brief(&self, most: u64) -> bool {
        self.identity.size <= most && is_local(&self.file)
    }

    /// Returns the open file, for crates that search in one.
    pub fn file(&self) -> &File {
        &self.file
    }
}

/// The reason why a name was not opened.
pub(super) enum Unopened {
    Folder,
    Special(&'static str),
    Link,
    Errno(Errno),
}

/// Opens a name if it is a regular file. It checks the type first, because opening a pipe wakes the process
/// at its other end, and opening a device may do anything.
pub(super) fn open_regular(dir: &OwnedFd, name: &OsStr) -> Result<(File, Stat), Unopened> {
    let look = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(Unopened::Errno)?;
    only_regular(&look)?;
    open_listed(dir, name, None)
}

/// Opens a name that a listing has just shown as a regular file, which is as good as a check here: neither
/// holds a moment later. `plain` is the [`plain_device`] of the folder, if that is known.
pub(super) fn open_listed(dir: &OwnedFd, name: &OsStr, plain: Option<u64>) -> Result<(File, Stat), Unopened> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match openat(dir, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::LOOP | Errno::MLINK) => return Err(Unopened::Link),
        Err(errno) => return Err(Unopened::Errno(errno)),
    };
    // The opened file decides, not the earlier check.
    let stat = fstat(&file).map_err(Unopened::Errno)?;
    only_regular(&stat)?;
    if plain != Some(Identity::of(&stat).device) && is_kernel_file(&file) {
        return Err(Unopened::Special("a file of the kernel's (proc or sys)"));
    }
    Ok((File::from(file), stat))
}

/// Returns the device of a folder, unless it belongs to a kernel file system: then no file on it does, either.
pub(super) fn plain_device(dir: &OwnedFd) -> Option<u64> {
    if is_kernel_file(dir) {
        return None;
    }
    fstat(dir).ok().map(|stat| Identity::of(&stat).device)
}

fn only_regular(stat: &Stat) -> Result<(), Unopened> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(Unopened::Folder),
        FileType::Symlink => Err(Unopened::Link),
        FileType::Fifo => Err(Unopened::Special("a named pipe")),
        FileType::Socket => Err(Unopened::Special("a socket")),
        FileType::CharacterDevice | FileType::BlockDevice => Err(Unopened::Special("a device")),
        FileType::Unknown => Err(Unopened::Special("of an unknown type")),
    }
}

/// Returns whether it lies in a kernel file system: `/proc/self/environ` is a regular file by its type, and
/// holds what no tool may see.
#[cfg(target_os = "linux")]
fn is_kernel_file(file: &OwnedFd) -> bool {
    const PROC: i64 = 0x9fa0;
    const SYS: i64 = 0x6265_6572;
    #[expect(clippy::unnecessary_cast, reason = "the type differs between machines")]
    rustix::fs::fstatfs(file).is_ok_and(|stat| matches!(stat.f_type as i64, PROC | SYS))
}

/// Returns whether the file is on a file system that no network and no other process answers for.
#[cfg(target_os = "linux")]
fn is_local(file: &File) -> bool {
    // linux/magic.h: ext2 to ext4, XFS, btrfs, tmpfs, overlayfs, F2FS, bcachefs; ZFS has its own.
    const LOCAL: [u32; 8] =
        [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0xf2f5_2010, 0xca45_1a4e, 0x2fc1_2fc1];
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the numbers have 32 bits")]
    rustix::fs::fstatfs(file).is_ok_and(|stat| LOCAL.contains(&(stat.f_type as u32)))
}

#[cfg(not(target_os = "linux"))]
fn is_local(_file: &File) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn is_kernel_file(_file: &OwnedFd) -> bool {
    false
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_that_grew_or_shrank_is_read_as_it_is_up_to_the_limit() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[b'x'; 100_000]).unwrap();
        let read = |size: u64, limit: u64| {
            rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).unwrap();
            whole(&file, size, limit).unwrap().len() as u64
        };
        for size in [0, 1, 99_999, 100_000, 100_001, 400_000] {
            assert_eq!(read(size, 1 << 20), 100_000, "{size}");
        }
        assert!(read(10, 50_000) > 50_000, "it is over the limit, and that is seen");
        assert!(read(10, 50_000) < 100_000, "no more is read than it takes to see that");
    }
}
