//! Comparison of an overlay's changes with the folder below it.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use kit::{
    files::open_folder,
    procs::preview::{Change, PathChange},
};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fgetxattr, fstat, openat, readlinkat, statat};

use super::change;

/// Limits of what is read and listed.
const DEEPEST: usize = 1000;
const MOST: usize = 50_000;
const COMPARED: u64 = 64 << 20;
const TEXT: u64 = 256 << 10;
const TEXTS: u64 = 1 << 20;

/// The attribute of a folder that hides the one below it.
const OPAQUE: &str = "user.overlay.opaque";

/// The differences found so far.
#[derive(Default)]
pub(super) struct Found {
    pub(super) changes: Vec<PathChange>,
    /// New regular files, with what reads them.
    pub(super) created: Vec<Plain>,
    /// Deleted regular files: each alone, or with the deleted folder around it.
    pub(super) deleted: Vec<(Plain, Option<PathBuf>)>,
    pub(super) notes: Vec<String>,
    /// Bytes of texts kept for diffs.
    texts: u64,
    entries: usize,
}

/// A regular file that was created or deleted.
pub(super) struct Plain {
    /// Its path for the person.
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// The folder that it is read from.
    pub(super) root: std::sync::Arc<OwnedFd>,
    /// Its path below that folder.
    pub(super) rest: PathBuf,
}

impl Found {
    pub(super) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn push(&mut self, path: &Path, what: Change) {
        self.changes.push(change(path, what));
    }

    /// Counts an entry; returns false if there are too many.
    fn takes(&mut self) -> bool {
        self.entries += 1;
        if self.entries > MOST {
            self.note(format!("more than {MOST} changed files: not all are listed"));
        }
        self.entries <= MOST
    }
}

/// The two sides of one overlay.
struct Walk<'a> {
    upper: std::sync::Arc<OwnedFd>,
    lower: std::sync::Arc<OwnedFd>,
    at: &'a Path,
    found: &'a mut Found,
}

/// A folder on both sides.
struct Sides {
    upper: OwnedFd,
    lower: Option<OwnedFd>,
    /// Whether entries of the lower folder that the upper one does not have are gone.
    hides: bool,
}

/// Adds what the changes in the folder `name` of `uppers` are to the folder `from`, which is shown at `at`.
pub(super) fn overlay(
    uppers: &OwnedFd,
    name: &str,
    from: &Path,
    at: &Path,
    found: &mut Found,
) -> io::Result<()> {
    let upper = folder(uppers, OsStr::new(name))?;
    let lower = open_folder(from)?;
    metadata(&fstat(&lower)?, &fstat(&upper)?, at, found);
    let sides = Sides { upper: upper.try_clone()?, lower: Some(lower.try_clone()?), hides: false };
    let mut walk = Walk { upper: upper.into(), lower: lower.into(), at, found };
    walk.folder(&sides, Path::new(""), 0);
    Ok(())
}

impl Walk<'_> {
    /// Adds the changes in a folder; returns the number of entries that it has in the upper folder.
    fn folder(&mut self, sides: &Sides, rest: &Path, depth: usize) -> usize {
        let at = self.at.join(rest);
        if depth > DEEPEST {
            self.found.note(format!("{}: deeper than {DEEPEST} folders, so not listed", at.display()));
            return 0;
        }
        let names = match names(&sides.upper) {
            Ok(names) => names,
            Err(error) => {
                self.found.note(format!("{}: can't be listed: {error}", at.display()));
                return 0;
            }
        };
        for name in &names {
            if !self.found.takes() {
                return names.len();
            }
            self.entry(sides, name, &rest.join(name), depth);
        }
        if sides.hides
            && let Some(lower) = &sides.lower
        {
            for name in super::compare::names(lower).unwrap_or_default() {
                if names.contains(&name) || !self.found.takes() {
                    continue;
                }
                if let Ok(was) = look(lower, &name) {
                    self.deleted(lower, &name, &rest.join(&name), &was);
                }
            }
        }
        names.len()
    }

    fn entry(&mut self, sides: &Sides, name: &OsStr, rest: &Path, depth: usize) {
        let Ok(is) = look(&sides.upper, name) else { return };
        let was = sides.lower.as_ref().and_then(|lower| look(lower, name).ok());
        let lower = sides.lower.as_ref();
        let at = self.at.join(rest);
        if is_whiteout(&is) {
            if let (Some(was), Some(lower)) = (&was, lower) {
                self.deleted(lower, name, rest, was);
            }
            return;
        }
        if kind(&is) != FileType::Directory {
            match (&was, lower) {
                (Some(was), Some(lower)) if kind(was) != FileType::Directory => {
                    self.compare((lower, &sides.upper), name, was, &is, &at);
                }
                (Some(was), Some(lower)) => {
                    self.deleted(lower, name, rest, was);
                    self.created(&sides.upper, name, rest, &is);
                }
                _ => self.created(&sides.upper, name, rest, &is),
            }
            return;
        }
        let upper = match folder(&sides.upper, name) {
            Ok(upper) => upper,
            Err(error) => {
                return self.found.note(format!("{}: can't be listed: {error}", at.display()));
            }
        };
        let below = lower.filter(|_| was.as_ref().is_some_and(|it| kind(it) == FileType::Directory));
        let below = below.and_then(|lower| folder(lower, name).ok());
        match (&was, &below, lower) {
            (Some(was), Some(_), _) => metadata(was, &is, &at, self.found),
            (Some(was), None, Some(lower)) => self.deleted(lower, name, rest, was),
            _ => {}
        }
        let is_new = below.is_none();
        let hides = sides.hides || is_opaque(&upper);
        let count = self.folder(&Sides { upper, lower: below, hides }, rest, depth + 1);
        if is_new && count == 0 {
            self.found.push(&at, Change::CreatedFolder);
        }
    }

    fn created(&mut self, upper: &OwnedFd, name: &OsStr, rest: &Path, is: &Stat) {
        let path = self.at.join(rest);
        if kind(is) == FileType::RegularFile {
            let (bytes, root) = (size(is), self.upper.clone());
            self.found.created.push(Plain { path, bytes, root, rest: rest.to_owned() });
        } else {
            let what = words(upper, name, is);
            self.found.push(&path, Change::CreatedOther { what });
        }
    }

    fn deleted(&mut self, lower: &OwnedFd, name: &OsStr, rest: &Path, was: &Stat) {
        let path = self.at.join(rest);
        match kind(was) {
            FileType::Directory => {
                let mut files = 0;
                if let Ok(handle) = folder(lower, name) {
                    self.files_in(&handle, rest, &path, &mut files, 0);
                }
                self.found.push(&path, Change::Deleted { folder: Some(files) });
            }
            FileType::RegularFile => {
                let (bytes, root) = (size(was), self.lower.clone());
                self.found.deleted.push((Plain { path, bytes, root, rest: rest.to_owned() }, None));
            }
            _ => self.found.push(&path, Change::Deleted { folder: None }),
        }
    }

    /// Adds the files of a deleted folder.
    fn files_in(&mut self, lower: &OwnedFd, rest: &Path, top: &Path, files: &mut u64, depth: usize) {
        for name in names(lower).unwrap_or_default() {
            let Ok(was) = look(lower, &name) else { continue };
            let rest = rest.join(&name);
            if kind(&was) == FileType::Directory {
                if let Some(handle) = folder(lower, &name).ok().filter(|_| depth < DEEPEST) {
                    self.files_in(&handle, &rest, top, files, depth + 1);
                }
                continue;
            }
            *files += 1;
            if kind(&was) == FileType::RegularFile && self.found.deleted.len() < MOST {
                let (path, root) = (self.at.join(&rest), self.lower.clone());
                let plain = Plain { path, bytes: size(&was), root, rest };
                self.found.deleted.push((plain, Some(top.to_owned())));
            }
        }
    }

    /// Adds the difference between two entries that are not folders.
    fn compare(
        &mut self,
        (lower, upper): (&OwnedFd, &OwnedFd),
        name: &OsStr,
        was: &Stat,
        is: &Stat,
        at: &Path,
    ) {
        if kind(was) != kind(is) {
            let kinds = (words(lower, name, was), words(upper, name, is));
            return self.found.push(at, Change::Replaced { kinds });
        }
        match kind(is) {
            FileType::RegularFile => {
                let bytes = (size(was), size(is));
                let files = open(lower, name).and_then(|old| Ok((old, open(upper, name)?)));
                let same = match files {
                    _ if bytes.0 != bytes.1 => false,
                    Ok((old, new)) if bytes.0 <= COMPARED => equal(old, new).unwrap_or(false),
                    _ => time(was) == time(is),
                };
                if same {
                    return metadata(was, is, at, self.found);
                }
                let texts = self.texts((lower, upper), name, bytes);
                self.found.push(at, Change::Changed { bytes, texts });
            }
            FileType::Symlink => {
                let kinds = (words(lower, name, was), words(upper, name, is));
                if kinds.0 != kinds.1 {
                    self.found.push(at, Change::Replaced { kinds });
                }
            }
            _ => metadata(was, is, at, self.found),
        }
    }

    fn texts(
        &mut self,
        (lower, upper): (&OwnedFd, &OwnedFd),
        name: &OsStr,
        bytes: (u64, u64),
    ) -> Option<(String, String)> {
        let both = bytes.0.saturating_add(bytes.1);
        if bytes.0.max(bytes.1) > TEXT || self.found.texts.saturating_add(both) > TEXTS {
            return None;
        }
        let text = |folder: &OwnedFd| {
            let mut bytes = Vec::new();
            open(folder, name).ok()?.take(TEXT).read_to_end(&mut bytes).ok()?;
            String::from_utf8(bytes).ok().filter(|it| !it.contains('\0'))
        };
        let texts = (text(lower)?, text(upper)?);
        self.found.texts += both;
        Some(texts)
    }
}

/// Adds a difference of mode, owner or time.
fn metadata(was: &Stat, is: &Stat, at: &Path, found: &mut Found) {
    let mode = |it: &Stat| it.st_mode & 0o7777;
    let mut what = Vec::new();
    if mode(was) != mode(is) {
        what.push(format!("mode {:o} to {:o}", mode(was), mode(is)));
    }
    if (was.st_uid, was.st_gid) != (is.st_uid, is.st_gid) {
        what.push(format!("owner {}:{} to {}:{}", was.st_uid, was.st_gid, is.st_uid, is.st_gid));
    }
    // The times of folders change with their entries, which are listed.
    if what.is_empty() && kind(is) != FileType::Directory && time(was) != time(is) {
        what.push("another modification time".to_owned());
    }
    if !what.is_empty() {
        found.push(at, Change::Metadata { what: what.join(", ") });
    }
}

fn words(folder: &OwnedFd, name: &OsStr, about: &Stat) -> String {
    match kind(about) {
        FileType::RegularFile => "file".to_owned(),
        FileType::Directory => "folder".to_owned(),
        FileType::Symlink => {
            let target = readlinkat(folder, name, Vec::new()).unwrap_or_default();
            format!("link to {}", OsStr::from_bytes(target.as_bytes()).display())
        }
        FileType::Fifo => "pipe".to_owned(),
        FileType::Socket => "socket".to_owned(),
        _ => "device".to_owned(),
    }
}

fn is_opaque(folder: &OwnedFd) -> bool {
    let mut value = [0_u8; 4];
    fgetxattr(folder, OPAQUE, &mut value[..]).is_ok_and(|length| value.get(..length) == Some(b"y"))
}

fn is_whiteout(about: &Stat) -> bool {
    kind(about) == FileType::CharacterDevice && about.st_rdev == 0
}

fn kind(about: &Stat) -> FileType {
    FileType::from_raw_mode(about.st_mode)
}

fn size(about: &Stat) -> u64 {
    u64::try_from(about.st_size).unwrap_or_default()
}

fn time(about: &Stat) -> (i64, i64) {
    (about.st_mtime, i64::try_from(about.st_mtime_nsec).unwrap_or_default())
}

fn look(folder: &OwnedFd, name: &OsStr) -> io::Result<Stat> {
    Ok(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn folder(around: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(around, name, flags, Mode::empty())?)
}

fn open(around: &OwnedFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(around, name, flags, Mode::empty())?))
}

/// Opens a file below a folder, without following a symlink.
pub(super) fn open_below(root: &OwnedFd, rest: &Path) -> io::Result<File> {
    let mut around = root.as_fd().try_clone_to_owned()?;
    if let Some(parent) = rest.parent() {
        for name in parent {
            around = folder(&around, name)?;
        }
    }
    open(&around, rest.file_name().unwrap_or_default())
}

fn names(folder: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Returns whether two files have the same content.
pub(super) fn equal(mut one: File, mut other: File) -> io::Result<bool> {
    let mut buffers = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let length = read_full(&mut one, &mut buffers.0)?;
        let same = length == read_full(&mut other, &mut buffers.1)?;
        if !same || buffers.0.get(..length) != buffers.1.get(..length) {
            return Ok(false);
        }
        if length < buffers.0.len() {
            return Ok(true);
        }
    }
}

fn read_full(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|it| !it.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
