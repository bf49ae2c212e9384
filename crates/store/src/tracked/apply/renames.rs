//! Renames of an undo: taken back where the moved file is still the same.

use std::{
    io,
    path::{Path, PathBuf},
};

use kit::{
    deliberate_faults::killed_at,
    tracking::{Node, rebase},
};

use super::{
    super::folder::{Spot, node_at},
    Restored, Step, What, Work, plain,
};

impl Work<'_> {
    /// Takes a rename back.
    pub(super) fn move_back(&mut self, number: usize, from: &Path, to: &Path) -> io::Result<()> {
        let through = |path: &Path, stuck: &[(PathBuf, PathBuf)]| {
            stuck
                .iter()
                .rev()
                .fold(path.to_owned(), |path, (from, to)| rebase(&path, from, to).unwrap_or(path))
        };
        let (from_now, to_now) = (through(from, &self.stuck), through(to, &self.stuck));
        let name = self.name(&to_now);
        if !self.log.is_behind() {
            self.make_parents(&from_now, number + 1)?;
        }
        let back = self.rename_back(number, &from_now, &to_now);
        match back {
            Ok(Step::Done(line)) => {
                let what = What::Moved { from: to_now.clone(), to: from_now.clone() };
                self.restored.push(Restored { what, line });
                for (path, ..) in &mut self.times {
                    if let Some(back) = rebase(path, &to_now, &from_now) {
                        *path = back;
                    }
                }
            }
            Ok(Step::Same | Step::Quiet) => {}
            Ok(Step::Left(why)) => {
                self.report.leave(format!("left {name} alone: {why}"));
                self.stuck.push((from.to_owned(), to_now));
            }
            Err(error) => {
                self.report.leave(format!("left {name} alone: {}", plain(&error)));
                self.stuck.push((from.to_owned(), to_now));
            }
        }
        self.stepped();
        Ok(())
    }

    fn rename_back(&mut self, number: usize, from: &Path, to: &Path) -> io::Result<Step> {
        let name = self.name(to);
        let done = Step::Done(format!("moved {name} back to {}", self.name(from)));
        let is_recorded = match self.log.passes(to, from) {
            Some(false) => return Ok(done),
            Some(true) if matches!(node_at(to)?, Node::Absent) => return Ok(done),
            Some(true) => true,
            None => false,
        };
        let now = node_at(to)?;
        if matches!(now, Node::Absent) {
            // It was removed later, or never moved.
            return Ok(Step::Same);
        }
        // What this undo has put back there was judged before that.
        if let Some(Some(moved)) = self.settled.moved.get(number)
            && self.log.found(to).is_none()
            && !is_moved(&now, moved)
        {
            return Ok(Step::Left("something else is there now".to_owned()));
        }
        // Where the rename replaced a file, the undo would put that one in the place of what was written since.
        if let Some(Some(moved)) = self.settled.moved.get(number)
            && self.log.found(to).is_none()
            && is_other_content(&now, moved)
            && self.fold.replaced().any(|it| it == to)
        {
            return Ok(Step::Left(format!("it changed since {}", self.plan.call)));
        }
        if self.log.is_behind() {
            return Ok(Step::Left("it was left alone before".to_owned()));
        }
        for path in [from, to] {
            if let Err(fault) = (self.may_write)(path) {
                return Ok(Step::Left(fault.what));
            }
        }
        if !matches!(node_at(from)?, Node::Absent) {
            return Ok(Step::Left(format!("something else is at {} now", self.name(from))));
        }
        if !is_recorded {
            self.log.moved(to, from)?;
        }
        killed_at("undo-recorded-move");
        Spot::at(to)?.rename_to(&Spot::at(from)?)?;
        killed_at("undo-moved");
        Ok(done)
    }
}

/// Returns whether a file that was moved has been written to since.
fn is_other_content(now: &Node, moved: &Node) -> bool {
    matches!((now, moved), (Node::File(now), Node::File(moved))
        if (now.size, now.modified) != (moved.size, moved.modified))
}

/// Returns whether this is what was moved.
fn is_moved(now: &Node, moved: &Node) -> bool {
    match (now, moved) {
        // The call removed it after the rename, and it is back.
        (_, Node::Absent) => true,
        (Node::File(now), Node::File(moved)) => {
            now.identity == moved.identity || (now.size, now.modified) == (moved.size, moved.modified)
        }
        (Node::Link { target: now, .. }, Node::Link { target: moved, .. }) => now == moved,
        (Node::Folder(_), Node::Folder(_)) | (Node::Special(_), Node::Special(_)) => true,
        _ => false,
    }
}
