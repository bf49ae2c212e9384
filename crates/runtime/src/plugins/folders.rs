//! Tool folders: finds the entries that are tools; follows no links in a workspace.

use std::{
    ffi::OsStr,
    fs::File,
    io::Read,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat},
    io::Errno,
};
use sandbox::code::is_code;

use super::{ENABLED, Folder, Source, Whose};
use kit::quote::quote;
use serde::{Deserialize, Serialize};

/// Limit of a code file, in bytes.
pub(super) const LARGEST: u64 = 1 << 20;

/// Limit of tool files per folder; haft ignores the rest.
const FILES: usize = 20_000;

/// Limit of directory entries that haft reads; it ignores the rest.
const NAMES: usize = 100_000;

/// Limits of a search for code: entries, bytes, and depth. A folder beyond them is not searched.
const MOST_NAMES: usize = 50_000;
const MOST_BYTES: u64 = 128 << 20;
const DEPTH: usize = 16;

/// Granularity of file timestamps: a file changed less than this before it was read may change again without
/// a new timestamp.
const TICK_NS: i64 = 20_000_000;

/// The content of a tool folder.
#[derive(Default)]
pub(super) struct Listing {
    /// The tool files, sorted by name.
    pub(super) files: Vec<Found>,
    /// The names in its `enabled.json`, or what is wrong with that file; none, if there is no such file.
    pub(super) enabled: Option<Result<Vec<String>, String>>,
    /// Problems with the folder as a whole.
    pub(super) troubles: Vec<String>,
}

/// A tool file.
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) sort: Sort,
    pub(super) stamp: Stamp,
    /// Its content, or the reason why it can't be read.
    pub(super) held: Result<FileContent, String>,
}

/// The content of a file.
#[derive(Clone)]
pub(super) struct FileContent {
    pub(super) source: Arc<Source>,
    pub(super) hash: blake3::Hash,
}

impl FileContent {
    /// Creates the content of these bytes.
    pub(super) fn new(bytes: impl Into<Arc<[u8]>>, hash: blake3::Hash) -> Self {
        Self { source: Arc::new(Source::held(bytes.into(), hash)), hash }
    }
}

/// Returns the content of the Python file of this path that has this stamp, if it was read before.
pub(super) type KnownContent<'a> = dyn FnMut(&Path, &Stamp) -> Option<FileContent> + 'a;

/// The kind of a tool file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// `NAME.py`
    Python,
    /// `NAME.tool.toml`, or `tool.toml` in a folder of its own.
    Manifest,
    /// Any other executable file.
    Program,
}

/// The identity of a file's content: inode, size and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StampFields", into = "StampFields")]
pub(super) struct Stamp {
    inode: u64,
    size: i64,
    changed: i64,
    /// The time of the last change of its metadata: `chmod +x` makes a file a tool.
    moved: i64,
    /// Whether the file was older than a tick when it was read: then an equal stamp means equal content.
    settled: bool,
    follows: bool,
}

/// The fields of a stamp as a cache stores them, without their names: a start parses one for each known file.
type StampFields = (u64, i64, i64, i64, bool, bool);

impl From<StampFields> for Stamp {
    fn from((inode, size, changed, moved, settled, follows): StampFields) -> Self {
        Self { inode, size, changed, moved, settled, follows }
    }
}

impl From<Stamp> for StampFields {
    fn from(it: Stamp) -> Self {
        (it.inode, it.size, it.changed, it.moved, it.settled, it.follows)
    }
}

impl Stamp {
    /// Returns whether an equal stamp means equal content.
    pub(super) fn is_settled(&self) -> bool {
        self.settled
    }

    /// Returns whether the file certainly has the content that it had.
    pub(super) fn holds(&self, path: &Path) -> bool {
        self.settled && self.is_of(path)
    }

    /// Returns whether the file has this stamp; it may have other content, unless the stamp is settled.
    pub(super) fn is_of(&self, path: &Path) -> bool {
        stat_of(CWD, path.as_os_str(), self.follows)
            .is_ok_and(|it| Self::of(&it, self.follows, self.settled) == *self)
    }

    fn of(stat: &Stat, follows: bool, settled: bool) -> Self {
        let (changed, moved) = times(stat);
        Self { inode: stat.st_ino, size: stat.st_size, changed, moved, settled, follows }
    }

    /// Creates the stamp of a file that is read now.
    fn now(stat: &Stat, follows: bool) -> Self {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |it| i64::try_from(it.as_nanos()).unwrap_or(0));
        Self::of(stat, follows, now - times(stat).1 > TICK_NS)
    }

    /// Creates the stamp of a file that can't be read.
    fn nothing(follows: bool) -> Self {
        Self { inode: 0, size: 0, changed: 0, moved: 0, settled: false, follows }
    }
}

/// Returns the times of the last change of the content and of the metadata, in nanoseconds.
fn times(stat: &Stat) -> (i64, i64) {
    #[cfg_attr(
        target_os = "linux",
        expect(clippy::unnecessary_cast, reason = "the types differ from system to system")
    )]
    let time = |seconds, nanos| (seconds as i64).wrapping_mul(1_000_000_000).wrapping_add(nanos as i64);
    (time(stat.st_mtime, stat.st_mtime_nsec as i64), time(stat.st_ctime, stat.st_ctime_nsec as i64))
}

/// Reads a tool folder. One that does not exist is empty.
///
/// In a workspace haft follows no links, neither to the folder nor in it: the author of a workspace must not
/// choose which other files of the person haft reads.
///
/// `known` returns the content of a Python file that has not changed, which is then not read.
pub(super) fn read(folder: &Folder, workspace: &Path, known: &mut KnownContent<'_>) -> Listing {
    let mut listing = Listing::default();
    let names = match open(folder, workspace) {
        Ok(dir) => names(&dir).map(|names| (dir, names)),
        Err(Errno::NOENT) => return listing,
        Err(errno) => Err(errno),
    };
    let (dir, mut names) = match names {
        Ok(both) => both,
        Err(Errno::LOOP | Errno::NOTDIR) if folder.whose != Whose::Person => {
            listing.troubles.push(
                "it is reached through a link, or is not a folder; in a workspace no link is followed"
                    .to_owned(),
            );
            return listing;
        }
        Err(errno) => {
            listing.troubles.push(format!("it can't be read: {errno}"));
            return listing;
        }
    };
    names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    let at = Place { dir: &dir, path: &folder.path, follows: folder.whose == Whose::Person };
    for (name, kind) in &names {
        if name == ENABLED.as_bytes() {
            listing.enabled = Some(at.enabled());
            continue;
        }
        let Some(found) = at.look(OsStr::from_bytes(name), *kind, known) else { continue };
        if listing.files.len() == FILES {
            let last = listing.files.last().map(|it| it.path.display().to_string()).unwrap_or_default();
            listing
                .troubles
                .push(format!("it has more than {FILES} files: what comes after `{last}` is ignored"));
            break;
        }
        listing.files.push(found);
    }
    listing
}

/// A code file in a tool folder, at any depth.
pub(super) struct CodeFile {
    pub(super) path: PathBuf,
    /// The hash of its content; none for a file that can't be read, or a link.
    pub(super) hash: Option<blake3::Hash>,
    /// Its content, if it is Python.
    pub(super) python: Option<Vec<u8>>,
    /// Whether it is a tool file.
    pub(super) is_tool: bool,
}

/// Returns all code in this folder, sorted by path.
pub(super) fn code(folder: &Folder, workspace: &Path) -> Result<Vec<CodeFile>, String> {
    let unreadable = |errno: Errno| format!("{} can't be read: {errno}", folder.path.display());
    let top = match open(folder, workspace) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(Vec::new()),
        Err(errno) => return Err(unreadable(errno)),
    };
    let follows = folder.whose == Whose::Person;
    let mut folders = vec![(top, folder.path.clone(), 0)];
    let mut looking = Looking::default();
    while let Some((dir, path, depth)) = folders.pop() {
        let at = Place { dir: &dir, path: &path, follows };
        for (name, kind) in names(&dir).map_err(unreadable)? {
            let name = OsStr::from_bytes(&name);
            looking.names += 1;
            let Ok(stat) = stat_of(&dir, name, follows) else { continue };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory if name == "__pycache__" => {}
                FileType::Directory => {
                    let how = if follows { STAND } else { STAND | OFlags::NOFOLLOW };
                    let below = openat(&dir, name, how, Mode::empty()).map_err(unreadable)?;
                    folders.push((below, path.join(name), depth + 1));
                }
                FileType::RegularFile if is_code(&path.join(name)) => {
                    let is_tool = match depth {
                        0 => at.look(name, kind, &mut |_, _| None).is_some(),
                        1 => name == "tool.toml",
                        _ => false,
                    };
                    looking.take(&at, name, is_tool);
                }
                // The target of a link is not part of the folder.
                FileType::Symlink if is_code(&path.join(name)) => {
                    let path = path.join(name);
                    looking.found.push(CodeFile { path, hash: None, python: None, is_tool: false });
                }
                _ => {}
            }
            if looking.names > MOST_NAMES || looking.bytes > MOST_BYTES || depth > DEPTH {
                return Err(format!("{} has too much in it to be looked through", folder.path.display()));
            }
        }
    }
    looking.found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(looking.found)
}

#[derive(Default)]
struct Looking {
    found: Vec<CodeFile>,
    names: usize,
    bytes: u64,
}

impl Looking {
    fn take(&mut self, at: &Place<'_>, name: &OsStr, is_tool: bool) {
        let path = at.path.join(name);
        let held = at.open_regular(name).ok().and_then(|(file, _)| {
            let mut bytes = Vec::new();
            file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
            Some(bytes)
        });
        self.bytes += held.as_ref().map_or(0, |it| it.len() as u64);
        let hash = held.as_ref().map(|it| blake3::hash(it));
        let python = held.filter(|it| name.as_bytes().ends_with(b".py") && it.len() as u64 <= LARGEST);
        self.found.push(CodeFile { path, hash, python, is_tool });
    }
}

/// Returns a fingerprint of the entries directly in the folder: a failed file may depend on them.
pub(super) fn fingerprint(folder: &Folder, workspace: &Path) -> String {
    let mut hasher = blake3::Hasher::new();
    let Ok(dir) = open(folder, workspace) else { return String::new() };
    let mut names = names(&dir).unwrap_or_default();
    names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    // Python writes this folder at every import.
    for (name, _) in names.iter().filter(|it| it.0 != b"__pycache__") {
        let stat = stat_of(&dir, OsStr::from_bytes(name), folder.whose == Whose::Person);
        let stamp = stat.map(|it| Stamp::of(&it, true, true));
        hasher.update(name).update(format!("{stamp:?}").as_bytes());
    }
    hasher.finalize().to_hex().chars().take(16).collect()
}

/// Returns a digest of the files that tools of this folder may import and that are not tools: `_NAME.py`, and
/// Python files in subfolders.
pub(super) fn imports(folder: &Path) -> blake3::Hash {
    let mut stamps = Vec::new();
    let mut take = |path: PathBuf| {
        if let Ok(stat) = stat_of(CWD, path.as_os_str(), true) {
            let stamp = Stamp::of(&stat, true, true);
            stamps.push(format!("{path:?} {stamp:?}"));
        }
    };
    let inside = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().take(FILES);
    let is_python = |name: &OsStr| name.as_bytes().ends_with(b".py");
    for entry in inside(folder) {
        let (name, path) = (entry.file_name(), entry.path());
        if is_python(&name) {
            if name.as_bytes().starts_with(b"_") {
                take(path);
            }
        } else if !name.as_bytes().starts_with(b".") && name != "__pycache__" && path.is_dir() {
            inside(&path).filter(|it| is_python(&it.file_name())).for_each(|it| take(it.path()));
        }
    }
    stamps.sort_unstable();
    blake3::hash(stamps.join("\n").as_bytes())
}

type Name = (Vec<u8>, FileType);

fn names(dir: &OwnedFd) -> Result<Vec<Name>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)?.take(NAMES) {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !name.starts_with(b".") {
            names.push((name.to_vec(), entry.file_type()));
        }
    }
    Ok(names)
}

const STAND: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn open(folder: &Folder, workspace: &Path) -> Result<OwnedFd, Errno> {
    let open = |dir: &OwnedFd, name: &OsStr| openat(dir, name, STAND | OFlags::NOFOLLOW, Mode::empty());
    match folder.path.strip_prefix(workspace) {
        Ok(below) if folder.whose != Whose::Person => {
            let workspace = openat(CWD, workspace, STAND, Mode::empty())?;
            below.components().try_fold(workspace, |dir, part| open(&dir, part.as_os_str()))
        }
        _ => openat(CWD, &folder.path, STAND, Mode::empty()),
    }
}

fn stat_of(dir: impl rustix::fd::AsFd, name: &OsStr, follows: bool) -> Result<Stat, Errno> {
    statat(dir, name, if follows { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW })
}

/// A directory while haft reads its entries.
struct Place<'a> {
    dir: &'a OwnedFd,
    path: &'a Path,
    follows: bool,
}

impl Place<'_> {
    fn look(&self, name: &OsStr, kind: FileType, known: &mut KnownContent<'_>) -> Option<Found> {
        let bytes = name.as_bytes();
        if bytes.starts_with(b"_") {
            return None;
        }
        let sort = if bytes.ends_with(b".py") {
            Sort::Python
        } else if bytes.ends_with(b".tool.toml") {
            Sort::Manifest
        } else {
            return self.look_closer(name, kind);
        };
        Some(self.found(name, sort, known))
    }

    /// Checks whether the entry is an executable, or a folder with a `tool.toml`.
    fn look_closer(&self, name: &OsStr, kind: FileType) -> Option<Found> {
        if matches!(kind, FileType::RegularFile | FileType::Symlink | FileType::Unknown) {
            let stat = stat_of(self.dir, name, true).ok()?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => {
                    let executable =
                        Mode::from_raw_mode(stat.st_mode).intersects(Mode::XUSR | Mode::XGRP | Mode::XOTH);
                    if executable {
                        return Some(self.found(name, Sort::Program, &mut |_, _| None));
                    }
                    return self.begins_as_script(name).then(|| self.forgotten(name, &stat));
                }
                FileType::Directory => {}
                _ => return None,
            }
        } else if kind != FileType::Directory {
            return None;
        }
        let how = if self.follows { STAND } else { STAND | OFlags::NOFOLLOW };
        let dir = openat(self.dir, name, how, Mode::empty()).ok()?;
        let path = self.path.join(name);
        let below = Place { dir: &dir, path: &path, follows: self.follows };
        let manifest = OsStr::new("tool.toml");
        stat_of(below.dir, manifest, false)
            .is_ok()
            .then(|| below.found(manifest, Sort::Manifest, &mut |_, _| None))
    }

    fn begins_as_script(&self, name: &OsStr) -> bool {
        let Ok((mut file, _)) = self.open_regular(name) else { return false };
        let mut first = [0; 2];
        file.read_exact(&mut first).is_ok() && first == *b"#!"
    }

    /// Returns a script that is not executable, with a hint.
    fn forgotten(&self, name: &OsStr, stat: &Stat) -> Found {
        let path = self.path.join(name);
        let file = quote(&path.display().to_string());
        let held = Err(format!("it begins with `#!` but is not executable: `chmod +x {file}`"));
        Found { path, sort: Sort::Program, stamp: Stamp::now(stat, self.follows), held }
    }

    fn found(&self, name: &OsStr, sort: Sort, known: &mut KnownContent<'_>) -> Found {
        let path = self.path.join(name);
        let stat = stat_of(self.dir, name, self.follows);
        let stamp = stat.as_ref().map_or(Stamp::nothing(self.follows), |it| Stamp::now(it, self.follows));
        if name.to_str().is_none() {
            let held = Err("its name is not UTF-8".to_owned());
            return Found { path, sort, stamp, held };
        }
        if sort == Sort::Python
            && stamp.settled
            && stat.as_ref().is_ok_and(|it| FileType::from_raw_mode(it.st_mode) == FileType::RegularFile)
            && let Some(held) = known(&path, &stamp)
        {
            return Found { path, sort, stamp, held: Ok(held) };
        }
        // The type is checked before opening: opening a device may have side effects.
        match stat.map(|it| FileType::from_raw_mode(it.st_mode)) {
            Ok(FileType::RegularFile) => {}
            Ok(FileType::Symlink) => {
                let held =
                    Err("it is a link, which is not followed in a workspace: put the file itself there"
                        .to_owned());
                return Found { path, sort, stamp, held };
            }
            Ok(_) => return Found { path, sort, stamp, held: Err("it is not a regular file".to_owned()) },
            Err(errno) => {
                return Found { path, sort, stamp, held: Err(format!("it can't be read: {errno}")) };
            }
        }
        match self.hold(name, sort) {
            Ok((held, stamp)) => Found { path, sort, stamp, held: Ok(held) },
            Err(why) => Found { path, sort, stamp, held: Err(why) },
        }
    }

    fn hold(&self, name: &OsStr, sort: Sort) -> Result<(FileContent, Stamp), String> {
        let (file, stat) = self.open_regular(name)?;
        let stamp = Stamp::now(&stat, self.follows);
        let mut bytes =
            Vec::with_capacity(usize::try_from(stat.st_size).unwrap_or(0).min(LARGEST as usize) + 1);
        file.take(LARGEST + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| format!("it can't be read: {error}"))?;
        if bytes.len() as u64 <= LARGEST {
            let hash = blake3::hash(&bytes);
            return Ok((FileContent::new(bytes, hash), stamp));
        }
        if sort != Sort::Program {
            return Err(format!(
                "it has {} bytes, more than the {LARGEST} that a tool may have",
                stat.st_size
            ));
        }
        // A compiled program may have any size; it is the same as long as its stamp is.
        let hash = blake3::hash(format!("{:?}", Stamp { settled: true, ..stamp }).as_bytes());
        Ok((FileContent::new(Vec::new(), hash), stamp))
    }

    fn open_regular(&self, name: &OsStr) -> Result<(File, Stat), String> {
        let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let how = if self.follows { how } else { how | OFlags::NOFOLLOW };
        let file = openat(self.dir, name, how, Mode::empty())
            .map_err(|errno| format!("it can't be read: {errno}"))?;
        let stat = fstat(&file).map_err(|errno| format!("it can't be read: {errno}"))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err("it is not a regular file".to_owned());
        }
        Ok((file.into(), stat))
    }

    fn enabled(&self) -> Result<Vec<String>, String> {
        let (file, _) = self.open_regular(OsStr::new(ENABLED))?;
        let mut bytes = Vec::new();
        file.take(LARGEST).read_to_end(&mut bytes).map_err(|error| format!("it can't be read: {error}"))?;
        serde_json::from_slice(&bytes).map_err(|error| format!("it is not a JSON list of names: {error}"))
    }
}
