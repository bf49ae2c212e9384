//! Lookup of the file that a stopped call concerns.
//!
//! A path is looked up where the process has it: below its own root, its working folder, its descriptors. The
//! folder that is found is then looked up once more from haft's own handle of the root, without any link, and
//! must be the same one.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, Statx, StatxAttributes, StatxFlags, fstat,
        openat, openat2, readlinkat, statat, statx,
    },
    io::Errno,
};

use super::{
    calls::At,
    folders::{Folders, Key, Theirs, read_path},
    log::Place,
    system,
};

/// The most links that are followed one after the other.
const LINKS: usize = 40;
/// The times that a look is repeated when folders move meanwhile.
const TRIES: usize = 8;

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
    pub(super) root: &'a OnceLock<OwnedFd>,
    pub(super) thread: u32,
}

impl Looking<'_> {
    /// Reads the text of a path.
    pub(super) fn text(&self, at: At) -> Look<Vec<u8>> {
        Ok(system::path(self.thread, at.text)?)
    }

    /// Reads the path in the address of a socket, if there is one.
    pub(super) fn socket(&self, address: u64, length: u64) -> Look<Option<Vec<u8>>> {
        Ok(system::socket_path(self.thread, address, length)?)
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
            Some(statx(&folder, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?.stx_mnt_id)
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
        })?;
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
        if text.ends_with(b"/") || self.of_itself(text).is_some() {
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
        if let Some(path) = self.of_itself(text) {
            return Ok(openat(CWD, path.as_slice(), flags, Mode::empty())?);
        }
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
            Err(Errno::LOOP) => {}
            opened => return Ok(opened?),
        }
        // A link on the way: it is followed below the root of the process.
        let mut whole = Vec::new();
        if !is_absolute {
            whole = path_of(from)?.into_os_string().into_vec();
            whole.push(b'/');
        }
        whole.extend(rest);
        let whole = whole.strip_prefix(b"/").unwrap_or(&whole);
        for _ in 0..TRIES {
            match openat2(
                root,
                whole,
                flags,
                Mode::empty(),
                ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
            ) {
                Err(Errno::AGAIN) => {}
                // The descriptor of another process, through its folder in `/proc`.
                Err(Errno::LOOP | Errno::XDEV) => return Ok(openat(root, whole, flags, Mode::empty())?),
                opened => return Ok(opened?),
            }
        }
        Err(Trouble::Unknown("folders on the way move".to_owned()))
    }

    /// Returns the path, as haft has it, of a path by which a process names itself.
    fn of_itself(&self, text: &[u8]) -> Option<Vec<u8>> {
        let number: Option<&[u8]> = match text {
            b"/dev/stdin" => Some(b"0"),
            b"/dev/stdout" => Some(b"1"),
            b"/dev/stderr" => Some(b"2"),
            _ => text.strip_prefix(b"/dev/fd/"),
        };
        let mut path = format!("/proc/{}/", self.thread).into_bytes();
        if let Some(number) = number {
            path.extend_from_slice(b"fd/");
            path.extend_from_slice(number);
            return Some(path);
        }
        let rest = text.strip_prefix(b"/proc/self/").or_else(|| text.strip_prefix(b"/proc/thread-self/"))?;
        path.extend_from_slice(rest);
        Some(path)
    }

    fn root(&self) -> Look<&OwnedFd> {
        if let Some(root) = self.root.get() {
            return Ok(root);
        }
        let path = format!("/proc/{}/root", self.thread);
        let root = openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        // The folder of a process that has ended.
        let root = root.map_err(|error| match error {
            Errno::NOENT | Errno::SRCH => Trouble::Fails,
            error => Trouble::Unknown(format!("the root of the process: {error}")),
        })?;
        Ok(self.root.get_or_init(|| root))
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
        match found {
            Err(error @ (Errno::ACCESS | Errno::PERM)) => {
                Err(Trouble::Unknown(format!("the folder of the process: {error}")))
            }
            found => Ok(found?),
        }
    }

    /// Returns the path of the program that the process runs.
    pub(super) fn program(&self) -> Option<PathBuf> {
        let path = self.in_process(|process| readlinkat(process, "exe", Vec::new())).ok()?;
        Some(OsString::from_vec(path.into_bytes()).into())
    }

    fn in_process<T>(&self, look: impl Fn(BorrowedFd<'_>) -> Result<T, Errno>) -> Result<T, Errno> {
        self.roots.folders.in_process(self.thread, look)
    }
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
