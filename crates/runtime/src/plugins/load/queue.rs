//! Queue of files to describe: the files that a call waits for come first.

use std::{
    collections::{HashSet, VecDeque},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::super::set::stem;

/// The names of tools that calls wait for, each once for every call.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    names: Mutex<Vec<String>>,
    changed: Notify,
}

/// A call that waits for the tool of this name, until this is dropped.
pub(super) struct Waiting<'a> {
    wanted: &'a Wanted,
    name: &'a str,
}

impl Wanted {
    /// Records that a call waits for the tool of this name.
    pub(super) fn wait<'a>(&'a self, name: &'a str) -> Waiting<'a> {
        self.names.lock().push(name.to_owned());
        self.changed.notify_waiters();
        Waiting { wanted: self, name }
    }

    /// Returns the names.
    pub(super) fn names(&self) -> Vec<String> {
        self.names.lock().clone()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut names = self.wanted.names.lock();
        if let Some(at) = names.iter().position(|it| it == self.name) {
            names.swap_remove(at);
        }
    }
}

/// The files that one load describes.
pub(crate) struct Queue {
    wanted: Arc<Wanted>,
    /// The names that this load has looked for: those of its files, and those that were wanted when it began.
    known: HashSet<String>,
    is_stopped: AtomicBool,
    may_stop: bool,
}

/// Some of these files, each with its number: those that are described in the same way.
pub(crate) struct Share<'a> {
    queue: &'a Queue,
    open: Mutex<VecDeque<(usize, PathBuf)>>,
}

impl Queue {
    /// Creates the queue of a load that began when calls waited for `waiting`, with files of these paths. With
    /// `may_stop` it gives no more files once a call waits for a file that was not there when the load began.
    pub(super) fn new<'a>(
        wanted: Arc<Wanted>,
        waiting: Vec<String>,
        files: impl Iterator<Item = &'a PathBuf>,
        may_stop: bool,
    ) -> Self {
        let named = files.filter_map(|it| stem(it)).map(str::to_owned);
        let known = waiting.into_iter().chain(named).collect();
        Self { wanted, known, is_stopped: AtomicBool::new(false), may_stop }
    }

    /// Returns a queue of these files.
    pub(crate) fn share(&self, files: impl Iterator<Item = (usize, PathBuf)>) -> Share<'_> {
        Share { queue: self, open: Mutex::new(files.collect()) }
    }

    /// Returns whether it gives no more files.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// Waits until a call waits for a file that was not there when the load began; then it gives no more files.
    pub(super) async fn stopped(&self) {
        loop {
            let changed = self.wanted.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.may_stop && self.wanted.names.lock().iter().any(|it| !self.known.contains(it)) {
                self.is_stopped.store(true, Ordering::Release);
                return;
            }
            changed.await;
        }
    }
}

impl Share<'_> {
    /// Returns the number of the next file to describe.
    pub(crate) fn next(&self) -> Option<usize> {
        let wanted = self.queue.wanted.names();
        let mut open = self.open.lock();
        if self.queue.is_stopped() {
            return None;
        }
        let first = wanted.iter().find_map(|name| {
            open.iter().position(|(_, path)| stem(path) == Some(name)).and_then(|at| open.remove(at))
        });
        first.or_else(|| open.pop_front()).map(|it| it.0)
    }

    /// Returns whether there are no more files.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_stopped() || self.open.lock().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Vec<PathBuf> {
        ["a.py", "b.py", "c.py"].map(PathBuf::from).to_vec()
    }

    #[test]
    fn file_that_a_call_waits_for_comes_first() {
        let (wanted, files) = (Arc::<Wanted>::default(), files());
        let queue = Queue::new(wanted.clone(), Vec::new(), files.iter(), true);
        let share = queue.share(files.iter().cloned().enumerate());
        let waiting = wanted.wait("c");
        assert_eq!(share.next(), Some(2));
        drop(waiting);
        assert_eq!(share.next(), Some(0));
    }

    #[tokio::test]
    async fn load_stops_once_a_call_waits_for_a_file_that_it_has_not_seen() {
        let (wanted, files) = (Arc::<Wanted>::default(), files());
        let _early = wanted.wait("no_such_file");
        let queue = |may_stop| Queue::new(wanted.clone(), wanted.names(), files.iter(), may_stop);
        let (load, whole) = (queue(true), queue(false));
        let share = load.share(files.iter().cloned().enumerate());
        assert_eq!(share.next(), Some(0));
        let stopped = load.stopped();
        tokio::pin!(stopped);
        assert!(futures_util::poll!(stopped.as_mut()).is_pending());
        let _late = wanted.wait("new");
        stopped.await;
        assert_eq!(share.next(), None);
        assert!(share.is_empty() && load.is_stopped());
        assert_eq!(whole.share(files.iter().cloned().enumerate()).next(), Some(0));
    }
}
