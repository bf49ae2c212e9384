//! The fold of a call's log: for each path its state before the call, and the moves in order.
//!
//! A log names each path as of the moment of its record. Renames divide it into segments: the paths of a segment
//! are those after so many renames. An undo goes through the segments from the last to the first, and takes one
//! rename back after each.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use kit::tracking::{Attribute, BeforeImage, Metadata, Node, Reason, Record, rebase};

/// The state of one path before the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The path in its segment.
    pub path: PathBuf,
    /// The number of renames before the first record of this path.
    pub segment: usize,
    /// The file before the call.
    pub node: Node,
    /// Where its content is.
    pub kept: BeforeImage,
    /// The file when its content was stored: it may have been appended to before.
    pub kept_of: Option<Metadata>,
    /// Whether git's own program made the first change.
    pub git: bool,
    /// Whether another program then deleted or rewrote it, in a `.git`.
    pub after_git: bool,
    /// The extended attributes before the call; `None` if it did not change them, and its image has them.
    pub attributes: Option<Vec<Attribute>>,
    /// Whether a process still had the file open for writing when the call ended.
    pub is_open: bool,
}

/// A call's changes, folded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fold {
    /// One entry for each path, in the order of their first records.
    pub entries: Vec<Entry>,
    /// The renames in order, from and to.
    pub moves: Vec<(PathBuf, PathBuf)>,
    /// Parts of repositories' histories that another program than git moved; each with the number of renames before.
    pub moved_history: Vec<(PathBuf, usize)>,
    /// Changes whose file could not be determined.
    pub unknown: Vec<String>,
    /// Other calls that ran in the same process at the same time: some changes may be theirs.
    pub mixed: Vec<String>,
    /// The entries by what they are: the path before the call, or that of something new after so many renames.
    known: HashMap<(usize, PathBuf), usize>,
}

impl Fold {
    /// Folds the records of a log.
    pub fn of(records: impl IntoIterator<Item = Record>) -> Self {
        let mut fold = Self::default();
        for record in made(records) {
            match record {
                Record::Before { path, node, kept, git } => {
                    let key = fold.key(&path);
                    match fold.known.get(&key).copied().and_then(|at| fold.entries.get_mut(at)) {
                        Some(entry) => raise(entry, &node, kept),
                        None => {
                            fold.known.insert(key, fold.entries.len());
                            let segment = fold.moves.len();
                            let kept_of = of_file(&node);
                            let (attributes, is_open) = (None, false);
                            fold.entries.push(Entry {
                                path,
                                segment,
                                node,
                                kept,
                                kept_of,
                                git,
                                after_git: false,
                                attributes,
                                is_open,
                            });
                        }
                    }
                }
                Record::NotByGit { path } => match fold.entry_now(&path) {
                    Some(entry) => entry.after_git = true,
                    None => fold.moved_history.push((path, fold.moves.len())),
                },
                Record::Attributes { path, attributes } => {
                    if let Some(entry) = fold.entry_now(&path)
                        && !matches!(entry.node, Node::Absent)
                    {
                        entry.attributes.get_or_insert(attributes);
                    }
                }
                Record::StillOpen { path } => {
                    if let Some(entry) = fold.entry_now(&path) {
                        entry.is_open = true;
                    }
                }
                Record::Moved { from, to } => fold.moves.push((from, to)),
                // Its rename is not in the log, which was cut or is of another version.
                Record::NotMoved { .. } => {}
                Record::Mixed { with } => fold.mixed.extend(with),
                Record::Unknown { what } => fold.unknown.push(what),
            }
        }
        fold
    }

    /// Returns the entry of what is at this path now.
    fn entry_now(&mut self, path: &Path) -> Option<&mut Entry> {
        let at = *self.known.get(&self.key(path))?;
        self.entries.get_mut(at)
    }

    /// Returns the path before the call of what is at this path now; with the number of renames after which it
    /// was created, where a rename had taken away what was there.
    fn key(&self, path: &Path) -> (usize, PathBuf) {
        self.key_after(path, self.moves.len())
    }

    fn key_after(&self, path: &Path, renames: usize) -> (usize, PathBuf) {
        let mut path = path.to_owned();
        for (number, (from, to)) in self.moves.iter().enumerate().take(renames).rev() {
            if let Some(back) = rebase(&path, to, from) {
                path = back;
            } else if path.starts_with(from) {
                return (number + 1, path);
            }
        }
        (0, path)
    }

    /// Returns where the path of a segment is after all renames. A later rename may have put something else there,
    /// and then gone on with that.
    pub fn present(&self, path: &Path, segment: usize) -> PathBuf {
        let mut path = path.to_owned();
        for (from, to) in self.moves.iter().skip(segment) {
            if let Some(moved) = rebase(&path, from, to) {
                path = moved;
            }
        }
        path
    }

    /// Returns whether a later rename put something else in the place of this entry: before that rename, nothing
    /// was there any more.
    pub fn is_replaced(&self, entry: &Entry) -> bool {
        self.is_replaced_after(&entry.path, entry.segment)
    }

    /// Returns the same for a path of this segment.
    pub(super) fn is_replaced_after(&self, path: &Path, segment: usize) -> bool {
        let mut path = path.to_owned();
        for (from, to) in self.moves.iter().skip(segment) {
            if let Some(moved) = rebase(&path, from, to) {
                path = moved;
            } else if path.starts_with(to) {
                return true;
            }
        }
        false
    }

    /// Returns the paths at which the call put something by a rename over a file that was there before it.
    pub(super) fn replaced(&self) -> impl Iterator<Item = PathBuf> {
        let was_there =
            self.entries.iter().filter(|it| !matches!(it.node, Node::Absent) && self.is_replaced(it));
        was_there.map(|it| self.present(&it.path, it.segment))
    }

    /// Returns what the call moved and did not create, from and to, each once.
    pub fn moved(&self) -> Vec<(PathBuf, PathBuf)> {
        let mut moved: Vec<(PathBuf, PathBuf)> = Vec::new();
        for (number, (from, _)) in self.moves.iter().enumerate() {
            let (segment, original) = self.key_after(from, number);
            let is_created = original.ancestors().any(|it| {
                let entry = self.known.get(&(segment, it.to_owned())).and_then(|at| self.entries.get(*at));
                entry.is_some_and(|it| matches!(it.node, Node::Absent))
            });
            let now = self.present(&original, segment);
            if segment == 0 && !is_created && now != original && moved.iter().all(|it| it.0 != original) {
                moved.push((original, now));
            }
        }
        moved
    }

    /// Returns the path of an entry before the call, as far as it was there.
    pub fn original(&self, entry: &Entry) -> PathBuf {
        self.original_of(&entry.path, entry.segment)
    }

    fn original_of(&self, path: &Path, segment: usize) -> PathBuf {
        self.earlier(path, segment, 0)
    }

    /// Returns where the path of a segment was in an earlier one.
    pub(super) fn earlier(&self, path: &Path, segment: usize, earlier: usize) -> PathBuf {
        let mut path = path.to_owned();
        for (from, to) in self.moves.iter().take(segment).skip(earlier).rev() {
            if let Some(back) = rebase(&path, to, from) {
                path = back;
            }
        }
        path
    }

    /// Returns the path before the call of what is at this path now, as far as it was there.
    pub fn original_now(&self, path: &Path) -> PathBuf {
        self.original_of(path, self.moves.len())
    }

    /// Returns whether a path was not there before the call: the call created it, or a folder around it.
    pub fn is_new(&self, path: &Path) -> bool {
        path.ancestors().any(|it| {
            let entry = self.known.get(&(0, it.to_owned())).and_then(|at| self.entries.get(*at));
            entry.is_some_and(|it| it.node == Node::Absent)
        })
    }

    /// Returns the parts of repositories' histories that another program than git moved away.
    pub fn history_moved_away(&self) -> impl Iterator<Item = PathBuf> {
        self.moved_history.iter().filter_map(|(path, segment)| {
            let original = self.original_of(path, *segment);
            (self.present(path, *segment) != original).then_some(original)
        })
    }
}

/// Returns the records without renames that the system refused.
fn made(records: impl IntoIterator<Item = Record>) -> Vec<Record> {
    let mut made: Vec<Record> = Vec::new();
    for record in records {
        if let Record::NotMoved { from, to } = &record
            && let Some(at) = made.iter().rposition(
                |it| matches!(it, Record::Moved { from: one, to: other } if (one, other) == (from, to)),
            )
        {
            made.remove(at);
        } else {
            made.push(record);
        }
    }
    made
}

/// Adds what a later record of the same path kept. The first content counts: what was not kept before a change
/// is not in a later image. Content that was kept after the length alone starts with that before the call.
fn raise(entry: &mut Entry, node: &Node, later: BeforeImage) {
    let is_more = matches!(
        (&entry.kept, &later),
        (BeforeImage::Metadata, BeforeImage::Length)
            | (
                BeforeImage::Metadata | BeforeImage::Length,
                BeforeImage::Linked(_) | BeforeImage::Copied(_) | BeforeImage::Not(_)
            )
    );
    if is_more && matches!(entry.node, Node::File(_) | Node::Special(_)) {
        entry.kept = later;
        entry.kept_of = of_file(node);
    }
}

fn of_file(node: &Node) -> Option<Metadata> {
    if let Node::File(about) = node { Some(*about) } else { None }
}

/// Describes why a content was not kept.
pub(super) fn reason(reason: &Reason) -> String {
    match reason {
        Reason::TooLarge => "it was larger than what is kept of one file ([undo] file_mib)".to_owned(),
        Reason::CallFull => "what is kept of one call was used up ([undo] call_mib)".to_owned(),
        Reason::Full => "the disk was full".to_owned(),
        Reason::Ignored => "it is in a folder of build results that git ignores ([undo] ignored)".to_owned(),
        Reason::Special => "it was a pipe, a socket or a device".to_owned(),
        Reason::Failed(why) => format!("it could not be kept: {why}"),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn file(size: u64) -> Node {
        Node::File(Metadata {
            mode: 0o644,
            owner: (0, 0),
            size,
            modified: (1, 2),
            changed: (1, 2),
            identity: (1, size),
            links: 1,
        })
    }

    fn before(path: &str, node: Node, kept: BeforeImage) -> Record {
        Record::Before { path: path.into(), node, kept, git: false }
    }

    fn moved(from: &str, to: &str) -> Record {
        Record::Moved { from: from.into(), to: to.into() }
    }

    #[test]
    fn a_path_has_one_entry_whatever_its_folders_are_called_later() {
        let fold = Fold::of([
            before("/w/d/x", file(3), BeforeImage::Metadata),
            moved("/w/d", "/w/e"),
            before("/w/e/x", file(3), BeforeImage::Copied(1)),
            moved("/w/e", "/w/f"),
            before("/w/f/x", file(9), BeforeImage::Copied(2)),
        ]);
        assert_eq!(fold.entries.len(), 1);
        let entry = fold.entries.first().unwrap();
        assert_eq!((&entry.kept, &entry.node), (&BeforeImage::Copied(1), &file(3)));
        assert_eq!(fold.present(&entry.path, entry.segment), Path::new("/w/f/x"));
        assert_eq!(fold.original(entry), Path::new("/w/d/x"));
    }

    #[test]
    fn what_takes_the_place_of_a_moved_folder_is_something_else() {
        let fold = Fold::of([
            before("/w/d/x", file(3), BeforeImage::Copied(1)),
            moved("/w/d", "/w/e"),
            before("/w/d", Node::Absent, BeforeImage::Nothing),
            before("/w/d/x", Node::Absent, BeforeImage::Nothing),
            moved("/w/e", "/w/d/e"),
            before("/w/d/e/x", file(4), BeforeImage::Copied(2)),
        ]);
        let paths: Vec<_> = fold.entries.iter().map(|it| (it.path.to_str().unwrap(), it.segment)).collect();
        assert_eq!(paths, [("/w/d/x", 0), ("/w/d", 1), ("/w/d/x", 1)]);
        assert_eq!(fold.present(Path::new("/w/d/x"), 0), Path::new("/w/d/e/x"));
    }

    #[test]
    fn the_exchange_of_two_folders_maps_each_path_to_its_own() {
        let fold = Fold::of([
            moved("/w/a", "/w/tmp"),
            moved("/w/b", "/w/a"),
            moved("/w/tmp", "/w/b"),
            before("/w/a/x", file(1), BeforeImage::Copied(1)),
            before("/w/b/x", file(2), BeforeImage::Copied(2)),
        ]);
        let originals: Vec<_> = fold.entries.iter().map(|it| fold.original(it)).collect();
        assert_eq!(originals, [Path::new("/w/b/x"), Path::new("/w/a/x")]);
    }

    #[test]
    fn a_refused_rename_is_none() {
        let not_moved = Record::NotMoved { from: "/w/d".into(), to: "/w/e".into() };
        let attribute = Attribute { name: "user.a".into(), value: vec![1] };
        let fold = Fold::of([
            moved("/w/a", "/w/b"),
            before("/w/e", file(3), BeforeImage::Linked(1)),
            moved("/w/d", "/w/e"),
            not_moved,
            before("/w/d/x", file(4), BeforeImage::Copied(2)),
            Record::Attributes { path: "/w/d/x".into(), attributes: vec![attribute.clone()] },
            Record::Attributes { path: "/w/d/x".into(), attributes: Vec::new() },
        ]);
        assert_eq!(fold.moves.len(), 1);
        let originals: Vec<_> = fold.entries.iter().map(|it| fold.original(it)).collect();
        assert_eq!(originals, [Path::new("/w/e"), Path::new("/w/d/x")]);
        assert!(!fold.is_replaced(fold.entries.first().unwrap()));
        assert_eq!(fold.entries.last().unwrap().attributes, Some(vec![attribute]), "the first record counts");
    }

    #[test]
    fn content_that_was_lost_is_not_replaced_by_a_later_image() {
        let fold = Fold::of([
            before("/w/x", file(3), BeforeImage::Not(Reason::TooLarge)),
            before("/w/x", file(1), BeforeImage::Copied(1)),
        ]);
        assert_eq!(fold.entries.first().unwrap().kept, BeforeImage::Not(Reason::TooLarge));
    }
}
