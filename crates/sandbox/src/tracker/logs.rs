//! Logs of calls: which calls are tracked, and what they changed in total.

use std::{
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    hold,
    log::{Early, Log},
    log_lock::LogLock,
};

/// The limits of what is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Of one file that is copied, in bytes.
    pub file: u64,
    /// Of all copies of one call, in bytes.
    pub call: u64,
    /// Whether files in folders of build results and caches are copied, too.
    pub ignored: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { file: 1 << 30, call: 4 << 30, ignored: false }
    }
}

/// The changes of a call until now, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// All records.
    pub records: u64,
    /// Files of before the call that were deleted or replaced.
    pub deleted: u64,
    /// Files of before the call that were emptied.
    pub emptied: u64,
    /// Files of before the call that were opened for writing, without the emptied ones.
    pub overwritten: u64,
    /// Paths where nothing was.
    pub created: u64,
    /// Folders of before the call that were deleted.
    pub folders_deleted: u64,
    /// Files whose content could not be kept.
    pub not_kept: u64,
    /// Changes whose file could not be determined.
    pub unknown: u64,
    /// Files in a `.git` that were deleted or rewritten, but not by git.
    pub of_git_dir: u64,
    /// The bytes of all copies.
    pub kept_bytes: u64,
}

impl Totals {
    /// Returns the number of files that lost their content.
    pub fn lost(&self) -> u64 {
        self.deleted + self.emptied
    }

    fn add(&mut self, other: &Self) {
        self.records += other.records;
        self.deleted += other.deleted;
        self.emptied += other.emptied;
        self.overwritten += other.overwritten;
        self.created += other.created;
        self.folders_deleted += other.folders_deleted;
        self.not_kept += other.not_kept;
        self.unknown += other.unknown;
        self.of_git_dir += other.of_git_dir;
        self.kept_bytes += other.kept_bytes;
    }
}

/// The logs of all calls of a workspace. Cheap to clone.
#[derive(Clone)]
pub struct Logs {
    inner: Arc<Inner>,
}

struct Inner {
    folder: PathBuf,
    bounds: Bounds,
    calls: Mutex<HashMap<String, Weak<Call>>>,
    /// The calls that were asked for since [`Logs::take_begun`].
    begun: Mutex<HashSet<String>>,
}

/// One call whose changes are tracked, as long as somebody holds it.
pub struct Call {
    name: String,
    folder: PathBuf,
    pub(super) bounds: Bounds,
    pub(super) totals: watch::Sender<Totals>,
    /// The number of trees of processes that belong to it.
    uses: watch::Sender<usize>,
    pub(super) log: LogLock,
    /// The decisions about contents that can't be kept.
    pub(super) holds: hold::Decisions,
    /// The call to which later changes belong.
    next: Mutex<Option<Arc<Self>>>,
    /// The files that its process had open when it began.
    pub(super) early: Mutex<Vec<Early>>,
}

impl Logs {
    /// Returns the logs in this folder. Nothing is created yet.
    pub fn new(folder: PathBuf, bounds: Bounds) -> Self {
        Self { inner: Arc::new(Inner { folder, bounds, calls: Mutex::default(), begun: Mutex::default() }) }
    }

    /// Returns the folder of all logs.
    pub fn folder(&self) -> &Path {
        &self.inner.folder
    }

    /// Returns the folder of one call: the file `log`, and its images by their numbers. It exists once the
    /// call has changed something.
    pub fn folder_of(&self, call: &str) -> PathBuf {
        self.inner.folder.join(call)
    }

    /// Returns the call if a process has worked for it, and forgets that. Most calls start none, and need not be
    /// looked for on the disk.
    pub fn take_begun(&self, call: &str) -> Option<Arc<Call>> {
        let begun = self.inner.begun.lock().remove(call);
        begun.then(|| self.known(call))
    }

    /// Returns the call of this id, also before it has changed anything.
    pub fn call(&self, id: &str) -> Arc<Call> {
        self.inner.begun.lock().insert(id.to_owned());
        self.known(id)
    }

    /// Returns whether the call of this id has opened this file for writing or has changed it, or anything in this
    /// folder; also if that is not known.
    pub fn has_changed(&self, call: &str, path: &Path) -> bool {
        let call = self.inner.calls.lock().get(call).and_then(Weak::upgrade);
        call.is_some_and(|it| it.has_changed(path))
    }

    fn known(&self, id: &str) -> Arc<Call> {
        let mut calls = self.inner.calls.lock();
        if let Some(call) = calls.get(id).and_then(Weak::upgrade) {
            return call;
        }
        calls.retain(|_, call| call.strong_count() > 0);
        let call = Arc::new(Call {
            name: id.to_owned(),
            folder: self.folder_of(id),
            bounds: self.inner.bounds,
            totals: watch::Sender::default(),
            uses: watch::Sender::default(),
            log: LogLock::default(),
            holds: hold::Decisions::default(),
            next: Mutex::default(),
            early: Mutex::default(),
        });
        calls.insert(id.to_owned(), Arc::downgrade(&call));
        call
    }
}

impl Call {
    /// Returns its id.
    pub fn id(&self) -> &str {
        &self.name
    }

    /// Returns its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns what it has changed until now.
    pub fn totals(&self) -> watch::Receiver<Totals> {
        self.totals.subscribe()
    }

    /// Counts what its processes change from now on to another call: its own changes are closed.
    pub fn followed_by(&self, next: Arc<Self>) {
        *self.next.lock() = Some(next);
    }

    /// Returns the call to which its changes belong now.
    pub(super) fn present(self: Arc<Self>) -> Arc<Self> {
        let mut present = self;
        loop {
            let Some(next) = present.next.lock().clone() else { return present };
            present = next;
        }
    }

    /// Records that a command of it may change files that are not tracked, for this reason.
    ///
    /// # Errors
    /// Those of the system.
    pub fn not_tracked(&self, why: &str) -> io::Result<()> {
        let mut open = self.log.lock();
        let log = match &mut *open {
            Some(log) => log,
            none => none.insert(Log::open(&self.folder, self.bounds)?),
        };
        log.unknown(format!("the changes of its command are not known: {why}"));
        self.count(&log.write()?);
        Ok(())
    }

    fn has_changed(&self, path: &Path) -> bool {
        if self.totals.borrow().unknown > 0
            || self.early.lock().iter().any(|it| it.place.path().starts_with(path))
        {
            return true;
        }
        // Another thread has the log while it makes a long copy.
        let Some(log) = self.log.try_lock() else { return true };
        let Some(log) = &*log else { return false };
        log.level(path).is_some() || path.is_dir() && log.seen.keys().any(|it| it.starts_with(path))
    }

    /// Waits until it changes nothing more: no process lives any more that was started for it, and no process
    /// of several calls works for it.
    pub async fn settled(&self) {
        // The sender lives as long as `self`.
        let _ = self.uses.subscribe().wait_for(|it| *it == 0).await;
    }

    /// Records which of its last renames the system refused: none of their processes is in one any more.
    pub(super) fn check_renames(&self) {
        let mut log = self.log.lock();
        let Some(log) = &mut *log else { return };
        log.check_renames(None);
        match log.write() {
            Ok(counted) => self.count(&counted),
            Err(error) => {
                tracing::error!(call = self.id(), "a refused rename is not in the call's log: {error}");
            }
        }
    }

    /// Adds to its totals.
    pub(super) fn count(&self, counted: &Totals) {
        if *counted != Totals::default() {
            self.totals.send_modify(|it| it.add(counted));
        }
    }
}

/// A tree of processes that works for a call. Until it is dropped, the call is not settled.
pub(super) struct Use {
    pub(super) call: Arc<Call>,
}

impl Use {
    pub(super) fn new(call: Arc<Call>) -> Self {
        call.uses.send_modify(|it| *it += 1);
        Self { call }
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.call.uses.send_modify(|it| *it = it.saturating_sub(1));
    }
}
