//! New files without a name (`O_TMPFILE`): durable before they are linked, gone if haft dies.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::{
    fs::{
        AtFlags, CWD, Dir, Gid, Mode, OFlags, Uid, XattrFlags, fchmod, fchown, fgetxattr, flistxattr,
        fsetxattr, fstat, fsync, linkat, openat, statat, unlinkat,
    },
    io::Errno,
    process::{Pid, test_kill_process},
};

use super::{Loaded, Roots, open::open_regular};

/// A file that has content but, where the system allows it, no name yet: if haft dies now, nothing of it is left.
pub(super) struct Nameless {
    pub(super) file: OwnedFd,
    /// A temporary name, where the file system has no unnamed files.
    name: Option<(OwnedFd, OsString)>,
}

impl Nameless {
    /// Creates a durable new file.
    pub(super) fn new(dir: &OwnedFd, bytes: &[u8]) -> Result<Self, Errno> {
        let new = Self::begin(dir, Mode::from_raw_mode(0o666))?;
        new.write(bytes)?;
        fsync(&new.file)?;
        Ok(new)
    }

    /// Creates the durable replacement of the file `old`, with its owner, mode and attributes.
    pub(super) fn instead_of(dir: &OwnedFd, name: &OsStr, old: &Loaded, bytes: &[u8]) -> Result<Self, Errno> {
        let new = Self::begin(dir, Mode::from_raw_mode(0o600))?;
        new.write(bytes)?;
        new.take_after(dir, name, old)?;
        fsync(&new.file)?;
        Ok(new)
    }

    /// Copies the owner, the mode and the attributes of the file `old` of this name.
    pub(super) fn take_after(&self, dir: &OwnedFd, name: &OsStr, old: &Loaded) -> Result<(), Errno> {
        let now = fstat(&self.file)?;
        if (now.st_uid, now.st_gid) != old.owner {
            // Only root may change an owner; for other users the file becomes theirs, as with any editor.
            let _ = fchown(&self.file, Some(Uid::from_raw(old.owner.0)), Some(Gid::from_raw(old.owner.1)));
        }
        if let Ok((old, _)) = open_regular(dir, name) {
            copy_attributes(&old, &self.file);
        }
        self.set_mode(old.mode)
    }

    /// Appends these bytes.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<(), Errno> {
        write_all(&self.file, bytes)
    }

    pub(super) fn set_mode(&self, mode: Mode) -> Result<(), Errno> {
        fchmod(&self.file, Mode::from_raw_mode(mode.as_raw_mode() & 0o7777))
    }

    /// Creates an empty file.
    pub(super) fn begin(dir: &OwnedFd, mode: Mode) -> Result<Self, Errno> {
        #[cfg(target_os = "linux")]
        match openat(dir, ".", OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, mode) {
            // Without /proc it could not be linked to a name later.
            Ok(file) if statat(CWD, fd_path(&file), AtFlags::empty()).is_ok() => {
                return Ok(Self { file, name: None });
            }
            Ok(_) | Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {}
            Err(errno) => return Err(errno),
        }
        let name = temporary_name();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(dir, &name, flags, mode)?;
        let dir = dir.try_clone().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        Ok(Self { file, name: Some((dir, name)) })
    }

    /// Links it to a name that does not exist yet.
    pub(super) fn link(&self, dir: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
        match &self.name {
            None => linkat(CWD, fd_path(&self.file), dir, name, AtFlags::SYMLINK_FOLLOW),
            Some((at, old)) => linkat(at, old, dir, name, AtFlags::empty()),
        }
    }
}

impl Drop for Nameless {
    fn drop(&mut self) {
        if let Some((dir, name)) = &self.name {
            let _ = unlinkat(dir, name, AtFlags::empty());
        }
    }
}

/// Copies extended attributes, access lists among them, as far as this user may set them.
fn copy_attributes(old: &File, new: &OwnedFd) {
    let mut names = vec![0; 4096];
    let Ok(length) = flistxattr(old, names.as_mut_slice()) else { return };
    for name in
        names.get(..length).unwrap_or_default().split(|byte| *byte == 0).filter(|name| !name.is_empty())
    {
        let name = OsStr::from_bytes(name);
        let mut value = vec![0; 64 * 1024];
        if let Ok(length) = fgetxattr(old, name, value.as_mut_slice()) {
            // Attributes that only root may set are dropped, as with any editor.
            let _ = fsetxattr(new, name, value.get(..length).unwrap_or_default(), XattrFlags::empty());
        }
    }
}

fn fd_path(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn write_all(file: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
    let file = file.as_fd().try_clone_to_owned().map_err(|error| errno_of(&error))?;
    std::fs::File::from(file).write_all(bytes).map_err(|error| errno_of(&error))
}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Prefix of a temporary name; the process id follows.
const TEMPORARY: &str = ".haft-";

pub(super) fn temporary_name() -> OsString {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{TEMPORARY}{}-{:x}{count:x}", std::process::id(), now.as_nanos()).into()
}

/// Returns whether this is the name of a temporary file whose process is dead.
fn is_leftover(name: &OsStr) -> bool {
    let process =
        name.to_str().and_then(|name| name.strip_prefix(TEMPORARY)).and_then(|rest| rest.split_once('-'));
    let Some(process) = process.and_then(|(number, _)| number.parse().ok()).and_then(Pid::from_raw) else {
        return false;
    };
    test_kill_process(process) == Err(Errno::SRCH)
}

impl Roots {
    /// Removes temporary files that a dead process left in the folder of `path`. Deletes only files whose
    /// content `ours` recognizes: the name alone proves nothing.
    pub fn sweep(&self, path: &str, ours: &dyn Fn(&[u8]) -> bool) {
        const MOST: u64 = 256 << 20;
        let Ok(opened) = self.resolve(path) else { return };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(dir) = openat(&opened.found.dir, ".", flags, Mode::empty()) else { return };
        let Ok(entries) = Dir::read_from(&dir) else { return };
        for entry in entries.flatten() {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if !is_leftover(name) {
                continue;
            }
            let mut bytes = Vec::new();
            let read = open_regular(&dir, name).ok().map(|(file, _)| file.take(MOST).read_to_end(&mut bytes));
            if matches!(read, Some(Ok(_))) && ours(&bytes) {
                let _ = unlinkat(&dir, name, AtFlags::empty());
            }
        }
    }
}
