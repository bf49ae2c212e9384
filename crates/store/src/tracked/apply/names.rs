//! Names of one file: a file that had several before the call has them again.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    os::unix::fs::DirEntryExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use kit::tracking::{Metadata, Node};

use super::{
    super::{
        folder::{Spot, node_at},
        log::Keep,
    },
    Restored, What, Work,
    files::{copy, finish, same},
    keeping_folder_time,
};

/// The most files of the workspace among which further names are looked for.
const MOST: usize = 500_000;

/// Device and inode.
type Identity = (u64, u64);

impl Work<'_> {
    /// Makes one file of the names that were one before the call, where each has its content already.
    pub(super) fn join_names(&mut self) -> io::Result<()> {
        if self.plan.only.is_some() {
            return Ok(());
        }
        let fold = self.fold;
        let put_back: HashSet<usize> = self.put_back.iter().copied().collect();
        let mut known: Vec<(PathBuf, Metadata)> = Vec::new();
        for (_, entry) in fold.entries.iter().enumerate().filter(|it| put_back.contains(&it.0)) {
            if let Node::File(before) = entry.node {
                known.push((fold.original(entry), before));
            }
        }
        let is_apart = |(path, before): &&(PathBuf, Metadata)| {
            before.links > 1 && matches!(node_at(path), Ok(Node::File(now)) if now.links < before.links)
        };
        let apart: Vec<&(PathBuf, Metadata)> = known.iter().filter(is_apart).collect();
        if apart.is_empty() {
            return Ok(());
        }
        let wanted: HashMap<Identity, Metadata> = apart.iter().map(|it| (it.1.identity, it.1)).collect();
        let unchanged = names_of(self.tracked.store.workspace(), &wanted);
        for (path, before) in apart {
            let recorded = known.iter().filter(|it| it.1.identity == before.identity).map(|it| &it.0);
            let others = unchanged.get(&before.identity).into_iter().flatten().chain(recorded);
            let mut is_joined = false;
            for other in others.filter(|it| *it != path) {
                is_joined = self.join(path, other, before)?;
                if is_joined {
                    break;
                }
            }
            if !is_joined {
                let (name, call) = (self.name(path), &self.plan.call);
                self.report.notes.push(format!(
                    "{name} was one of {} names of a file, and is a file of its own now; another name may hold what {call} wrote",
                    before.links
                ));
            }
        }
        Ok(())
    }

    /// Makes a path a name of the file at another one, if both have what was there before. Returns whether it is one.
    fn join(&mut self, path: &Path, other: &Path, before: &Metadata) -> io::Result<bool> {
        let (Ok(Node::File(here)), Ok(Node::File(there))) = (node_at(path), node_at(other)) else {
            return Ok(false);
        };
        if here.identity == there.identity {
            return Ok(true);
        }
        let about = |it: &Metadata| (it.size, it.modified, it.mode, it.owner);
        if about(&here) != about(before) || (self.may_write)(path).is_err() {
            return Ok(false);
        }
        if about(&there) != about(before) || !same(other, path, before.size) {
            // The call wrote the file by a name that it then removed, so that this one is in no record.
            if there.identity != before.identity
                || (self.may_write)(other).is_err()
                || !self.was_left_then(&there)
            {
                return Ok(false);
            }
            self.log.before(other, Keep::Copy, false)?;
            copy(path, &Spot::at(other)?.write()?, before.size)?;
            finish(&Spot::at(other)?, before)?;
            let line = format!("restored {} ({} bytes)", self.name(other), before.size);
            self.restored.push(Restored { what: What::Put(other.to_owned()), line });
        }
        self.log.before(path, Keep::Link, false)?;
        let joined = keeping_folder_time(path, || replace_by_name_of(path, other));
        self.stepped();
        joined
    }

    /// Returns whether nobody changed a file after the call.
    fn was_left_then(&self, about: &Metadata) -> bool {
        let ended = self.tracked.settled_at(&self.plan.call);
        // A call that was interrupted is settled at some later time.
        !self.settled.interrupted && ended.is_ok_and(|it| changed(about) <= it)
    }
}

/// Replaces the file at a path by a further name of another file. Returns whether the file system has such names.
fn replace_by_name_of(path: &Path, other: &Path) -> io::Result<bool> {
    let fresh = path.with_file_name(".haft-undo-name");
    let (spot, of_fresh) = (Spot::at(path)?, Spot::at(&fresh)?);
    match of_fresh.remove() {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    // Where the file system has no further names, they stay files of their own.
    if Spot::at(other)?.link_to(&of_fresh).is_err() {
        return Ok(false);
    }
    let joined = of_fresh.rename_over(&spot);
    if joined.is_err() {
        let _ = of_fresh.remove();
    }
    joined.map(|()| true)
}

/// Returns the time of a file's last change, of its attributes and names too.
fn changed(about: &Metadata) -> SystemTime {
    let (seconds, nanos) = about.changed;
    SystemTime::UNIX_EPOCH + Duration::new(seconds.max(0).cast_unsigned(), nanos)
}

/// Returns the paths below a folder that are names of these files, as they were recorded.
fn names_of(folder: &Path, wanted: &HashMap<Identity, Metadata>) -> HashMap<Identity, Vec<PathBuf>> {
    let inodes: HashSet<u64> = wanted.keys().map(|it| it.1).collect();
    let mut found: HashMap<Identity, Vec<PathBuf>> = HashMap::new();
    let (mut folders, mut seen) = (vec![folder.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MOST {
                return found;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() && inodes.contains(&entry.ino()) => {
                    if let Ok(Node::File(about)) = node_at(&entry.path())
                        && let Some(recorded) = wanted.get(&about.identity)
                        && !is_newer(&entry, recorded)
                    {
                        found.entry(about.identity).or_default().push(entry.path());
                    }
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
    found
}

/// Returns whether a file was made after the one that was recorded had gone: the system has used its inode again.
fn is_newer(entry: &fs::DirEntry, recorded: &Metadata) -> bool {
    // Where the file system keeps no such time, the inode has to do.
    entry.metadata().and_then(|it| it.created()).is_ok_and(|born| born > changed(recorded))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn about(path: &Path) -> Metadata {
        let Ok(Node::File(about)) = node_at(path) else { unreachable!("{path:?} is no file") };
        about
    }

    #[test]
    fn newer_file_with_the_inode_of_one_that_is_gone_is_not_one_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let [gone, fresh, name] = ["gone", "fresh", "name"].map(|it| folder.path().join(it));
        fs::write(&gone, "text").unwrap();
        let recorded = about(&gone);
        // The clock of the file system has passed on.
        while about(&gone).changed == recorded.changed {
            fs::set_permissions(&gone, fs::metadata(&gone).unwrap().permissions()).unwrap();
        }
        fs::write(&fresh, "text").unwrap();
        fs::hard_link(&fresh, &name).unwrap();
        let itself = about(&fresh);
        let found = names_of(folder.path(), &HashMap::from([(itself.identity, itself)]));
        assert_eq!(found.values().flatten().count(), 2, "both names of the file itself");
        // As if the system had given its inode to the new file.
        let reused = Metadata { identity: itself.identity, ..recorded };
        assert_eq!(names_of(folder.path(), &HashMap::from([(itself.identity, reused)])), HashMap::new());
    }
}
