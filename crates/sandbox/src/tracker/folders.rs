//! Handles kept between stopped calls: processes' folders in `/proc`, and the folders of names.
//!
//! A stop costs what its system calls cost, so a folder that many calls name is opened once. A kept handle is
//! used again only for the same directory on the same mount, which one `statx` tells: while a handle is open,
//! neither the inode's number nor the mount's can become another's.

use std::{
    ffi::OsString,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, Statx, StatxFlags, openat, readlinkat, readlinkat_raw, statx,
    },
    io::Errno,
};

/// The handles that are kept of each kind.
const KEPT: usize = 16;

/// A directory on a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    device: (u32, u32),
    inode: u64,
    mount: u64,
}

impl Key {
    /// Returns the key of a directory; `None` for another file, and on kernels before 5.8, which don't number
    /// mounts.
    pub(super) fn of(about: &Statx) -> Option<Self> {
        let known = about.stx_mask & StatxFlags::MNT_ID.bits() != 0;
        let is_folder = FileType::from_raw_mode(about.stx_mode.into()).is_dir();
        (known && is_folder).then_some(Self {
            device: (about.stx_dev_major, about.stx_dev_minor),
            inode: about.stx_ino,
            mount: about.stx_mnt_id,
        })
    }

    /// Looks up the directory at a path; a symlink is followed only with empty flags.
    pub(super) fn at(folder: BorrowedFd<'_>, path: &[u8], flags: AtFlags) -> Result<Option<Self>, Errno> {
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::MNT_ID;
        // What a server of a network file system says of it meanwhile is not needed.
        let flags = flags | AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
        Ok(Self::of(&statx(folder, path, flags, wanted)?))
    }
}

/// A folder where a process has it.
#[derive(Clone)]
pub(super) struct Theirs {
    pub(super) handle: Arc<OwnedFd>,
    key: Option<Key>,
}

impl Theirs {
    pub(super) fn new(handle: OwnedFd) -> Self {
        let key = Key::at(handle.as_fd(), b"", AtFlags::EMPTY_PATH).unwrap_or_default();
        Self { handle: Arc::new(handle), key }
    }
}

/// A folder of a root that calls named.
struct Folder {
    key: Key,
    theirs: Arc<OwnedFd>,
    own: Arc<OwnedFd>,
    /// Its path when it was last looked up.
    path: PathBuf,
}

/// The handles that are kept.
#[derive(Default)]
pub(super) struct Folders {
    found: Mutex<Vec<Folder>>,
    processes: Mutex<Vec<(u32, Arc<OwnedFd>)>>,
}

impl Folders {
    /// Returns the kept folder of this key, where the process has it.
    pub(super) fn theirs(&self, key: Key) -> Option<Theirs> {
        let found = self.found.lock();
        let folder = found.iter().find(|it| it.key == key)?;
        Some(Theirs { handle: folder.theirs.clone(), key: Some(key) })
    }

    /// Returns the kept folder that had this path, where the process has it.
    pub(super) fn at(&self, path: &Path) -> Option<Theirs> {
        let found = self.found.lock();
        let folder = found.iter().find(|it| it.path == path)?;
        Some(Theirs { handle: folder.theirs.clone(), key: Some(folder.key) })
    }

    /// Returns haft's own handle of a folder, if it was kept when the folder had the same path.
    pub(super) fn own(&self, theirs: &Theirs, path: &Path) -> Option<Arc<OwnedFd>> {
        let key = theirs.key?;
        let found = self.found.lock();
        found.iter().find(|it| it.key == key && it.path == path).map(|it| it.own.clone())
    }

    pub(super) fn keep(&self, theirs: &Theirs, own: Arc<OwnedFd>, path: PathBuf) {
        let Some(key) = theirs.key else { return };
        let mut found = self.found.lock();
        found.retain(|it| it.key != key);
        if found.len() >= KEPT {
            found.remove(0);
        }
        found.push(Folder { key, theirs: theirs.handle.clone(), own, path });
    }

    /// Closes all handles: they keep file systems of ended processes mounted.
    pub(super) fn clear(&self) {
        self.found.lock().clear();
        self.processes.lock().clear();
    }

    /// Looks up something in the folder of a thread in `/proc`. A kept folder of a thread that has ended has
    /// no names, so the number may be another thread's by now: then the folder is opened anew.
    pub(super) fn in_process<T>(
        &self,
        thread: u32,
        look: impl Fn(BorrowedFd<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let kept = self.processes.lock().iter().find(|it| it.0 == thread).map(|it| it.1.clone());
        if let Some(kept) = kept {
            match look(kept.as_fd()) {
                Err(Errno::NOENT | Errno::SRCH) => self.processes.lock().retain(|it| it.0 != thread),
                looked => return looked,
            }
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let process = Arc::new(openat(CWD, format!("/proc/{thread}"), flags, Mode::empty())?);
        let looked = look(process.as_fd());
        let mut processes = self.processes.lock();
        if processes.len() >= KEPT {
            processes.remove(0);
        }
        processes.push((thread, process));
        looked
    }
}

/// Returns the path of an open file at this moment, if it is not too long for the system to say.
pub(super) fn read_path(file: BorrowedFd<'_>) -> Result<PathBuf, Errno> {
    static OPEN_FILES: OnceLock<OwnedFd> = OnceLock::new();
    let files = match OPEN_FILES.get() {
        Some(files) => files,
        None => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let files = openat(CWD, "/proc/self/fd", flags, Mode::empty())?;
            OPEN_FILES.get_or_init(|| files)
        }
    };
    let number = rustix::path::DecInt::from_fd(file);
    let mut buffer = [MaybeUninit::uninit(); 512];
    let (path, rest) = readlinkat_raw(files, number.as_c_str(), &mut buffer)?;
    if !rest.is_empty() {
        return Ok(OsString::from_vec(path.to_vec()).into());
    }
    let path = readlinkat(files, number.as_c_str(), Vec::new())?;
    Ok(OsString::from_vec(path.into_bytes()).into())
}
