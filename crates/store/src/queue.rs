//! The writer's queue: passes work to the writer thread, and returns the results.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

use super::error::Trouble;

/// Time that work without a waiting caller may stay queued, so that more work can join its transaction. It
/// also spares the callers: waking the writer costs more than queueing.
const LINGER: Duration = Duration::from_millis(5);

/// Whether a caller waits for the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    Now,
    Later,
}

/// The channel on which a caller waits for the result.
pub(super) enum Reply<T> {
    Task(tokio::sync::oneshot::Sender<Result<T, Trouble>>),
    Thread(std::sync::mpsc::SyncSender<Result<T, Trouble>>),
    /// Called in the writer's thread. It must be short, and own no [`Store`](crate::Store).
    Then(Box<dyn FnOnce(Result<T, Trouble>) + Send>),
}

/// The result of [`Queue::wait`].
pub(super) enum Waited {
    /// There is work, or somebody has nudged the writer.
    Over,
    /// No work arrived within the given time.
    Idle,
    /// The queue is closed and empty.
    Closed,
}

/// A piece of work, in two steps: it runs within a transaction, and it answers after the commit.
pub(super) trait Job: Send {
    fn run(&mut self, database: &Connection);
    fn finish(self: Box<Self>, path: &Path, committed: Result<(), &Trouble>);
}

/// The queue of work for the writer.
pub(super) struct Queue {
    path: PathBuf,
    state: Mutex<State>,
    came: Condvar,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    jobs: Vec<Box<dyn Job>>,
    urgent: bool,
    nudged: bool,
    asleep: bool,
    closed: bool,
    finished: bool,
    trouble: Option<Trouble>,
}

impl Queue {
    /// Creates an empty queue for the database at `path`.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, state: Mutex::default(), came: Condvar::new(), ended: Condvar::new() }
    }

    /// Adds work. Fails once the writer has ended; work without a reply also fails while the last batch is
    /// known to have failed.
    pub(super) fn push<T, F>(&self, work: F, reply: Option<Reply<T>>, urgency: Urgency) -> Result<(), Trouble>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let unheard = reply.is_none();
        let job = Box::new(Task { work: Some(work), done: None, reply });
        let mut state = self.state.lock();
        if state.closed || state.finished {
            return Err(state.trouble.clone().unwrap_or_else(gone));
        }
        let known = if unheard { state.trouble.clone() } else { None };
        state.jobs.push(job);
        let wake = state.asleep || (urgency == Urgency::Now && !state.urgent);
        state.asleep = false;
        state.urgent |= urgency == Urgency::Now;
        drop(state);
        if wake {
            self.came.notify_one();
        }
        known.map_or(Ok(()), Err)
    }

    /// Waits for work: until a caller waits for some of it, and otherwise [`LINGER`] longer.
    pub(super) fn wait(&self, idle_after: Option<Duration>) -> Waited {
        let mut state = self.state.lock();
        let idle_at = idle_after.map(|it| Instant::now() + it);
        while state.jobs.is_empty() && !state.nudged {
            if state.closed {
                return Waited::Closed;
            }
            state.asleep = true;
            match idle_at {
                Some(at) => {
                    if self.came.wait_until(&mut state, at).timed_out()
                        && state.jobs.is_empty()
                        && !state.nudged
                    {
                        return Waited::Idle;
                    }
                }
                None => self.came.wait(&mut state),
            }
        }
        state.asleep = false;
        let deadline = Instant::now() + LINGER;
        while !state.urgent
            && !state.nudged
            && !state.closed
            && !self.came.wait_until(&mut state, deadline).timed_out()
        {}
        state.nudged = false;
        Waited::Over
    }

    /// Returns all that is queued.
    pub(super) fn take(&self) -> Vec<Box<dyn Job>> {
        let mut state = self.state.lock();
        state.urgent = false;
        std::mem::take(&mut state.jobs)
    }

    /// Has the writer look after the database, though there may be no work.
    pub(super) fn nudge(&self) {
        self.state.lock().nudged = true;
        self.came.notify_one();
    }

    /// Returns whether nothing is queued, and work is taken and is known to succeed.
    pub(super) fn is_clear(&self) -> bool {
        let state = self.state.lock();
        state.jobs.is_empty() && !state.closed && !state.finished && state.trouble.is_none()
    }

    /// Records whether the last transaction was committed.
    pub(super) fn note(&self, committed: Result<(), &Trouble>) {
        let mut state = self.state.lock();
        if let (Err(trouble), None) = (committed, &state.trouble) {
            tracing::error!(%trouble, "records are lost until it works again");
        }
        state.trouble = committed.err().cloned();
    }

    /// Returns the error of the last batch, if it failed.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.state.lock().trouble.clone()
    }

    /// Refuses further work; the writer still does the queued work.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.came.notify_one();
    }

    /// Ends the queue because there is no writer, and records the reason.
    pub(super) fn abandon(&self, why: &str) {
        let what = format!("haft's record of this workspace, {}: {why}", self.path.display());
        self.state.lock().trouble = Some(Trouble::new(what, "See `haft doctor`."));
        self.finish();
    }

    /// Marks the writer as ended, and drops the remaining work, which fails its callers.
    pub(super) fn finish(&self) {
        let left = {
            let mut state = self.state.lock();
            state.finished = true;
            std::mem::take(&mut state.jobs)
        };
        drop(left);
        self.ended.notify_all();
    }

    /// Waits for the writer to end; returns false on a timeout.
    pub(super) fn wait_finished(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        let mut state = self.state.lock();
        while !state.finished {
            if self.ended.wait_until(&mut state, deadline).timed_out() {
                return state.finished;
            }
        }
        true
    }
}

/// Returns work that writes what is there already, to learn whether the database can be written again.
pub(super) fn probe() -> Box<dyn Job> {
    let reply = Reply::Then(Box::new(|_: Result<usize, Trouble>| ()));
    Box::new(Task { work: Some(write_what_is_there), done: None, reply: Some(reply) })
}

/// Writes a row that says the same as before.
pub(super) fn write_what_is_there(database: &Connection) -> rusqlite::Result<usize> {
    let sql = "UPDATE processes SET at_ms = at_ms WHERE instance = (SELECT min(instance) FROM processes)";
    database.execute(sql, [])
}

/// Returns the error of work that the writer did not do before it ended.
pub(super) fn gone() -> Trouble {
    Trouble::new("haft's record of this workspace is closed", "Start haft again.")
}

struct Task<T, F> {
    work: Option<F>,
    done: Option<rusqlite::Result<T>>,
    reply: Option<Reply<T>>,
}

impl<T, F> Job for Task<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> rusqlite::Result<T> + Send,
{
    fn run(&mut self, database: &Connection) {
        if let Some(work) = self.work.take() {
            self.done = Some(work(database));
        }
    }

    fn finish(self: Box<Self>, path: &Path, committed: Result<(), &Trouble>) {
        let result = match (committed, self.done) {
            (Err(trouble), _) => Err(trouble.clone()),
            (Ok(()), Some(Ok(value))) => Ok(value),
            (Ok(()), Some(Err(error))) => Err(Trouble::of_sqlite(path, &error)),
            (Ok(()), None) => Err(gone()),
        };
        // A caller that no longer waits has dropped its receiver.
        match self.reply {
            Some(Reply::Task(reply)) => drop(reply.send(result)),
            Some(Reply::Thread(reply)) => drop(reply.send(result)),
            Some(Reply::Then(reply)) => reply(result),
            // A batch that failed as a whole is reported once, by the writer.
            None => {
                if let (Ok(()), Err(trouble)) = (committed, result) {
                    tracing::error!(%trouble, "a record was lost");
                }
            }
        }
    }
}
