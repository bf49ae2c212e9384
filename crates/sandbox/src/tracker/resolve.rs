//! Lookup of the file that a stopped call concerns.
//!
//! A path is looked up where the process has it: below its own root, its working folder, its descriptors. The
//! folder that is found is then looked up once more from haft's own handle of the root, without any link, and
//! must be the same one.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read as _},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, StatVfsMountFlags, Statx, StatxAttributes,
        StatxFlags, fstat, fstatvfs, openat, openat2, readlinkat, statat, statx,
    },
    io::Errno,
};

use super::{
    calls::At,
    folders::{Folders, Key, Theirs, read_path},
    log::Place,
    system,
    walk::{Failed, walk},
};

/// The most links that lead to a name that does not exist yet, one after the other.
const LINKS: usize = 40;
/// The times that a look is repeated when folders move meanwhile.
const TRIES: usize = 8;
/// The most bytes of a process's environment that are read: an execve takes no more.
const ENVIRONMENT: u64 = 8 << 20;

/// A root that commands may write, by its path and haft's handle.
pub(super) struct Root {
    path: PathBuf,
    handle: OwnedFd,
}

/// The roots, and the handles of what was looked up last.
pub(super) struct Roots {
    roots: Vec<Root>,
    pub(super) folders: Folders,
}

/// The root of a tree of processes, opened at its first look.
#[derive(Default)]
pub(super) struct TreeRoot(Mutex<Option<Arc<OwnedFd>>>);

impl TreeRoot {
    /// Closes it until the next look.
    pub(super) fn close(&self) {
        *self.0.lock() = None;
    }
}

/// The result of a lookup.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub(super) enum Found {
    /// Nothing that is tracked, or the call will fail.
    Nothing,
    /// This name in a root; with what is there.
    Name(Place, Option<Stat>),
}

/// Why a look failed.
pub(super) enum Trouble {
    /// The call itself will fail, or the process is gone.
    Fails,
    /// It may be a file of a root.
    Unknown(String),
    /// haft may not look into the process, so it can't find out which file it is.
    Hidden,
    /// Its path is longer than the system tells; this folder above has a shorter one.
    Long(PathBuf),
}

type Look<T> = Result<T, Trouble>;

impl From<Errno> for Trouble {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::ACCESS
            | Errno::LOOP
            | Errno::NAMETOOLONG
            | Errno::BADF
            | Errno::FAULT
            | Errno::INVAL
            | Errno::SRCH => Self::Fails,
            error => Self::Unknown(error.to_string()),
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Errno::from_io_error(&error).map_or_else(|| Self::Unknown(error.to_string()), Self::from)
    }
}

impl From<Failed> for Trouble {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::As(error) => error.into(),
            Failed::Hidden => Self::Hidden,
        }
    }
}

/// Returns why something of the process itself can't be read.
fn of_process(error: Errno) -> Trouble {
    match error {
        Errno::ACCESS | Errno::PERM => Trouble::Hidden,
        error => error.into(),
    }
}

fn of_memory(error: &io::Error) -> Trouble {
    Errno::from_io_error(error).map_or_else(|| Trouble::Unknown(error.to_string()), of_process)
}

impl Roots {
    /// Opens these folders. A root that does not exist has no file.
    pub(super) fn open(paths: &[PathBuf]) -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |path: &PathBuf| {
            let path = path.canonicalize().ok()?;
            let handle = openat(CWD, &path, flags, Mode::empty()).ok()?;
            Some(Root { path, handle })
        };
        Self { roots: paths.iter().filter_map(open).collect(), folders: Folders::default() }
    }

    /// Returns whether this path of a process is below a root.
    pub(super) fn have(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(&root.path))
    }

    /// Returns haft's own handle of a folder that was found where a process has it; `None`, if it is in no root.
    fn own(&self, theirs: &Theirs) -> Look<Option<(Arc<OwnedFd>, PathBuf)>> {
        let mut there = None;
        for _ in 0..TRIES {
            let path = path_of(theirs.handle.as_fd())?;
            if let Some(own) = self.folders.own(theirs, &path) {
                return Ok(Some((own, path)));
            }
            let root = self.roots.iter().filter(|it| path.starts_with(&it.path));
            let Some(root) = root.max_by_key(|it| it.path.as_os_str().len()) else { return Ok(None) };
            let there = match there {
                Some(there) => there,
                None => *there.insert(fstat(&theirs.handle)?),
            };
            let rest = path.strip_prefix(&root.path).unwrap_or(Path::new(""));
            let rest = if rest.as_os_str().is_empty() { Path::new(".") } else { rest };
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            match openat2(&root.handle, rest, flags, Mode::empty(), resolve) {
                Ok(handle) => {
                    let here = fstat(&handle)?;
                    if same(&here, &there) {
                        let handle = Arc::new(handle);
                        self.folders.keep(theirs, handle.clone(), path.clone());
                        return Ok(Some((handle, path)));
                    }
                    // A private folder of the sandbox hides the one of the root.
                    if here.st_dev != there.st_dev {
                        return Ok(None);
                    }
                }
                // A folder above was closed, and the process is inside already: its own handle is left. From there a
                // file can be copied.
                Err(Errno::ACCESS) if fstat(&root.handle)?.st_dev == there.st_dev => {
                    return Ok(Some((theirs.handle.clone(), path)));
                }
                // A deleted folder has no files, and gets none.
                Err(Errno::NOENT) if there.st_nlink == 0 => return Ok(None),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Trouble::Unknown(format!(
            "{} is another folder by now",
            path_of(theirs.handle.as_fd())?.display()
        )))
    }
}

fn same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// One stopped call of a process, whose paths are looked up.
pub(super) struct Looking<'a> {
    pub(super) roots: &'a Roots,
    /// The root of the tree of processes, opened at its first look.
    pub(super) root: &'a TreeRoot,
    pub(super) thread: u32,
}

impl Looking<'_> {
    /// Reads the text of a path.
    pub(super) fn text(&self, at: At) -> Look<Vec<u8>> {
        system::path(self.thread, at.text).map_err(|error| of_memory(&error))
    }

    /// Reads the path in the address of a socket, if there is one.
    pub(super) fn socket(&self, address: u64, length: u64) -> Look<Option<Vec<u8>>> {
        system::socket_path(self.thread, address, length).map_err(|error| of_memory(&error))
    }

    /// Looks up a name that is not followed if it is a link: to delete, to move, to create.
    pub(super) fn name(&self, folder: i32, text: &[u8]) -> Look<Found> {
        let Some((folder, name)) = self.parent(folder, text)? else { return Ok(Found::Nothing) };
        let there = entry(&folder, name);
        // A mount of the sandbox, as over git's configuration, can't be removed, renamed or replaced.
        if there.is_ok_and(|it| it.is_some_and(|it| it.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)))
        {
            return Err(Trouble::Fails);
        }
        self.in_folder(&folder, name, !matches!(there, Ok(None)))
    }

    /// Returns whether two names lie in different mounts of the process, such as a worktree and its `.git`: nothing can
    /// be moved from one to the other.
    pub(super) fn is_across_mounts(&self, from: (i32, &[u8]), to: (i32, &[u8])) -> bool {
        let mount = |(folder, text)| {
            let (folder, _) = self.parent(folder, text).ok()??;
            Some(statx(&folder.handle, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?.stx_mnt_id)
        };
        matches!((mount(from), mount(to)), (Some(from), Some(to)) if from != to)
    }

    /// Looks up what is at a path: to change its metadata.
    pub(super) fn object(&self, folder: i32, text: &[u8], follow: bool) -> Look<Found> {
        match self.straight(folder, text, follow)? {
            Some(Found::Name(_, None)) => Err(Trouble::Fails),
            Some(found) => Ok(found),
            None => self.any_object(folder, text, follow),
        }
    }

    fn any_object(&self, folder: i32, text: &[u8], follow: bool) -> Look<Found> {
        let flags = if follow { OFlags::PATH } else { OFlags::PATH | OFlags::NOFOLLOW };
        let found = self.open(folder, text, flags)?;
        self.of_object(found.as_fd())
    }

    /// Looks up an open file of the process.
    pub(super) fn open_file(&self, number: i32) -> Look<Found> {
        let path = format!("fd/{number}");
        let found = self.in_process(|process| {
            openat(process, path.as_str(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        });
        let found = found.map_err(of_process)?;
        self.of_object(found.as_fd())
    }

    /// Looks up what an open with these flags leads to: a file, or the name of one that it creates.
    pub(super) fn opened(&self, folder: i32, text: &[u8], flags: i32) -> Look<Found> {
        let creates = flags & libc::O_CREAT != 0;
        let stays = flags & libc::O_NOFOLLOW != 0 || (creates && flags & libc::O_EXCL != 0);
        match self.straight(folder, text, !stays)? {
            Some(Found::Name(_, None)) if !creates => return Ok(Found::Nothing),
            Some(found) => return Ok(found),
            None => {}
        }
        let (mut folder, mut text) = (folder, text.to_vec());
        for followed in 0..LINKS {
            let found = match followed {
                0 => self.any_object(folder, &text, !stays),
                _ => self.object(folder, &text, !stays),
            };
            match found {
                Err(Trouble::Fails) => {}
                found => return found,
            }
            let Some((parent, name)) = self.parent(folder, &text)? else { return Ok(Found::Nothing) };
            let link = match statat(&parent.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(there) if is_link(&there) && !stays => {
                    readlinkat(&parent.handle, name, Vec::new())?.into_bytes()
                }
                Err(Errno::NOENT) if creates => return self.in_folder(&parent, name, false),
                // What is there can't be opened.
                _ => return Ok(Found::Nothing),
            };
            if link.first() != Some(&b'/') {
                let mut path = path_of(parent.handle.as_fd())?.into_os_string().into_vec();
                path.push(b'/');
                path.extend(link);
                text = path;
            } else {
                text = link;
            }
            folder = libc::AT_FDCWD;
        }
        Ok(Found::Nothing)
    }

    /// Looks up a path whose last name is not a link to follow, a mount or a special name; `None` for any other.
    /// Most paths are such ones, and it takes the fewest system calls.
    fn straight(&self, folder: i32, text: &[u8], follow: bool) -> Look<Option<Found>> {
        // Commands open it all the time, and it is the sandbox's own.
        if text == b"/dev/null" {
            return Ok(Some(Found::Nothing));
        }
        if text.ends_with(b"/") {
            return Ok(None);
        }
        let Some((parent, name)) = self.parent(folder, text)? else { return Ok(None) };
        let there = match entry(&parent, name) {
            Ok(Some(there)) => there,
            Ok(None) => return Ok(Some(self.in_folder(&parent, name, false)?)),
            Err(_) => return Ok(None),
        };
        let is_link = FileType::from_raw_mode(there.stx_mode.into()).is_symlink();
        if (is_link && follow) || there.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            return Ok(None);
        }
        let found = self.in_folder(&parent, name, true)?;
        // Otherwise it was replaced meanwhile.
        let is_same = match &found {
            Found::Name(_, Some(here)) => here.st_ino == there.stx_ino,
            Found::Name(_, None) => false,
            Found::Nothing => true,
        };
        Ok(is_same.then_some(found))
    }

    fn in_folder(&self, folder: &Theirs, name: &OsStr, exists: bool) -> Look<Found> {
        let Some((folder, folder_path)) = self.roots.own(folder)? else { return Ok(Found::Nothing) };
        let there = match exists.then(|| statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)) {
            Some(Ok(there)) => Some(there),
            None | Some(Err(Errno::NOENT)) => None,
            Some(Err(error)) => return Err(error.into()),
        };
        Ok(Found::Name(Place { folder, folder_path, name: name.to_owned() }, there))
    }

    fn of_object(&self, found: BorrowedFd<'_>) -> Look<Found> {
        let there = fstat(found)?;
        for attempt in 0..TRIES {
            let path = path_of(found)?;
            if !self.roots.have(&path) {
                return Ok(Found::Nothing);
            }
            if self.roots.roots.iter().any(|root| root.path == path) {
                let theirs = Theirs::new(found.try_clone_to_owned()?);
                let Some((folder, folder_path)) = self.roots.own(&theirs)? else { return Ok(Found::Nothing) };
                return Ok(Found::Name(Place { folder, folder_path, name: OsString::new() }, Some(there)));
            }
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                return Ok(Found::Nothing);
            };
            // It has the file of that name only if its path is still this one.
            let parent = match self.roots.folders.at(parent) {
                Some(kept) if attempt == 0 => Ok(kept),
                _ => self.folder(libc::AT_FDCWD, parent.as_os_str().as_bytes()),
            };
            match parent {
                Ok(parent) => match self.in_folder(&parent, name, true)? {
                    Found::Nothing => return Ok(Found::Nothing),
                    Found::Name(place, Some(here)) if same(&here, &there) => {
                        return Ok(Found::Name(place, Some(here)));
                    }
                    // A mount of the sandbox hides the file of the root.
                    Found::Name(_, Some(here)) if here.st_dev != there.st_dev => return Ok(Found::Nothing),
                    Found::Name(..) => {}
                },
                Err(Trouble::Fails) => {}
                Err(trouble) => return Err(trouble),
            }
            // A file without a name.
            if fstat(found)?.st_nlink == 0 {
                return Ok(Found::Nothing);
            }
        }
        Err(Trouble::Unknown(format!("{} is another file by now", path_of(found)?.display())))
    }

    /// Opens the folder of a path, and returns the name in it; `None` for a path that has none.
    fn parent<'a>(&self, folder: i32, text: &'a [u8]) -> Look<Option<(Theirs, &'a OsStr)>> {
        let end = text.iter().rposition(|it| *it != b'/').map_or(0, |it| it + 1);
        let text = text.get(..end).unwrap_or_default();
        let slash = text.iter().rposition(|it| *it == b'/').map_or(0, |it| it + 1);
        let (before, name) = text.split_at(slash);
        if matches!(name, b"" | b"." | b"..") {
            return Ok(None);
        }
        Ok(Some((self.folder(folder, before)?, OsStr::from_bytes(name))))
    }

    /// Looks up a folder; an empty text means `folder` itself.
    fn folder(&self, folder: i32, text: &[u8]) -> Look<Theirs> {
        if text.is_empty() {
            return self.base(folder);
        }
        let mut names = text.split(|it| *it == b'/').filter(|it| !it.is_empty());
        if let (Some(name), None) = (names.next(), names.next())
            && !text.starts_with(b"/")
        {
            // A name alone is not a link on the way to another, so that it tells which folder it is.
            let base = self.base(folder)?;
            let key = Key::at(base.handle.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW);
            if let Ok(Some(key)) = key
                && let Some(kept) = self.roots.folders.theirs(key)
            {
                return Ok(kept);
            }
        }
        Ok(Theirs::new(self.open(folder, text, OFlags::PATH | OFlags::DIRECTORY)?))
    }

    /// Opens what the process has at this path.
    fn open(&self, folder: i32, text: &[u8], flags: OFlags) -> Look<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        let root = self.root()?;
        let is_absolute = text.first() == Some(&b'/');
        let rest = text.iter().position(|it| *it != b'/').and_then(|it| text.get(it..));
        let rest = match rest {
            Some(rest) if is_absolute => rest,
            _ if is_absolute => b".",
            _ if text.is_empty() => return Err(Trouble::Fails),
            _ => text,
        };
        let base;
        let from = if is_absolute {
            root.as_fd()
        } else {
            base = self.base(folder)?;
            base.handle.as_fd()
        };
        let straight = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match openat2(from, rest, flags, Mode::empty(), straight) {
            // A link on the way, or one of `/proc`.
            Err(Errno::LOOP) => Ok(walk(self.thread, root.as_fd(), from, text, flags)?),
            opened => Ok(opened?),
        }
    }

    fn root(&self) -> Look<Arc<OwnedFd>> {
        let mut kept = self.root.0.lock();
        if let Some(root) = &*kept {
            return Ok(root.clone());
        }
        let path = format!("/proc/{}/root", self.thread);
        let root = openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let root = root.map_err(of_process)?;
        Ok(kept.insert(Arc::new(root)).clone())
    }

    fn base(&self, folder: i32) -> Look<Theirs> {
        let descriptor;
        let path = match folder {
            libc::AT_FDCWD => "cwd",
            number => {
                descriptor = format!("fd/{number}");
                descriptor.as_str()
            }
        };
        let found = self.in_process(|process| {
            let key = Key::at(process, path.as_bytes(), AtFlags::empty())?;
            if let Some(kept) = key.and_then(|it| self.roots.folders.theirs(it)) {
                return Ok(kept);
            }
            let opened = Theirs::new(openat(process, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?);
            // The next call most likely names a file below it, too: it is kept, if it is in a root.
            let _ = self.roots.own(&opened);
            Ok(opened)
        });
        found.map_err(of_process)
    }

    /// Returns whether the process runs git's own program: one of that name that no command can have written, without
    /// libraries that one may have written.
    pub(super) fn runs_git(&self) -> bool {
        let Ok(path) = self.in_process(|process| readlinkat(process, "exe", Vec::new())) else { return false };
        let name = path.to_bytes().rsplit(|it| *it == b'/').next().unwrap_or_default();
        (name == b"git" || name.starts_with(b"git-"))
            && self.in_process(|process| openat(process, "exe", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()))
                .is_ok_and(|it| is_read_only(&it))
            && self.libraries().is_some_and(|them| them.iter().all(|it| self.may_be_loaded(it)))
    }

    /// Returns the libraries, and the folders of libraries, that the environment of the process names.
    fn libraries(&self) -> Option<Vec<Vec<u8>>> {
        let environment = self.in_process(|process| {
            let mut bytes = Vec::new();
            let file = openat(process, "environ", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
            let read = File::from(file).take(ENVIRONMENT).read_to_end(&mut bytes);
            read.map(|_| bytes).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        });
        let environment = environment.ok()?;
        let mut libraries = Vec::new();
        for line in environment.split(|it| *it == 0) {
            let is_folders = line.starts_with(b"LD_LIBRARY_PATH=");
            if !is_folders && !line.starts_with(b"LD_PRELOAD=") && !line.starts_with(b"LD_AUDIT=") {
                continue;
            }
            let value = line.splitn(2, |it| *it == b'=').nth(1).filter(|it| !it.is_empty());
            for part in value.into_iter().flat_map(|it| it.split(|it| b":; ".contains(it))) {
                // Among folders, an empty one is the working folder.
                libraries.push(if is_folders && part.is_empty() { b".".to_vec() } else { part.to_vec() });
            }
        }
        Some(libraries)
    }

    /// Returns whether no command can have written what is at this path.
    fn may_be_loaded(&self, path: &[u8]) -> bool {
        match self.open(libc::AT_FDCWD, path, OFlags::PATH) {
            Ok(found) => is_read_only(&found),
            // It is not there, or is the name alone of a library of the system.
            Err(Trouble::Fails) => true,
            Err(_) => false,
        }
    }

    fn in_process<T>(&self, look: impl Fn(BorrowedFd<'_>) -> Result<T, Errno>) -> Result<T, Errno> {
        self.roots.folders.in_process(self.thread, look)
    }
}

/// Returns whether a file lies in a mount that commands can't write.
fn is_read_only(file: &OwnedFd) -> bool {
    fstatvfs(file).is_ok_and(|it| it.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Returns the path of an open file at this moment.
fn path_of(file: BorrowedFd<'_>) -> Look<PathBuf> {
    match read_path(file) {
        Err(Errno::NAMETOOLONG) => {}
        path => return Ok(path?),
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut above = openat(file, "..", flags, Mode::empty())?;
    loop {
        match read_path(above.as_fd()) {
            Err(Errno::NAMETOOLONG) => above = openat(&above, "..", flags, Mode::empty())?,
            path => return Err(Trouble::Long(path?)),
        }
    }
}

/// Returns what is at a name in a folder, as the process has it; `None`, if nothing is.
fn entry(folder: &Theirs, name: &OsStr) -> Result<Option<Statx>, Errno> {
    let wanted = StatxFlags::TYPE | StatxFlags::INO;
    match statx(&folder.handle, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, wanted) {
        Ok(there) => Ok(Some(there)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn is_link(there: &Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(there.st_mode).is_symlink()
}
