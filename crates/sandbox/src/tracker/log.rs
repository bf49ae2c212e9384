//! The log of one call: what it has recorded of which path, and its file on the disk.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ffi::OsString,
    fs::{DirBuilder, File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use kit::tracking::{Attribute, BeforeImage, Metadata, Node, Reason, Record, rebase};
use rustix::fs::{Mode, OFlags, Stat};

use super::{
    logs::{Bounds, Totals},
    refused::Asked,
};

/// Device and inode of a file.
pub(super) type Identity = (u64, u64);

#[expect(clippy::unnecessary_cast, reason = "the types differ between systems")]
pub(super) fn identity(there: &Stat) -> Identity {
    (there.st_dev as u64, there.st_ino as u64)
}

/// A name in a folder of a root, by haft's own handle of that folder.
#[derive(Clone)]
pub(super) struct Place {
    /// The handle of the folder.
    pub(super) folder: Arc<OwnedFd>,
    /// The folder's path at this moment.
    pub(super) folder_path: PathBuf,
    /// The name in it; empty: the folder itself, which is a root.
    pub(super) name: OsString,
}

impl Place {
    pub(super) fn path(&self) -> PathBuf {
        if self.name.is_empty() { self.folder_path.clone() } else { self.folder_path.join(&self.name) }
    }
}

/// How much of a path the log has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Its metadata.
    Metadata,
    /// The length of its content.
    Length,
    /// Everything.
    Whole,
    /// That nothing was there.
    New,
}

/// A file that was open when a call began.
pub(super) struct Early {
    pub(super) place: Place,
    pub(super) there: Stat,
    pub(super) copy: Result<PathBuf, Reason>,
    /// Its image in the folder of the call, once that has a log.
    pub(super) image: Option<u64>,
}

/// The log of a call, open.
pub(super) struct Log {
    file: File,
    /// The folder of the images.
    pub(super) images: OwnedFd,
    pub(super) bounds: Bounds,
    next_image: u64,
    /// The bytes of all copies.
    pub(super) kept: u64,
    pub(super) seen: HashMap<PathBuf, Level>,
    /// The files whose content was copied, with what they were then, and their image.
    pub(super) copied: HashMap<Identity, (Metadata, BeforeImage)>,
    /// Files that got a further name in this call, with the name that they had.
    pub(super) named: HashMap<Identity, Place>,
    /// Paths in a `.git` that git's own program changed, and no other one since.
    by_git: HashSet<PathBuf>,
    /// The files that are their own images.
    pub(super) linked: HashMap<Identity, u64>,
    /// The files whose extended attributes are recorded.
    pub(super) attributed: HashSet<Identity>,
    /// Renames of which it is not known yet whether the system refused them.
    pub(super) renames: Vec<Asked>,
    /// The last change that could not be determined: one command may make many of the same kind.
    last_unknown: String,
    mixed: BTreeSet<String>,
    /// The records that are not written yet.
    lines: Vec<u8>,
    /// The counts of them.
    pub(super) counted: Totals,
}

impl Log {
    /// Opens the log in this folder, and creates both if they are missing. Reads what an earlier process of haft
    /// has recorded.
    pub(super) fn open(folder: &Path, bounds: Bounds) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let path = folder.join("log");
        let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let images = rustix::fs::open(folder, flags, Mode::empty())?;
        let mut log = Self {
            file,
            images,
            bounds,
            next_image: 0,
            kept: 0,
            seen: HashMap::new(),
            copied: HashMap::new(),
            named: HashMap::new(),
            by_git: HashSet::new(),
            linked: HashMap::new(),
            attributed: HashSet::new(),
            renames: Vec::new(),
            last_unknown: String::new(),
            mixed: BTreeSet::new(),
            lines: Vec::new(),
            counted: Totals::default(),
        };
        log.read_back()?;
        Ok(log)
    }

    fn read_back(&mut self) -> io::Result<()> {
        let mut ends = true;
        for line in BufReader::new(self.file.try_clone()?).split(b'\n') {
            let line = line?;
            let Ok(record) = serde_json::from_slice::<Record>(&line) else {
                // The last line, of a process that was killed while it wrote.
                ends = false;
                continue;
            };
            match record {
                Record::Before { path, node, kept, git } => {
                    if let BeforeImage::Linked(number) | BeforeImage::Copied(number) = kept {
                        self.next_image = self.next_image.max(number + 1);
                    }
                    if let (BeforeImage::Copied(_), Node::File(metadata)) = (&kept, &node) {
                        self.kept += metadata.size;
                        self.copied.insert(metadata.identity, (*metadata, kept.clone()));
                    }
                    self.saw_git(&path, git);
                    if let (BeforeImage::Linked(number), Node::File(metadata)) = (&kept, &node) {
                        self.linked.insert(metadata.identity, *number);
                    }
                    self.saw(path, level_of(&node, &kept));
                }
                Record::Moved { from, to } => self.move_seen(&from, &to),
                Record::NotByGit { path } => {
                    self.by_git.remove(&path);
                }
                Record::NotMoved { from, to } => self.move_seen(&to, &from),
                Record::Mixed { with } => self.mixed.extend(with),
                Record::Unknown { .. } | Record::Attributes { .. } | Record::StillOpen { .. } => {}
            }
        }
        if !ends {
            self.file.write_all(b"\n")?;
        }
        // An image may have been made whose record was not written.
        while rustix::fs::statat(
            &self.images,
            self.next_image.to_string(),
            rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        )
        .is_ok()
        {
            self.next_image += 1;
        }
        Ok(())
    }

    /// Returns how much of this path it has.
    pub(super) fn level(&self, path: &Path) -> Option<Level> {
        self.seen.get(path).copied()
    }

    /// Adds the record of a path.
    pub(super) fn before(&mut self, path: PathBuf, node: Node, kept: BeforeImage, git: bool) {
        match &kept {
            BeforeImage::Not(_) => self.counted.not_kept += 1,
            BeforeImage::Nothing if node == Node::Absent => self.counted.created += 1,
            _ => {}
        }
        self.saw_git(&path, git);
        self.saw(path.clone(), level_of(&node, &kept));
        self.add(&Record::Before { path, node, kept, git });
    }

    /// Adds the record of a path that is about to be moved.
    pub(super) fn moved(&mut self, from: PathBuf, to: PathBuf) {
        self.move_seen(&from, &to);
        self.add(&Record::Moved { from, to });
    }

    /// Adds a record that another program than git changes what git changed, if it does.
    pub(super) fn changed_again(&mut self, path: &Path, by_git: impl FnOnce() -> bool) {
        if self.by_git.contains(path) && !by_git() {
            self.not_by_git(path.to_owned());
        }
    }

    /// Adds a record that another program than git changes this part of a repository.
    pub(super) fn not_by_git(&mut self, path: PathBuf) {
        self.by_git.remove(&path);
        self.add(&Record::NotByGit { path });
    }

    /// Adds a record of a change whose file could not be determined.
    pub(super) fn unknown(&mut self, what: String) {
        self.counted.unknown += 1;
        if self.last_unknown == what {
            return;
        }
        self.last_unknown.clone_from(&what);
        self.add(&Record::Unknown { what });
    }

    /// Adds the extended attributes of a path that has a record.
    pub(super) fn attributes(&mut self, path: PathBuf, attributes: Vec<Attribute>) {
        self.add(&Record::Attributes { path, attributes });
    }

    /// Adds a record that changes may be those of these calls, unless there is one.
    pub(super) fn mixed<'a>(&mut self, with: impl Iterator<Item = &'a str>) {
        let new: Vec<String> = with.filter(|it| !self.mixed.contains(*it)).map(str::to_owned).collect();
        if !new.is_empty() {
            self.mixed.extend(new.iter().cloned());
            self.add(&Record::Mixed { with: new });
        }
    }

    /// Returns the number of the next image.
    pub(super) fn next_image(&mut self) -> u64 {
        self.next_image += 1;
        self.next_image - 1
    }

    /// Writes the records that were added. Returns their counts.
    pub(super) fn write(&mut self) -> io::Result<Totals> {
        let counted = std::mem::take(&mut self.counted);
        let lines = std::mem::take(&mut self.lines);
        if !lines.is_empty() {
            self.file.write_all(&lines)?;
        }
        Ok(counted)
    }

    pub(super) fn add(&mut self, record: &Record) {
        self.counted.records += 1;
        // All maps of a record have text as keys, so it can be written.
        if serde_json::to_writer(&mut self.lines, record).is_ok() {
            self.lines.push(b'\n');
        }
    }

    fn saw_git(&mut self, path: &Path, git: bool) {
        if git && path.components().any(|it| it.as_os_str() == ".git") {
            self.by_git.insert(path.to_owned());
        }
    }

    fn saw(&mut self, path: PathBuf, level: Level) {
        let seen = self.seen.entry(path).or_insert(level);
        *seen = (*seen).max(level);
    }

    /// A path is moved: what is recorded of it, and of the paths in it, is that of their new paths. What was
    /// recorded of the new path is that of what was there.
    pub(super) fn move_seen(&mut self, from: &Path, to: &Path) {
        // Of a moved folder, the files are not looked for: git moves single files.
        if self.by_git.remove(from) {
            self.by_git.insert(to.to_owned());
        }
        self.seen.retain(|it, _| !it.starts_with(to));
        let moved: Vec<(PathBuf, Level)> = self.seen.extract_if(|it, _| it.starts_with(from)).collect();
        self.seen
            .extend(moved.into_iter().filter_map(|(path, level)| Some((rebase(&path, from, to)?, level))));
        for place in self.named.values_mut() {
            if let Some(path) = rebase(&place.folder_path, from, to) {
                place.folder_path = path;
            }
        }
    }
}

fn level_of(node: &Node, kept: &BeforeImage) -> Level {
    match kept {
        BeforeImage::Nothing if *node == Node::Absent => Level::New,
        BeforeImage::Metadata => Level::Metadata,
        BeforeImage::Length => Level::Length,
        BeforeImage::Nothing | BeforeImage::Linked(_) | BeforeImage::Copied(_) | BeforeImage::Not(_) => {
            Level::Whole
        }
    }
}
