//! Changes that commands made to files: logs of calls, what each call left, and their undo.
//!
//! The change tracker of the sandbox writes `tracked/CALL/log` and the images beside it, before each change. When
//! the last process of a call has ended, the call is *settled*: `settled` holds the state in which it left each
//! path. An undo compares that with what is there, and leaves alone what somebody else changed. It writes a log
//! of its own in the same form, so that its undo is the redo.

mod apply;
mod fold;
mod folder;
mod log;
mod meanwhile;
mod settle;
#[cfg(test)]
mod tests;
mod versions;

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use kit::{Fault, tracking::Node};
use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};

use crate::{Store, error::Trouble, live::corpse, paths::replace_file};

pub use apply::{MayWrite, Report};
pub use fold::{Entry, Fold};
pub use settle::{Left, Settled};

/// The file of a call's folder that holds the records.
pub(crate) const LOG: &str = "log";
/// The file with the state in which the call left each path.
const SETTLED: &str = "settled";
/// The file that says which changes of the call are undone.
const UNDONE: &str = "undone";
/// The file that says what the call, an undo, undoes.
const PLAN: &str = "plan";

/// The tracked calls of a workspace.
#[derive(Clone)]
pub struct Tracked {
    store: Store,
}

/// A tracked call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackedCall {
    /// Its id.
    pub call: String,
    /// The session; empty if the journal does not know the call.
    pub session: String,
    /// The tool.
    pub tool: String,
    /// The time of its first change, in milliseconds since 1970; where the file system has no such time, of its begin.
    pub began_ms: u64,
    /// The time of its newest change, likewise.
    pub at_ms: u64,
    /// The number of reversals: 0 for a command, 1 for its undo, 2 for its redo.
    pub depth: u32,
    /// Whether its process may still change files.
    pub is_running: bool,
}

/// The changes of a call that are undone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Undone {
    /// The call of the last undo.
    by: String,
    /// Whether an undo of the whole call has put back something: the newest change is another one then.
    whole: bool,
    /// The entries that are put back, by their numbers in the fold.
    entries: Vec<usize>,
    /// Whether no entry is left.
    complete: bool,
}

/// The plan of an undo. It is on the disk before the first change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Plan {
    /// The call that is undone.
    call: String,
    /// The entries that are put back, by their numbers in the fold; all of them if there are none.
    only: Option<Vec<usize>>,
    /// The number of reversals: 1 for an undo, 2 for a redo.
    depth: u32,
    /// Entries that somebody else has changed: they are left alone.
    left: Vec<usize>,
    /// Folders whose times somebody else has changed.
    times: Vec<usize>,
    /// Entries that another call changed after this one, while both ran.
    #[serde(default)]
    later: Vec<(usize, String)>,
    /// Other calls that ran at the same time and changed some of the paths before this one.
    #[serde(default)]
    beside: Vec<String>,
    /// The process that carries it out.
    instance: String,
    /// Whether it is finished.
    done: bool,
}

/// The log of a call that replaces files itself, and not by commands.
pub(crate) struct OwnLog {
    tracked: Tracked,
    recorder: log::Recorder,
}

impl OwnLog {
    /// Records a file or a symlink that is about to be replaced or removed, or that nothing is there.
    pub(crate) fn before_replacing(&mut self, path: &Path) -> Result<(), Fault> {
        self.recorder.before(path, log::Keep::Link, false).map_err(|error| self.tracked.trouble(&error))
    }
}

/// The journal's facts about a call.
#[derive(Default)]
struct Begun {
    session: String,
    tool: String,
    instance: String,
    at_ms: u64,
}

impl Store {
    /// Returns the changes of commands.
    pub fn tracked(&self) -> Tracked {
        Tracked { store: self.clone() }
    }
}

impl Tracked {
    fn folder_of(&self, call: &str) -> PathBuf {
        self.store.tracked_folder().join(call)
    }

    fn trouble(&self, error: &io::Error) -> Fault {
        Trouble::of_file(&self.store.tracked_folder(), error).into()
    }

    /// Returns the folded log of a call; `None` if it changed nothing.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn fold(&self, call: &str) -> Result<Option<Fold>, Fault> {
        let records = log::read(&self.folder_of(call).join(LOG)).map_err(|error| self.trouble(&error))?;
        Ok(records.map(|(records, _)| Fold::of(records)))
    }

    /// Returns the state in which a call left its paths, if it is settled.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn settled(&self, call: &str) -> Result<Option<Settled>, Fault> {
        self.read(&self.folder_of(call).join(SETTLED))
    }

    /// Opens the log of a call that replaces files itself. When the call has ended, it has to be [settled](Self::settle).
    pub(crate) fn own_log(&self, call: &str) -> Result<OwnLog, Fault> {
        let recorder = log::Recorder::open(&self.folder_of(call)).map_err(|error| self.trouble(&error))?;
        Ok(OwnLog { tracked: self.clone(), recorder })
    }

    fn read<T: for<'de> Deserialize<'de>>(&self, path: &Path) -> Result<Option<T>, Fault> {
        match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| self.trouble(&io::Error::new(io::ErrorKind::InvalidData, error))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.trouble(&error)),
        }
    }

    fn write(&self, path: &Path, value: &impl Serialize) -> Result<(), Fault> {
        let bytes = serde_json::to_vec(value)
            .map_err(|error| self.trouble(&io::Error::new(io::ErrorKind::InvalidData, error)))?;
        replace_file(path, &bytes).map_err(|error| self.trouble(&error))
    }

    /// Returns a tracked call; `None` if it changed nothing, or its log was pruned.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn call(&self, call: &str) -> Result<Option<TrackedCall>, Fault> {
        Ok(self.calls(vec![call.to_owned()])?.pop())
    }

    /// Returns those of these calls that changed something.
    fn calls(&self, names: Vec<String>) -> Result<Vec<TrackedCall>, Fault> {
        let (names, begun) = self.store.wait(move |database| {
            let mut row = database.prepare_cached(
                "SELECT session, tool, instance, at_ms FROM journal WHERE call = ?1 AND event = 'begun'",
            )?;
            let mut begun: Vec<Option<Begun>> = Vec::new();
            for name in &names {
                let found = row.query_row(params![name], |row| {
                    let [session, tool, instance] = [row.get(0)?, row.get(1)?, row.get(2)?];
                    Ok(Begun { session, tool, instance, at_ms: row.get::<_, i64>(3)?.cast_unsigned() })
                });
                begun.push(found.optional()?);
            }
            drop(row);
            Ok((names, begun))
        })?;
        let mut calls = Vec::new();
        for (call, begun) in names.into_iter().zip(begun) {
            calls.extend(self.found(call, begun.unwrap_or_default())?);
        }
        Ok(calls)
    }

    fn found(&self, call: String, begun: Begun) -> Result<Option<TrackedCall>, Fault> {
        if !is_name(&call) {
            return Ok(None);
        }
        let folder = self.folder_of(&call);
        let modified = |name: &str| fs::metadata(folder.join(name)).and_then(|it| it.modified()).ok();
        let Some(changed) = modified(LOG) else { return Ok(None) };
        let is_settled = modified(SETTLED).is_some_and(|it| it >= changed);
        let milliseconds = |it: SystemTime| {
            u64::try_from(it.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
        };
        let created = fs::metadata(folder.join(LOG)).and_then(|it| it.created()).ok().map(milliseconds);
        let changed = milliseconds(changed);
        let plan: Option<Plan> = self.read(&folder.join(PLAN))?;
        Ok(Some(TrackedCall {
            is_running: !is_settled && self.is_alive(&begun.instance),
            session: begun.session,
            tool: begun.tool,
            began_ms: created.unwrap_or(begun.at_ms),
            // The time of a file may lag behind the clock a little.
            at_ms: changed.max(begun.at_ms),
            depth: plan.map_or(0, |it| it.depth),
            call,
        }))
    }

    /// Returns whether a process runs: this one, or another one of the workspace.
    fn is_alive(&self, instance: &str) -> bool {
        instance == self.store.instance()
            || (!instance.is_empty() && corpse(&self.store.live_folder(), instance).is_none())
    }

    /// Returns the number of reversals that a call is: 0 for a command, 1 for its undo, 2 for its redo.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn depth(&self, call: &str) -> Result<u32, Fault> {
        let plan: Option<Plan> = self.read(&self.folder_of(call).join(PLAN))?;
        Ok(plan.map_or(0, |it| it.depth))
    }

    /// Returns the tracked calls whose changes are not undone, the newest first.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn open_calls(&self, session: Option<&str>) -> Result<Vec<TrackedCall>, Fault> {
        let mut names = Vec::new();
        for name in self.names()? {
            // A change that was refused leaves an empty log.
            let is_empty = fs::metadata(self.folder_of(&name).join(LOG)).is_ok_and(|it| it.len() == 0);
            if !is_empty && !self.is_undone(&name)? {
                names.push(name);
            }
        }
        let mut calls = self.calls(names)?;
        calls.retain(|it| session.is_none_or(|session| it.session == session));
        calls.sort_by(|one, other| (other.at_ms, &other.call).cmp(&(one.at_ms, &one.call)));
        Ok(calls)
    }

    /// Returns a tracked call of which not everything is undone.
    ///
    /// # Errors
    /// When the store can't be read.
    pub(crate) fn left_of(&self, call: &str) -> Result<Option<TrackedCall>, Fault> {
        let Some(found) = self.call(call)? else { return Ok(None) };
        Ok((!self.undone(call)?.is_some_and(|it| it.complete)).then_some(found))
    }

    /// Returns whether the changes of a call are undone.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn is_undone(&self, call: &str) -> Result<bool, Fault> {
        Ok(self.undone(call)?.is_some_and(|it| it.whole || it.complete))
    }

    /// Returns the call that undid the commands of this one; the outer `None` if it has none.
    pub(crate) fn undone_by(&self, call: &str) -> Result<Option<Option<String>>, Fault> {
        if self.call(call)?.is_none() {
            return Ok(None);
        }
        Ok(Some(self.undone(call)?.filter(|it| it.whole || it.complete).map(|it| it.by)))
    }

    fn names(&self) -> Result<Vec<String>, Fault> {
        match fs::read_dir(self.store.tracked_folder()) {
            Ok(entries) => Ok(entries.filter_map(|it| it.ok()?.file_name().into_string().ok()).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(self.trouble(&error)),
        }
    }

    fn undone(&self, call: &str) -> Result<Option<Undone>, Fault> {
        self.read(&self.folder_of(call).join(UNDONE))
    }

    /// Settles the calls of dead processes, and returns the undos that they left half-way.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn recover(&self) -> Result<Vec<String>, Fault> {
        let mut unfinished = Vec::new();
        for name in self.names()? {
            match self.read::<Plan>(&self.folder_of(&name).join(PLAN))? {
                Some(plan) if !plan.done && self.is_alive(&plan.instance) => {}
                Some(plan) if !plan.done => unfinished.push(name),
                _ => {
                    if self.call(&name)?.is_some_and(|it| !it.is_running) && self.settled(&name)?.is_none() {
                        self.settle(&name, true)?;
                    }
                }
            }
        }
        Ok(unfinished)
    }

    /// Returns the number of the entry by which a call changed this path, if that is not undone.
    ///
    /// # Errors
    /// When the logs can't be read.
    pub(crate) fn entry_of(&self, call: &str, path: &Path) -> Result<Option<usize>, Fault> {
        let Some(fold) = self.fold(call)? else { return Ok(None) };
        let undone = self.undone(call)?.unwrap_or_default();
        let found = fold.entries.iter().enumerate().filter(|(number, entry)| {
            !undone.entries.contains(number)
                && !matches!(entry.node, Node::Folder(_))
                && (fold.present(&entry.path, entry.segment) == path || fold.original(entry) == path)
        });
        // What was there before the call rather than what the call put in its place.
        Ok(found.max_by_key(|(_, entry)| fold.is_replaced(entry)).map(|(number, _)| number))
    }
}

/// Returns whether this can be the name of a call's folder.
fn is_name(call: &str) -> bool {
    !call.is_empty() && !call.starts_with('.') && !call.contains('/')
}
