//! Undo of a tracked call: puts each path back to its state before the call.
//!
//! The plan is on the disk first, and each change has a record in the undo's own log before it is made. Every step
//! brings a path to a state, whatever part of it is done already: an undo that was killed goes on with the same
//! steps.

mod files;
mod folders;
mod lines;
mod names;
mod renames;

use std::{
    collections::HashSet,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use kit::{
    Fault,
    deliberate_faults::killed_at,
    tracking::{BeforeImage, Metadata, Node, rebase},
};

use self::lines::{Restored, What};
use super::{
    Entry, Fold, Left, PLAN, Plan, Settled, Tracked, UNDONE, Undone,
    folder::{Spot, node_at},
    log::{Keep, Recorder},
    meanwhile::Meanwhile,
};

/// The outcome of an undo.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Restored paths, one line each.
    pub restored: Vec<String>,
    /// Paths that were left alone, with the reasons.
    pub left: Vec<String>,
    /// The number of paths that were as before the call already.
    pub same: usize,
    /// Further notes.
    pub notes: Vec<String>,
}

impl Report {
    /// Returns whether everything was as before the call already.
    pub fn is_same_alone(&self) -> bool {
        self.restored.is_empty() && self.left.is_empty()
    }

    /// Adds a path that was left alone. One path may be of several steps: the same line is there once.
    fn leave(&mut self, line: String) {
        if !self.left.contains(&line) {
            self.left.push(line);
        }
    }
}

/// Decides whether a path may be written.
pub type MayWrite<'a> = &'a dyn Fn(&Path) -> Result<(), Fault>;

impl Tracked {
    /// Puts back what a call changed, on behalf of the call `by`. Only the entry `only`, if one is given.
    ///
    /// # Errors
    /// When the logs can't be read or written.
    pub(crate) fn put_back(
        &self,
        call: &str,
        by: &str,
        only: Option<usize>,
        may_write: MayWrite<'_>,
    ) -> Result<Report, Fault> {
        let Some(fold) = self.fold(call)? else { return Ok(Report::default()) };
        let settled = match self.settled(call)? {
            Some(settled) if settled.left.len() >= fold.entries.len() => settled,
            _ => self.settle(call, true)?.unwrap_or_default(),
        };
        let plan = self.plan(call, &fold, &settled, only)?;
        let folder = self.folder_of(by);
        crate::create_folder(&folder).map_err(|error| self.trouble(&error))?;
        self.write(&folder.join(PLAN), &plan)?;
        killed_at("undo-planned");
        self.carry_out(by, plan, &fold, &settled, may_write)
    }

    /// Puts back what a call changed, on behalf of the call `by`, wherever the command could write. Settle the call
    /// first. An undo of `by` is the redo. Blocks.
    ///
    /// # Errors
    /// When the logs can't be read or written.
    pub fn undo_call(&self, call: &str, by: &str) -> Result<Report, Fault> {
        self.put_back(call, by, None, &|_| Ok(()))
    }

    /// Goes on with an undo that was killed.
    ///
    /// # Errors
    /// When the logs can't be read or written.
    pub fn resume(&self, by: &str, may_write: MayWrite<'_>) -> Result<Report, Fault> {
        let plan: Option<Plan> = self.read(&self.folder_of(by).join(PLAN))?;
        let Some(plan) = plan.filter(|it| !it.done) else { return Ok(Report::default()) };
        let (Some(fold), Some(settled)) = (self.fold(&plan.call)?, self.settled(&plan.call)?) else {
            return Ok(Report::default());
        };
        self.carry_out(by, plan, &fold, &settled, may_write)
    }

    /// Decides before the first change which entries somebody else has changed.
    fn plan(&self, call: &str, fold: &Fold, settled: &Settled, only: Option<usize>) -> Result<Plan, Fault> {
        let own: Option<Plan> = self.read(&self.folder_of(call).join(PLAN))?;
        let mut plan = Plan {
            call: call.to_owned(),
            only: only.map(|it| vec![it]),
            depth: own.map_or(0, |it| it.depth) + 1,
            left: Vec::new(),
            times: Vec::new(),
            later: Vec::new(),
            beside: Vec::new(),
            instance: self.store.instance().to_owned(),
            done: false,
        };
        let meanwhile = self.meanwhile(call, fold)?;
        for other in meanwhile.iter().filter(|it| !it.is_undone) {
            // One whose undo could not put the path back would stand in the way for ever.
            if other.is_later && !other.is_tried {
                plan.later.push((other.entry, other.call.clone()));
            } else if !plan.beside.contains(&other.call) {
                plan.beside.push(other.call.clone());
            }
        }
        for (number, entry) in fold.entries.iter().enumerate() {
            let path = fold.present(&entry.path, entry.segment);
            // A path that can't be read now is read in its step: its folder may be closed, or something
            // else was moved to its place.
            let Ok(now) = node_at(&path) else { continue };
            if fold.is_replaced(entry) {
                continue;
            }
            let left = settled.left.get(number);
            let is_later = plan.later.iter().any(|it| it.0 == number);
            if is_later || !(was_found(&meanwhile, number, &now) || self.is_as_left(&path, &now, entry, left))
            {
                plan.left.push(number);
            }
            if let (Node::Folder(now), Some(Node::Folder(then))) =
                (&now, left.and_then(|it| it.node.as_ref()))
                && now.modified != then.modified
            {
                plan.times.push(number);
            }
        }
        Ok(plan)
    }

    /// Returns whether a path is in the state in which the call left it.
    fn is_as_left(&self, path: &Path, now: &Node, entry: &Entry, left: Option<&Left>) -> bool {
        let Some(then) = left.and_then(|it| it.node.as_ref()) else {
            // Its folder was closed when the call ended. It is the call's if the call changed its metadata alone.
            return match (now, &entry.node) {
                (Node::File(now), Node::File(before)) => {
                    (now.size, now.modified) == (before.size, before.modified)
                }
                (Node::Folder(_), Node::Folder(_)) => true,
                _ => false,
            };
        };
        match (now, then) {
            (Node::Absent, Node::Absent) => true,
            (Node::File(now), Node::File(then)) => {
                now.mode == then.mode
                    && now.size == then.size
                    && (now.modified == then.modified
                        || left
                            .and_then(|it| it.after.as_ref())
                            .is_some_and(|hash| holds(path, now.size, hash)))
            }
            (Node::Folder(now), Node::Folder(then)) => now.mode == then.mode,
            (Node::Link { target: now, .. }, Node::Link { target: then, .. }) => now == then,
            (Node::Special(now), Node::Special(then)) => now.identity == then.identity,
            _ => false,
        }
    }

    fn carry_out(
        &self,
        by: &str,
        mut plan: Plan,
        fold: &Fold,
        settled: &Settled,
        may_write: MayWrite<'_>,
    ) -> Result<Report, Fault> {
        let folder = self.folder_of(by);
        let undone = self.undone(&plan.call)?.unwrap_or_default();
        let mut work = Work {
            tracked: self,
            fold,
            settled,
            plan: &plan,
            images: self.folder_of(&plan.call),
            log: Recorder::open(&folder).map_err(|error| self.trouble(&error))?,
            meanwhile: self.meanwhile(&plan.call, fold)?,
            done: undone.entries.iter().copied().collect(),
            stuck: Vec::new(),
            times: Vec::new(),
            report: Report::default(),
            restored: Vec::new(),
            put_back: Vec::new(),
            steps: 0,
            may_write,
        };
        work.run().map_err(|error| self.trouble(&error))?;
        let Work { report, mut put_back, done, .. } = work;
        if plan.only.is_some() {
            // What a rename had put there is gone with it.
            let present = |it: &Entry| fold.present(&it.path, it.segment);
            let places: HashSet<PathBuf> =
                put_back.iter().filter_map(|it| fold.entries.get(*it)).map(present).collect();
            let others = fold.entries.iter().enumerate().filter(|(_, it)| places.contains(&present(it)));
            put_back.extend(others.map(|(number, _)| number).collect::<Vec<_>>());
        }
        killed_at("undo-applied");
        self.settle(by, false)?;
        if report.restored.is_empty() && !report.left.is_empty() {
            // Nothing was undone: all of it can be tried again.
            put_back.clear();
        }
        let mut entries: Vec<usize> = done.into_iter().chain(put_back).collect();
        entries.sort_unstable();
        entries.dedup();
        let is_whole = plan.only.is_none() && (!report.restored.is_empty() || report.left.is_empty());
        let mark = Undone {
            by: by.to_owned(),
            whole: undone.whole || is_whole,
            complete: entries.len() == fold.entries.len(),
            entries,
        };
        self.write(&self.folder_of(&plan.call).join(UNDONE), &mark)?;
        killed_at("undo-noted");
        plan.done = true;
        self.write(&folder.join(PLAN), &plan)?;
        Ok(report)
    }
}

/// Returns whether this is what a call found that changed the path later, at the same time, and that is undone.
fn was_found(meanwhile: &[Meanwhile], number: usize, now: &Node) -> bool {
    let is_same = |found: &Node| match (found, now) {
        (Node::Absent, Node::Absent) => true,
        (Node::File(found), Node::File(now)) => {
            (found.size, found.modified, found.mode) == (now.size, now.modified, now.mode)
        }
        (Node::Link { target: found, .. }, Node::Link { target: now, .. }) => found == now,
        _ => false,
    };
    meanwhile.iter().any(|it| it.entry == number && it.is_undone && it.is_later && is_same(&it.found))
}

/// Returns whether the file has this content.
fn holds(path: &Path, size: u64, hash: &str) -> bool {
    let read = || -> io::Result<bool> {
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut Spot::at(path)?.read()?, &mut bytes)?;
        Ok(bytes.len() as u64 == size && blake3::hash(&bytes).to_hex().as_str() == hash)
    };
    read().unwrap_or(false)
}

/// One undo under way.
struct Work<'a> {
    tracked: &'a Tracked,
    fold: &'a Fold,
    settled: &'a Settled,
    plan: &'a Plan,
    /// The folder of the images of the call.
    images: PathBuf,
    log: Recorder,
    /// The changes of other calls to the same paths while the call ran.
    meanwhile: Vec<Meanwhile>,
    /// The entries that an earlier undo has put back.
    done: HashSet<usize>,
    /// The renames that could not be taken back: what they moved is still there.
    stuck: Vec<(PathBuf, PathBuf)>,
    /// Folders that get their mode and time at the end.
    times: Vec<(PathBuf, Metadata, bool)>,
    report: Report,
    /// The steps that changed something.
    restored: Vec<Restored>,
    /// The entries that are as before the call now.
    put_back: Vec<usize>,
    /// The number of steps, which names points for deliberate faults.
    steps: usize,
    may_write: MayWrite<'a>,
}

impl Work<'_> {
    fn run(&mut self) -> io::Result<()> {
        if self.plan.only.is_none() {
            self.report.left.extend(self.fold.unknown.iter().map(|it| format!("can't put back: {it}")));
        }
        if !self.fold.mixed.is_empty() {
            let with = self.fold.mixed.join(", ");
            self.report.notes.push(format!(
                "{with} ran in the same process at the same time: some of these changes may be its own"
            ));
        }
        if !self.plan.beside.is_empty() {
            let with = self.plan.beside.join(", ");
            self.report.notes.push(format!(
                "{with} changed some of these files at the same time: what it wrote there after {} is taken back, too",
                self.plan.call
            ));
        }
        for segment in (0..=self.fold.moves.len()).rev() {
            if self.log.is_behind() && self.plan.only.is_none() {
                self.pass(segment);
            } else {
                self.segment(segment)?;
            }
            if segment > 0
                && self.plan.only.is_none()
                && let Some((from, to)) = self.fold.moves.get(segment - 1)
            {
                self.move_back(segment - 1, from, to)?;
            }
        }
        self.join_names()?;
        self.finish_folders()?;
        let steps = std::mem::take(&mut self.restored);
        let line = |path: &Path| format!("restored {} (replaced by {})", self.name(path), self.plan.call);
        self.report.restored = lines::lines(&steps, line);
        Ok(())
    }

    /// Returns the path of an entry while the renames after a segment, its own or an earlier one, are taken back.
    fn actual(&self, entry: &Entry, segment: usize) -> PathBuf {
        let mut path = self.fold.earlier(&entry.path, entry.segment, segment);
        if self.plan.only.is_some() {
            // One entry alone: no rename is taken back.
            return self.fold.present(&entry.path, entry.segment);
        }
        for (from, to) in self.stuck.iter().rev() {
            if let Some(moved) = rebase(&path, from, to) {
                path = moved;
            }
        }
        path
    }

    fn segment(&mut self, segment: usize) -> io::Result<()> {
        let fold = self.fold;
        let chosen = |number: usize| self.plan.only.as_ref().is_none_or(|it| it.contains(&number));
        let mut entries: Vec<(usize, &Entry)> = fold
            .entries
            .iter()
            .enumerate()
            .filter(|(number, entry)| {
                entry.segment == segment && chosen(*number) && !self.done.contains(number)
            })
            .collect();
        // Created files are removed first, from the inside out; then folders are restored from the outside in, then
        // the rest.
        let rank = |entry: &Entry| match entry.node {
            Node::Folder(_) => 0,
            Node::Absent => 2,
            _ => 1,
        };
        entries.sort_by(|(_, one), (_, other)| {
            (rank(one), one.path.as_os_str().as_bytes().len())
                .cmp(&(rank(other), other.path.as_os_str().as_bytes().len()))
        });
        // Folders that exist are opened for us before anything in them is changed.
        for (number, entry) in entries.iter().filter(|it| rank(it.1) == 0) {
            self.open_folder(*number, entry)?;
        }
        for (number, entry) in entries.iter().rev().filter(|it| rank(it.1) == 2) {
            self.step(*number, entry)?;
        }
        for (number, entry) in entries.iter().filter(|it| rank(it.1) < 2) {
            self.make_parents(&entry.path, entry.segment)?;
            self.step(*number, entry)?;
        }
        Ok(())
    }

    /// Passes a segment that was put back before the undo was killed.
    fn pass(&mut self, segment: usize) {
        let fold = self.fold;
        for (number, entry) in fold.entries.iter().enumerate().filter(|(_, it)| it.segment == segment) {
            if self.plan.left.contains(&number) {
                continue;
            }
            self.put_back.push(number);
            if let Node::Folder(before) = &entry.node {
                self.times.push((
                    self.actual(entry, entry.segment),
                    *before,
                    !self.plan.times.contains(&number),
                ));
            }
        }
    }

    /// Makes a step for one entry. A refusal of the system is part of the report.
    fn step(&mut self, number: usize, entry: &Entry) -> io::Result<()> {
        let path = self.actual(entry, entry.segment);
        let name = self.name(&path);
        let refused = keeping_folder_time(&path, || match (self.may_write)(&path) {
            Ok(()) => self.ensure(number, entry, &path),
            Err(fault) => Ok(Step::Left(fault.what)),
        });
        match refused {
            Ok(Step::Done(line)) => {
                self.put_back.push(number);
                let what =
                    if matches!(entry.node, Node::Absent) { What::Removed(path) } else { What::Put(path) };
                self.restored.push(Restored { what, line });
            }
            Ok(Step::Quiet) => self.put_back.push(number),
            Ok(Step::Same) => {
                self.put_back.push(number);
                self.report.same += 1;
            }
            Ok(Step::Left(why)) => self.report.leave(format!("left {name} alone: {why}")),
            Err(error) => self.report.leave(format!("left {name} alone: {}", plain(&error))),
        }
        self.stepped();
        Ok(())
    }

    fn stepped(&mut self) {
        self.steps += 1;
        if cfg!(debug_assertions) {
            killed_at(&format!("undo-step-{}", self.steps));
        }
    }

    fn name(&self, path: &Path) -> String {
        path.strip_prefix(self.tracked.store.workspace()).unwrap_or(path).display().to_string()
    }

    /// Returns why a path must not be changed.
    fn changed_since(&self, number: usize, entry: &Entry, path: &Path, now: &Node) -> Option<String> {
        let left = self.settled.left.get(number);
        // One entry alone: the rename over it is not taken back first.
        let over = left.filter(|it| self.plan.only.is_some() && it.over.is_some());
        let over = over.map(|it| Left { node: it.over.clone(), ..it.clone() });
        let left = over.as_ref().or(left);
        let is_gone = matches!(left.and_then(|it| it.node.as_ref()), Some(Node::Absent));
        let is_left = if self.plan.left.contains(&number) {
            true
        } else if let Some(found) = self.log.found(path) {
            // This undo has begun with the path, and was killed.
            !matches!(
                (now, found, &entry.node),
                (Node::Absent, ..)
                    | (Node::Folder(_), Node::Folder(_), _)
                    | (Node::Folder(_), _, Node::Folder(_))
            ) && !is_half_way(now, found, &entry.node)
        } else if let (true, Node::File(now), Node::File(before)) = (is_gone, now, &entry.node)
            && now.identity == before.identity
        {
            // A rename was taken back: this is the file itself.
            false
        } else {
            !was_found(&self.meanwhile, number, now) && !self.tracked.is_as_left(path, now, entry, left)
        };
        let later = self.plan.later.iter().find(|it| it.0 == number);
        is_left.then(|| match (now, later) {
            (_, Some((_, other))) => format!("{other} changed it at the same time: undo that first"),
            (Node::Absent, None) => format!("it is gone since {}", self.plan.call),
            _ if entry.is_open => format!(
                "it changed since {}, which left a process that had it open for writing",
                self.plan.call
            ),
            _ => format!("it changed since {}", self.plan.call),
        })
    }

    fn ensure(&mut self, number: usize, entry: &Entry, path: &Path) -> io::Result<Step> {
        let now = node_at(path)?;
        match &entry.node {
            Node::Absent => self.remove(number, entry, path, &now),
            Node::Folder(about) => self.folder(number, entry, path, &now, *about),
            Node::File(about) => self.file(number, entry, path, &now, *about),
            Node::Link { target, metadata } => {
                let is_same = matches!(&now, Node::Link { target: held, metadata: about }
                    if held == target && about.modified == metadata.modified);
                if is_same {
                    return Ok(Step::Same);
                }
                if let Some(why) = self.changed_since(number, entry, path, &now) {
                    return Ok(Step::Left(why));
                }
                self.log.before(path, Keep::Link, false)?;
                let spot = Spot::at(path)?;
                if !matches!(&now, Node::Link { target: held, .. } if held == target) {
                    if let Some(step) = self.clear(path, &now)? {
                        return Ok(step);
                    }
                    spot.create_link(target)?;
                }
                set_owner(&spot, metadata)?;
                spot.set_modified(metadata.modified)?;
                Ok(Step::Done(format!("restored the link {}", self.name(path))))
            }
            Node::Special(_) => self.special(entry, path, &now),
        }
    }

    /// Removes what the call created.
    fn remove(&mut self, number: usize, entry: &Entry, path: &Path, now: &Node) -> io::Result<Step> {
        if matches!(now, Node::Absent) {
            return Ok(Step::Same);
        }
        if !self.is_further_name(now)
            && let Some(why) = self.changed_since(number, entry, path, now)
        {
            return Ok(Step::Left(why));
        }
        self.log.before(path, Keep::Link, false)?;
        killed_at("undo-recorded-path");
        let spot = Spot::at(path)?;
        match now {
            Node::Folder(_) => match spot.remove_folder() {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    return Ok(Step::Left("it has other files".to_owned()));
                }
                done => done?,
            },
            _ => spot.remove()?,
        }
        Ok(Step::Done(format!("removed {} (created by {})", self.name(path), self.plan.call)))
    }

    /// Returns whether this is a further name of a file that was there before: it may have been restored by now.
    fn is_further_name(&self, now: &Node) -> bool {
        let Node::File(now) = now else { return false };
        let is_it = |it: &Entry| matches!(&it.node, Node::File(before) if before.identity == now.identity);
        now.links > 1 && self.fold.entries.iter().any(is_it)
    }

    /// Clears a path for something of another kind. Returns a step if that can't be done.
    fn clear(&self, path: &Path, now: &Node) -> io::Result<Option<Step>> {
        let spot = Spot::at(path)?;
        match now {
            Node::Absent => {}
            Node::Folder(_) => match spot.remove_folder() {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    return Ok(Some(Step::Left("a folder with other files is there now".to_owned())));
                }
                done => done?,
            },
            _ => spot.remove()?,
        }
        Ok(None)
    }

    fn special(&self, entry: &Entry, path: &Path, now: &Node) -> io::Result<Step> {
        if let (Node::Special(now), Node::Special(before)) = (now, &entry.node)
            && now.identity == before.identity
        {
            return Ok(Step::Same);
        }
        let (BeforeImage::Linked(number), Node::Absent) = (&entry.kept, now) else {
            return Ok(Step::Left("it was a pipe, a socket or a device".to_owned()));
        };
        let image = self.images.join(number.to_string());
        Spot::at(&image)?.rename_to(&Spot::at(path)?)?;
        Ok(Step::Done(format!("restored {}", self.name(path))))
    }
}

/// The outcome of one entry.
enum Step {
    /// It was put back, with a line about it.
    Done(String),
    /// It was put back, and another line tells it.
    Quiet,
    /// It was as before the call already.
    Same,
    /// It was left alone, for this reason.
    Left(String),
}

/// Returns whether an undo that was interrupted may have left this: `found` is what it found, `before` what it
/// was to restore.
fn is_half_way(now: &Node, found: &Node, before: &Node) -> bool {
    match (now, found, before) {
        (Node::File(now), Node::File(found), _) if now.identity == found.identity => true,
        (Node::Link { target: now, .. }, Node::Link { target: found, .. }, _) if now == found => true,
        (Node::File(now), _, Node::File(before)) => now.size == before.size,
        (Node::Link { target, .. }, _, Node::Link { target: before, .. }) => target == before,
        _ => false,
    }
}

/// Changes what is at a path, and gives its folder the time that it had: a command that wrote in place left that time
/// alone. Where it did not, the folder has an entry, and gets its time at the end.
fn keeping_folder_time<T>(path: &Path, change: impl FnOnce() -> T) -> T {
    let around = path.parent().and_then(|it| Some((it, node_at(it).ok()?)));
    let done = change();
    if let Some((folder, Node::Folder(before))) = around
        && let Ok(spot) = Spot::at(folder)
        && matches!(spot.node(), Ok(Node::Folder(now)) if now.modified != before.modified)
    {
        // Without the right to set it, the folder keeps its new time.
        let _ = spot.set_modified(before.modified);
    }
    done
}

/// Gives a path its owner, where that is allowed: an ordinary user has files of their own alone.
fn set_owner(spot: &Spot<'_>, before: &Metadata) -> io::Result<()> {
    match spot.set_owner(before.owner) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        done => done,
    }
}

/// Describes an error of the system for a person.
fn plain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => {
            "a symlink is on the way to it now".to_owned()
        }
        _ => error.to_string(),
    }
}
