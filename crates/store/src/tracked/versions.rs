//! Changes of a tracked call for a person: the files with their contents, and sums where there are many.

use std::{
    collections::{BTreeMap, HashSet},
    path::{Path, PathBuf},
};

use kit::{
    Fault, counted,
    tracking::{BeforeImage, Node},
};

use super::{Entry, Fold, Left, Tracked, folder::node_at};
use crate::{
    Found, Hash,
    changes::{Version, Versions},
};

/// Maximum number of files of a call that are shown one by one; beyond it, sums by folder follow.
const SHOWN: usize = 200;
/// Folders of caches that a run of a program or of its tests fills.
const CACHES: [&str; 4] = ["__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"];
/// Maximum number of names in one line about a call.
const NAMED: usize = 4;

impl Tracked {
    /// Returns what a call changed, with the contents as far as they are kept. Blocks.
    ///
    /// # Errors
    /// When the logs can't be read.
    pub fn versions(&self, call: &str) -> Result<Vec<Versions>, Fault> {
        let Some(fold) = self.fold(call)? else { return Ok(Vec::new()) };
        let settled = self.settled(call)?;
        let mut shown = Vec::new();
        let mut sums: BTreeMap<PathBuf, Sum> = BTreeMap::new();
        let left_of = |number: usize, path: &Path| {
            let left = settled.as_ref().and_then(|it| it.left.get(number)).cloned();
            left.unwrap_or_else(|| Left { node: node_at(path).ok(), ..Left::default() })
        };
        let Net { moved, paths } = Net::of(&fold, left_of);
        shown.extend(moved.iter().take(SHOWN).map(|(from, to)| of_move(from, to)));
        for PathChange { path, entry, left, change } in paths {
            if shown.len() >= SHOWN {
                sums.entry(path.parent().unwrap_or(Path::new("/")).to_owned()).or_default().add(change);
                continue;
            }
            shown.push(self.version(path, entry, &left, fold.is_replaced(entry))?);
        }
        shown.extend(sums.into_iter().map(|(folder, sum)| Versions {
            path: folder,
            before: Version::Unknown(sum.text()),
            after: Version::Unknown(String::new()),
        }));
        let unknown = |what: &String| Versions {
            path: self.store.workspace().to_owned(),
            before: Version::Unknown(format!("changed, but not known how: {what}")),
            after: Version::Unknown(String::new()),
        };
        shown.extend(fold.unknown.iter().map(unknown));
        Ok(shown)
    }

    /// Returns the paths that a call changed, as they are called now; at most `most`.
    ///
    /// # Errors
    /// When the logs can't be read.
    pub fn files(&self, call: &str, most: usize) -> Result<Vec<PathBuf>, Fault> {
        let Some(fold) = self.fold(call)? else { return Ok(Vec::new()) };
        let settled = self.settled(call)?.unwrap_or_default();
        let undone = self.undone(call)?.unwrap_or_default();
        let changed = fold.entries.iter().enumerate().filter(|(number, entry)| {
            let left = settled.left.get(*number).cloned().unwrap_or_default();
            !undone.entries.contains(number) && Change::of(entry, &left).is_some()
        });
        let paths = changed.map(|(_, entry)| fold.present(&entry.path, entry.segment));
        let mut all: Vec<PathBuf> = Vec::new();
        let mut seen = HashSet::new();
        for path in paths.chain(fold.moved().into_iter().map(|(_, to)| to)) {
            if all.len() < most && seen.insert(path.clone()) {
                all.push(path);
            }
        }
        Ok(all)
    }

    /// Returns in one line what a call changed: `2 files created, 1 file deleted: a, b, c`.
    ///
    /// # Errors
    /// When the logs can't be read.
    pub fn summary(&self, call: &str) -> Result<String, Fault> {
        let Some(fold) = self.fold(call)? else { return Ok("nothing".to_owned()) };
        let settled = self.settled(call)?.unwrap_or_default();
        let left_of = |number: usize, _: &Path| settled.left.get(number).cloned().unwrap_or_default();
        let Net { moved, paths } = Net::of(&fold, left_of);
        let mut all = Sum::default();
        let mut folders: BTreeMap<PathBuf, usize> = BTreeMap::new();
        let mut names = Vec::new();
        for PathChange { path, change, .. } in paths {
            all.add(change);
            let path = path.strip_prefix(self.store.workspace()).unwrap_or(&path).to_owned();
            *folders.entry(path.parent().unwrap_or(Path::new("")).to_owned()).or_default() += 1;
            if names.len() <= NAMED {
                names.push(path.display().to_string());
            }
        }
        let mut words = vec![all.text()];
        words.retain(|it| !it.is_empty());
        if !moved.is_empty() {
            words.push(format!("{} moved", counted(moved.len(), "path")));
        }
        if names.len() > NAMED {
            let mut most: Vec<_> = folders.into_iter().collect();
            most.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
            let in_folder = |(folder, number): &(PathBuf, usize)| match folder.as_os_str().is_empty() {
                true => format!("./ ({number})"),
                false => format!("{}/ ({number})", folder.display()),
            };
            names = most.iter().take(NAMED).map(in_folder).collect();
            if most.len() > NAMED {
                names.push("…".to_owned());
            }
        }
        let moves = moved.iter().take(NAMED).map(|(from, to)| {
            let short =
                |it: &Path| it.strip_prefix(self.store.workspace()).unwrap_or(it).display().to_string();
            format!("{} -> {}", short(from), short(to))
        });
        names.extend(moves);
        let list = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
        Ok(format!("{}{list}", words.join(", ")))
    }

    /// Returns whether a call changed only what nobody thinks of as a change: git's index, which `git status` refreshes, and
    /// caches that running a program or a test leaves behind.
    ///
    /// # Errors
    /// When the logs can't be read.
    pub(crate) fn is_incidental(&self, call: &str) -> Result<bool, Fault> {
        let Some(fold) = self.fold(call)? else { return Ok(false) };
        let settled = self.settled(call)?.unwrap_or_default();
        let is_in_cache = |it: &Path| it.iter().any(|name| CACHES.iter().any(|cache| name == *cache));
        let is_beside =
            |from: &Path, to: &Path| is_in_cache(from) && is_in_cache(to) || to.ends_with(".git/index");
        if !fold.moved().iter().all(|(from, to)| is_beside(from, to)) {
            return Ok(false);
        }
        let mut is_incidental = false;
        for (number, entry) in fold.entries.iter().enumerate() {
            let left = settled.left.get(number).cloned().unwrap_or_default();
            if left.node.is_none() || Change::of(entry, &left).is_some() {
                let path = fold.present(&entry.path, entry.segment);
                if !(entry.git && path.ends_with(".git/index") || is_in_cache(&path)) {
                    return Ok(false);
                }
                is_incidental = true;
            }
        }
        Ok(is_incidental)
    }

    fn version(
        &self,
        path: PathBuf,
        entry: &Entry,
        left: &Left,
        is_replaced: bool,
    ) -> Result<Versions, Fault> {
        let before = match &entry.node {
            Node::Absent => Version::Absent,
            Node::File(about) => match (&entry.kept, self.blob(left.before.as_deref())?) {
                (_, Some(bytes)) => Version::Known(bytes.into()),
                (BeforeImage::Not(why), None) => Version::Unknown(super::fold::reason(why)),
                (BeforeImage::Length, None) => {
                    Version::Unknown(format!("appended to; it had {} bytes", about.size))
                }
                (_, None) => Version::Long(about.size),
            },
            other => Version::Unknown(kind(other)),
        };
        let now = if is_replaced { node_at(&path).ok() } else { None };
        let after = match now.as_ref().or(left.node.as_ref()) {
            _ if is_replaced && left.after.is_some() => match self.blob(left.after.as_deref())? {
                Some(bytes) => Version::Known(bytes.into()),
                None => Version::Unknown("what the call left there is not kept any more".to_owned()),
            },
            Some(Node::Absent) => Version::Absent,
            Some(Node::File(about)) => match self.blob(left.after.as_deref())? {
                Some(bytes) => Version::Known(bytes.into()),
                None => Version::Long(about.size),
            },
            Some(other) => Version::Unknown(kind(other)),
            None => Version::Unknown("what the call left there is not known".to_owned()),
        };
        // Only its metadata were changed: the contents have nothing to show.
        if let (Node::File(then), Some(Node::File(now)), BeforeImage::Metadata) =
            (&entry.node, &left.node, &entry.kept)
        {
            let what = if left.has_other_attributes(entry) {
                "its extended attributes were changed".to_owned()
            } else if then.mode == now.mode {
                "its time was changed".to_owned()
            } else {
                format!("mode {:o} -> {:o}", then.mode, now.mode)
            };
            return Ok(Versions {
                path,
                before: Version::Unknown(what),
                after: Version::Unknown(String::new()),
            });
        }
        Ok(Versions { path, before, after })
    }

    fn blob(&self, hash: Option<&str>) -> Result<Option<Vec<u8>>, Fault> {
        let Some(hash) = hash.and_then(|it| Hash::from_hex(it).ok()) else { return Ok(None) };
        Ok(match self.store.blobs().get(&hash)? {
            Found::Bytes(bytes) => Some(bytes),
            Found::Expired | Found::Damaged => None,
        })
    }
}

fn of_move(from: &Path, to: &Path) -> Versions {
    Versions {
        path: to.to_owned(),
        before: Version::Unknown(format!("moved from {}", from.display())),
        after: Version::Unknown(String::new()),
    }
}

fn kind(node: &Node) -> String {
    match node {
        Node::Absent => "nothing".to_owned(),
        Node::File(_) => "a file".to_owned(),
        Node::Folder(_) => "a folder".to_owned(),
        Node::Link { target, .. } => format!("a link to {}", target.to_string_lossy()),
        Node::Special(_) => "a pipe, a socket or a device".to_owned(),
    }
}

/// The changes of a call as they are shown: without what it made only to replace something by it.
struct Net<'a> {
    /// The paths that it moved, from and to.
    moved: Vec<(PathBuf, PathBuf)>,
    paths: Vec<PathChange<'a>>,
}

/// The change of one path.
struct PathChange<'a> {
    path: PathBuf,
    entry: &'a Entry,
    left: Left,
    change: Change,
}

impl<'a> Net<'a> {
    /// Returns the changes of a call; `left_of` returns the state in which it left an entry with this present path.
    fn of(fold: &'a Fold, left_of: impl Fn(usize, &Path) -> Left) -> Self {
        let replaced: HashSet<PathBuf> = fold.replaced().collect();
        let mut moved = fold.moved();
        let all = fold.entries.iter().enumerate().filter_map(|(number, entry)| {
            let path = fold.present(&entry.path, entry.segment);
            let left = left_of(number, &path);
            let change = Change::of(entry, &left)?;
            let change = match (replaced.contains(&path), fold.is_replaced(entry)) {
                (true, true) => Change::Changed,
                // It is shown as the change of what it replaced.
                (true, false) if change == Change::Created => return None,
                _ => change,
            };
            Some(PathChange { path, entry, left, change })
        });
        let mut paths: Vec<_> = all.collect();
        // A path that was moved and then removed was removed. The undo of a rename over a file does that, and puts
        // back what was there.
        let mut emptied = HashSet::new();
        for it in paths.iter_mut().filter(|it| it.change == Change::Deleted) {
            let original = fold.original(it.entry);
            let count = moved.len();
            moved.retain(|(from, _)| *from != original);
            if moved.len() < count {
                emptied.insert(original.clone());
                it.path = original;
            }
        }
        let (mut fresh, others): (Vec<_>, Vec<_>) =
            paths.into_iter().partition(|it| it.change == Change::Created && emptied.contains(&it.path));
        let mut paths = Vec::new();
        for mut it in others {
            let new = fresh.iter().position(|new| it.change == Change::Deleted && new.path == it.path);
            if let Some(new) = new.map(|at| fresh.swap_remove(at)) {
                it.left = Left { before: it.left.before, ..new.left };
                match Change::of(it.entry, &it.left) {
                    Some(change) => it.change = change,
                    None => continue,
                }
            }
            paths.push(it);
        }
        paths.extend(fresh);
        Self { moved, paths }
    }
}

/// The kind of a change, as it is summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Created,
    Changed,
    Deleted,
}

impl Change {
    /// Returns the kind of an entry's change; `None` if nothing is different, and for folders that were only
    /// changed inside.
    pub(super) fn of(entry: &Entry, left: &Left) -> Option<Self> {
        match (&entry.node, &left.node) {
            (Node::Absent, Some(Node::Absent)) => None,
            (Node::Absent, _) => Some(Self::Created),
            (_, Some(Node::Absent)) => Some(Self::Deleted),
            (Node::Folder(then), Some(Node::Folder(now))) => {
                (left.has_other_attributes(entry) || then.mode != now.mode).then_some(Self::Changed)
            }
            (Node::File(then), Some(Node::File(now))) => {
                let is_same = (then.size, then.modified, then.mode, then.identity)
                    == (now.size, now.modified, now.mode, now.identity);
                let has_same_content =
                    left.before.is_some() && left.before == left.after && then.mode == now.mode;
                (left.has_other_attributes(entry) || (!is_same && !has_same_content)).then_some(Self::Changed)
            }
            (Node::Link { target: then, .. }, Some(Node::Link { target: now, .. })) => {
                (then != now).then_some(Self::Changed)
            }
            _ => Some(Self::Changed),
        }
    }
}

/// The changes of a folder in numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    created: usize,
    changed: usize,
    deleted: usize,
}

impl Sum {
    pub(super) fn add(&mut self, change: Change) {
        match change {
            Change::Created => self.created += 1,
            Change::Changed => self.changed += 1,
            Change::Deleted => self.deleted += 1,
        }
    }

    /// Returns the numbers in words; empty if nothing changed.
    pub(super) fn text(self) -> String {
        let words = [(self.created, "created"), (self.changed, "changed"), (self.deleted, "deleted")];
        let words: Vec<String> = words
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, what)| format!("{} {what}", counted(number, "file")))
            .collect();
        words.join(", ")
    }
}
