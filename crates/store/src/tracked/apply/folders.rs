//! Folders of an undo: opened for its changes, made again, given their modes and times.

use std::{io, os::unix::ffi::OsStrExt, path::Path};

use kit::{
    deliberate_faults::killed_at,
    tracking::{Metadata, Node, rebase},
};

use super::{
    super::{
        Entry,
        folder::{Spot, node_at},
        log::Keep,
    },
    Step, Work, plain, set_owner,
};

impl Work<'_> {
    /// Lets us into a folder that is about to get back something, if its permissions don't.
    pub(super) fn open_folder(&mut self, number: usize, entry: &Entry) -> io::Result<()> {
        let path = self.actual(entry, entry.segment);
        let Ok(now @ Node::Folder(about)) = node_at(&path) else { return Ok(()) };
        if about.mode & 0o700 == 0o700
            || (self.may_write)(&path).is_err()
            || self.changed_since(number, entry, &path, &now).is_some()
        {
            return Ok(());
        }
        self.log.before(&path, Keep::Metadata, entry.attributes.is_some())?;
        // A folder of somebody else stays closed; its files say so.
        let _ = Spot::at(&path)?.set_mode(about.mode | 0o700);
        Ok(())
    }

    /// Makes the missing folders around a path that the call removed after it had recorded them, perhaps under an
    /// older name. They get their modes and times when it is the turn of that record.
    pub(super) fn make_parents(&mut self, path: &Path, segment: usize) -> io::Result<()> {
        if self.plan.only.is_some() {
            return Ok(());
        }
        let mut missing = Vec::new();
        for parent in path.ancestors().skip(1) {
            match node_at(parent) {
                Ok(Node::Absent) if self.was_folder(parent, segment) => missing.push(parent),
                _ => break,
            }
        }
        for parent in missing.into_iter().rev() {
            if (self.may_write)(parent).is_err() {
                break;
            }
            self.log.before(parent, Keep::Link, false)?;
            // Where that fails, the step says so.
            if Spot::at(parent)?.create_folder().is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether a folder that an earlier segment recorded had this path in the given one.
    fn was_folder(&self, path: &Path, segment: usize) -> bool {
        let earlier = self.fold.entries.iter().filter(|it| it.segment < segment);
        earlier.filter(|it| matches!(it.node, Node::Folder(_))).any(|it| {
            let renames = self.fold.moves.iter().take(segment).skip(it.segment);
            let there =
                renames.fold(it.path.clone(), |path, (from, to)| rebase(&path, from, to).unwrap_or(path));
            there == path
        })
    }

    pub(super) fn folder(
        &mut self,
        number: usize,
        entry: &Entry,
        path: &Path,
        now: &Node,
        before: Metadata,
    ) -> io::Result<Step> {
        if let Node::Folder(about) = now {
            let is_begun = self.log.found(path).is_some();
            let is_changed = self.changed_since(number, entry, path, now).is_some();
            if is_changed {
                return Ok(if about.mode == before.mode {
                    Step::Same
                } else {
                    Step::Left(format!("its permissions changed since {}", self.plan.call))
                });
            }
            if *about != before || is_begun {
                self.log.before(path, Keep::Metadata, entry.attributes.is_some())?;
            }
            self.restore_attributes(entry, path);
            self.times.push((path.to_owned(), before, !self.plan.times.contains(&number)));
            return Ok(Step::Quiet);
        }
        if let Some(why) = self.changed_since(number, entry, path, now) {
            return Ok(Step::Left(why));
        }
        self.log.before(path, Keep::Link, false)?;
        killed_at("undo-recorded-path");
        if let Some(step) = self.clear(path, now)? {
            return Ok(step);
        }
        let spot = Spot::at(path)?;
        spot.create_folder()?;
        set_owner(&spot, &before)?;
        self.restore_attributes(entry, path);
        self.times.push((path.to_owned(), before, true));
        Ok(Step::Done(format!("restored the folder {}", self.name(path))))
    }

    /// Gives folders their modes and times, from the inside out.
    pub(super) fn finish_folders(&mut self) -> io::Result<()> {
        let mut folders = std::mem::take(&mut self.times);
        folders.sort_by_key(|(path, ..)| std::cmp::Reverse(path.as_os_str().as_bytes().len()));
        for (path, before, with_time) in folders {
            let Ok(spot) = Spot::at(&path) else { continue };
            let Ok(Node::Folder(now)) = spot.node() else { continue };
            let mut done = Ok(());
            if now.owner != before.owner {
                done = done.and(set_owner(&spot, &before));
            }
            if now.mode != before.mode {
                done = done.and(spot.set_mode(before.mode));
            }
            if with_time && now.modified != before.modified {
                done = done.and(spot.set_modified(before.modified));
            }
            if let Err(error) = done {
                let name = self.name(&path);
                self.report.left.push(format!("{name}: its permissions or its time: {}", plain(&error)));
            }
            self.stepped();
        }
        Ok(())
    }
}
