//! Logs of calls on the disk: reading, and the log that an undo writes of its own changes.

use std::{
    collections::{HashSet, VecDeque},
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use kit::{
    files::copy_with_holes,
    tracking::{BeforeImage, Node, Reason, Record, rebase},
};

use super::{LOG, folder::Spot};
use crate::paths::create_folder;

/// Reads the records of a log, with its length in bytes; `None` if there is none. A last line that was cut by
/// the death of its writer is left out: its change was not made.
pub(super) fn read(path: &Path) -> io::Result<Option<(Vec<Record>, u64)>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let whole = bytes.iter().rposition(|it| *it == b'\n').map_or(0, |at| at + 1);
    let lines = bytes.get(..whole).unwrap_or_default().split(|it| *it == b'\n').filter(|it| !it.is_empty());
    let record = |line: &[u8]| {
        serde_json::from_slice(line).unwrap_or_else(|_| Record::Unknown {
            what: "a record that this version of haft can't read".to_owned(),
        })
    };
    Ok(Some((lines.map(record).collect(), bytes.len() as u64)))
}

/// How the content of a file is kept before a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// The file itself, as its name is about to be removed or replaced.
    Link,
    /// A copy, as it is about to be written in place.
    Copy,
    /// Nothing, as only its metadata change.
    Metadata,
}

/// The log of an undo.
pub(super) struct Recorder {
    folder: PathBuf,
    log: File,
    next: u64,
    /// The paths that have a record, as they are called now.
    recorded: HashSet<PathBuf>,
    /// Their states, for an undo that goes on after a kill.
    before: Vec<(PathBuf, Node)>,
    /// The renames that it recorded before it was killed.
    renames: VecDeque<(PathBuf, PathBuf)>,
}

impl Recorder {
    /// Opens the log in this folder, or goes on with it.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        create_folder(folder)?;
        let path = folder.join(LOG);
        let records = read(&path)?.map(|(records, _)| records).unwrap_or_default();
        let (mut recorded, mut before, mut renames) = (HashSet::new(), Vec::new(), VecDeque::new());
        for record in records {
            match record {
                Record::Before { path, node, .. } => {
                    recorded.insert(path.clone());
                    before.push((path, node));
                }
                Record::Moved { from, to } => {
                    go_along(&mut recorded, &mut before, &from, &to);
                    renames.push_back((from, to));
                }
                Record::Unknown { .. }
                | Record::Mixed { .. }
                | Record::Attributes { .. }
                | Record::NotMoved { .. }
                | Record::NotByGit { .. }
                | Record::StillOpen { .. } => {}
            }
        }
        let images =
            fs::read_dir(folder)?.filter_map(|it| it.ok()?.file_name().to_str()?.parse::<u64>().ok());
        let next = images.max().map_or(0, |it| it + 1);
        let mut log = OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
        // A line that was cut ends here: the next record has its own.
        if fs::read(&path)?.last().is_some_and(|it| *it != b'\n') {
            log.write_all(b"\n")?;
        }
        Ok(Self { folder: folder.to_owned(), log, next, recorded, before, renames })
    }

    /// Returns whether a rename was recorded before a kill that is still to come.
    pub(super) fn is_behind(&self) -> bool {
        !self.renames.is_empty()
    }

    /// Returns whether the next recorded rename is this one, and then goes on behind it; with whether it is the last.
    pub(super) fn passes(&mut self, from: &Path, to: &Path) -> Option<bool> {
        let (recorded_from, recorded_to) = self.renames.front()?;
        if recorded_from != from || recorded_to != to {
            return None;
        }
        self.renames.pop_front();
        Some(self.renames.is_empty())
    }

    /// Returns what this undo found at a path before its first change.
    pub(super) fn found(&self, path: &Path) -> Option<&Node> {
        self.before.iter().rfind(|(known, _)| known == path).map(|(_, node)| node)
    }

    fn append(&mut self, record: &Record) -> io::Result<()> {
        let mut line =
            serde_json::to_vec(record).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        line.push(b'\n');
        self.log.write_all(&line)
    }

    /// Records a path before it is changed, and the folder around it if a name in it is about to change; also its extended attributes if they are about
    /// to be changed.
    pub(super) fn before(&mut self, path: &Path, keep: Keep, attributes: bool) -> io::Result<()> {
        // Permissions and times of a path are not in its folder.
        if keep != Keep::Metadata
            && let Some(folder) = path.parent()
            && !self.recorded.contains(folder)
        {
            let node = super::folder::node_at(folder)?;
            if matches!(node, Node::Folder(_)) {
                self.note(folder, node, BeforeImage::Metadata)?;
            }
        }
        if self.recorded.contains(path) {
            return Ok(());
        }
        let spot = Spot::at(path)?;
        let node = spot.node()?;
        let kept = match (&node, keep) {
            (Node::File(_), Keep::Metadata) | (Node::Folder(_), _) => BeforeImage::Metadata,
            (Node::File(about), keep) => {
                self.keep(&spot, keep == Keep::Link && about.links == 1, about.size)?
            }
            (Node::Absent | Node::Link { .. }, _) => BeforeImage::Nothing,
            (Node::Special(_), _) => BeforeImage::Not(Reason::Special),
        };
        let is_replaced = matches!((&node, &kept), (Node::File(_), BeforeImage::Copied(_)))
            || (matches!(node, Node::Folder(_)) && keep == Keep::Link);
        let has_some = matches!(node, Node::File(_) | Node::Folder(_)) && (attributes || is_replaced);
        self.note(path, node, kept)?;
        if has_some {
            let held = spot.attributes()?;
            if attributes || !held.is_empty() {
                self.append(&Record::Attributes { path: path.to_owned(), attributes: held })?;
            }
        }
        Ok(())
    }

    fn note(&mut self, path: &Path, node: Node, kept: BeforeImage) -> io::Result<()> {
        self.append(&Record::Before { path: path.to_owned(), node: node.clone(), kept, git: false })?;
        self.recorded.insert(path.to_owned());
        self.before.push((path.to_owned(), node));
        Ok(())
    }

    fn keep(&mut self, spot: &Spot<'_>, linked: bool, size: u64) -> io::Result<BeforeImage> {
        let number = self.next;
        self.next += 1;
        let image = self.folder.join(number.to_string());
        let to = Spot::at(&image)?;
        if linked && spot.link_to(&to).is_ok() {
            return Ok(BeforeImage::Linked(number));
        }
        match spot.read().and_then(|from| copy_with_holes(&from, &to.create()?, u64::MAX)) {
            Ok(copied) if copied == size => Ok(BeforeImage::Copied(number)),
            Ok(_) => Ok(BeforeImage::Not(Reason::Failed("it changed while it was copied".to_owned()))),
            Err(error) => {
                let _ = fs::remove_file(&image);
                Ok(BeforeImage::Not(Reason::Failed(error.to_string())))
            }
        }
    }

    /// Records a rename before it is made.
    pub(super) fn moved(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        for path in [from, to] {
            if let Some(folder) = path.parent()
                && !self.recorded.contains(folder)
            {
                let node = super::folder::node_at(folder)?;
                self.note(folder, node, BeforeImage::Metadata)?;
            }
        }
        self.append(&Record::Moved { from: from.to_owned(), to: to.to_owned() })?;
        go_along(&mut self.recorded, &mut self.before, from, to);
        Ok(())
    }
}

/// Renames recorded paths with what is there. The records of what was at the new path before say nothing of it.
fn go_along(recorded: &mut HashSet<PathBuf>, before: &mut Vec<(PathBuf, Node)>, from: &Path, to: &Path) {
    recorded.retain(|it| !it.starts_with(to));
    before.retain(|(it, _)| !it.starts_with(to));
    let renamed = |path: &Path| rebase(path, from, to);
    *recorded = recorded.iter().map(|it| renamed(it).unwrap_or_else(|| it.clone())).collect();
    for (path, _) in before {
        if let Some(now) = renamed(path) {
            *path = now;
        }
    }
}
