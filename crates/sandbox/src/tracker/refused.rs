//! Renames that the system refused: into another file system, into themselves, over a folder with files.
//!
//! A rename is recorded before it is made. Once its thread makes another call, it is over: if the file still has its
//! old name then, the log takes the rename back.

use std::path::{Path, PathBuf};

use kit::tracking::{Record, rebase};
use rustix::fs::{AtFlags, statat};

use super::log::{Identity, Level, Log, Place, identity};

/// The most renames that wait for their check.
const WAITING: usize = 64;

/// A rename that is about to be made.
pub(super) struct Rename {
    pub(super) thread: u32,
    /// The old name.
    pub(super) place: Place,
    /// The file that has it.
    pub(super) identity: Identity,
    /// From and to; an exchange has three, by a name between.
    pub(super) moves: Vec<(PathBuf, PathBuf)>,
}

/// A rename that the system was asked for.
pub(super) struct Asked {
    rename: Rename,
    /// The log's entries of the paths before.
    seen: Vec<(PathBuf, Level)>,
}

impl Log {
    /// Adds the records of a rename.
    pub(super) fn rename(&mut self, rename: Rename) {
        let is_of_it = |path: &PathBuf| {
            rename.moves.iter().any(|(from, to)| path.starts_with(from) || path.starts_with(to))
        };
        let seen = self.seen.iter().filter(|it| is_of_it(it.0)).map(|(path, level)| (path.clone(), *level));
        let seen = seen.collect();
        for (from, to) in &rename.moves {
            self.moved(from.clone(), to.clone());
        }
        if self.renames.len() >= WAITING {
            self.renames.remove(0);
        }
        self.renames.push(Asked { rename, seen });
    }

    /// Takes back the renames of a thread that the system refused; those of all threads, if none is given.
    pub(super) fn check_renames(&mut self, thread: Option<u32>) {
        if self.renames.is_empty() {
            return;
        }
        // A thread that has ended makes no other call.
        let has_ended = |number: u32| !Path::new(&format!("/proc/{number}")).exists();
        let is_over = |asked: &mut Asked| {
            thread.is_none_or(|it| it == asked.rename.thread) || has_ended(asked.rename.thread)
        };
        let over: Vec<Asked> = self.renames.extract_if(.., is_over).collect();
        for Asked { rename, seen } in over.into_iter().rev() {
            let here = statat(&rename.place.folder, &rename.place.name, AtFlags::SYMLINK_NOFOLLOW);
            if !here.is_ok_and(|it| identity(&it) == rename.identity) {
                continue;
            }
            for (from, to) in rename.moves.into_iter().rev() {
                for place in self.named.values_mut() {
                    if let Some(path) = rebase(&place.folder_path, &to, &from) {
                        place.folder_path = path;
                    }
                }
                self.seen.retain(|it, _| !it.starts_with(&to));
                self.add(&Record::NotMoved { from, to });
            }
            self.seen.extend(seen);
        }
    }
}
