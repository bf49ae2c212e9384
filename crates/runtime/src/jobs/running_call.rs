//! A running call as seen from outside: its output so far, and requests to it.
//!
//! Three parties use it: the tool (as its [`Caller`]), the task that runs the call and grants its wishes, and
//! whoever reads the job that it has become.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use kit::{
    Fault, Kind, Output,
    services::{Caller, Job, Live, Soon, State},
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Jobs, agent_inbox::Row};
use crate::approval_time::AskedTime;

/// One call, from its beginning to its end and, if it is a job, beyond.
pub(crate) struct ThisCall {
    /// The tool that was called.
    pub(crate) tool: String,
    /// The call's title, for a person; may be empty.
    pub(crate) title: String,
    /// Stops the tool.
    pub(crate) stop: CancellationToken,
    began: Instant,
    /// The time that a person was asked about it.
    pub(crate) asked: Arc<AskedTime>,
    pub(super) jobs: Weak<Jobs>,
    // Invariant: taken after the table's lock or without it, never before it.
    pub(super) now: Mutex<Now>,
    changed: Notify,
}

/// The present state of the call.
#[derive(Default)]
pub(super) struct Now {
    /// Its number as a job, once it was needed.
    number: Option<u64>,
    stage: Stage,
    wishes: VecDeque<Wish>,
    input: Option<Value>,
    pub(super) live: Live,
    pub(super) said: Option<Arc<Output>>,
    pub(super) end: Option<End>,
    /// The number of watchers that wait for its notifications.
    pub(super) watchers: usize,
    /// Whether there is something that nobody was informed of.
    pub(super) is_unreported: bool,
    /// The message about it that waits in the agent's inbox.
    pub(super) row: Option<Row>,
    /// Whether the model expects its result: it was called with `run_in_background`.
    pub(super) is_owed: bool,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    #[default]
    Pending,
    Running,
    Waiting,
}

/// The end of a call.
pub(super) struct End {
    pub(super) state: State,
    pub(super) result: Arc<Result<Output, Fault>>,
    pub(super) took: Duration,
}

/// The reason why a call is to answer before it is over.
pub(crate) enum Wish {
    /// Its tool goes on in the background.
    GoOn(Output),
    /// Its tool waits for input.
    HandOver(Output),
    /// Its arguments, or the person, want it in the background.
    Background,
}

impl ThisCall {
    pub(crate) fn new(
        tool: String,
        title: String,
        began: Instant,
        asked: Arc<AskedTime>,
        jobs: &Arc<Jobs>,
    ) -> Arc<Self> {
        Arc::new(Self {
            tool,
            title,
            stop: CancellationToken::new(),
            began,
            asked,
            jobs: Arc::downgrade(jobs),
            now: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// Returns its number as a job: `job_3` has 3.
    pub(super) fn number(&self) -> u64 {
        let mut now = self.now.lock();
        *now.number.get_or_insert_with(|| self.jobs.upgrade().map_or(0, |jobs| jobs.next_number()))
    }

    /// Returns whether its number was ever needed.
    pub(super) fn has_number(&self) -> bool {
        self.now.lock().number.is_some()
    }

    /// Returns its id as a job.
    pub(crate) fn id(&self) -> String {
        format!("job_{}", self.number())
    }

    /// Returns its title, or else the name of its tool.
    pub(crate) fn name(&self) -> &str {
        if self.title.is_empty() { &self.tool } else { &self.title }
    }

    /// Returns the time that it has run, or ran.
    pub(super) fn took(&self) -> Duration {
        self.now.lock().end.as_ref().map_or_else(|| self.elapsed(), |end| end.took)
    }

    /// Returns the time that it has run, without the time that a person was asked about it.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed().saturating_sub(self.asked.total())
    }

    /// Returns the call as a job.
    pub(super) fn job(&self) -> Job {
        let id = self.id();
        let now = self.now.lock();
        Job {
            id,
            tool: self.tool.clone(),
            title: self.title.clone(),
            state: now.state(),
            took: now.end.as_ref().map_or_else(|| self.elapsed(), |end| end.took),
            live: now.live.clone(),
            said: now.said.clone(),
            result: now.end.as_ref().map(|end| end.result.clone()),
        }
    }

    /// Asks the call to answer before it is over.
    pub(crate) fn wish(&self, wish: Wish) {
        self.change(|now| now.wishes.push_back(wish));
    }

    /// Resolves when there is a wish.
    pub(crate) async fn wished(&self) -> Wish {
        self.until(|now| now.wishes.pop_front()).await
    }

    /// Takes the next wish.
    pub(crate) fn take_wish(&self) -> Option<Wish> {
        self.now.lock().wishes.pop_front()
    }

    /// Records that the caller expects its result. A call that a person moved to the background, or whose
    /// tool continues there by itself, promises none.
    pub(crate) fn owes_its_result(&self) {
        self.now.lock().is_owed = true;
    }

    /// Records that it has its locks.
    pub(crate) fn runs(&self) {
        self.change(|now| now.stage = Stage::Running);
    }

    /// Records that it gave this output and waits for input.
    pub(super) fn waits(now: &mut Now, said: Output) {
        now.stage = Stage::Waiting;
        now.said = Some(Arc::new(said));
    }

    /// Passes the input to the call; returns false if it waits for none.
    pub(super) fn put(&self, input: Value) -> bool {
        self.change(|now| {
            if now.end.is_some() || now.stage != Stage::Waiting {
                return false;
            }
            now.stage = Stage::Running;
            now.said = None;
            now.is_unreported = false;
            now.input = Some(input);
            true
        })
    }

    /// Resolves when it does nothing more by itself: it is over, or waits for input.
    pub(super) async fn settled(&self) {
        self.until(|now| now.is_settled().then_some(())).await;
    }

    /// Changes its state, and wakes those that wait for that.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Now) -> T) -> T {
        let done = change(&mut self.now.lock());
        self.changed.notify_waiters();
        done
    }

    /// Waits until `look` finds something.
    pub(super) async fn until<T>(&self, mut look: impl FnMut(&mut Now) -> Option<T>) -> T {
        loop {
            // Created before the check, so that it notices every later change.
            let changed = self.changed.notified();
            if let Some(found) = look(&mut self.now.lock()) {
                return found;
            }
            changed.await;
        }
    }
}

impl Now {
    pub(super) fn state(&self) -> State {
        match (&self.end, self.stage) {
            (Some(end), _) => end.state,
            (None, Stage::Pending) => State::Pending,
            (None, Stage::Running) => State::Running,
            (None, Stage::Waiting) => State::Waiting,
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        self.end.is_some() || self.stage == Stage::Waiting
    }
}

impl Caller for ThisCall {
    fn job(&self) -> String {
        self.id()
    }

    fn show(&self, live: Live) {
        self.change(|now| {
            // A call that has ended can't start again.
            if now.end.is_none() {
                now.live = live;
            }
        });
    }

    fn passed(&self, limit: Duration) -> Soon<'_, ()> {
        let (asked, from) = (self.asked.clone(), self.asked.total());
        let deadline = tokio::time::Instant::now() + limit;
        Box::pin(async move { asked.passed(deadline, from).await })
    }

    fn go_on(&self, answer: Output) {
        self.wish(Wish::GoOn(answer));
    }

    fn hand_over(&self, answer: Output) -> Soon<'_, Result<Value, Fault>> {
        Box::pin(async move {
            self.wish(Wish::HandOver(answer));
            tokio::select! {
                biased;
                () = self.stop.cancelled() => Err(Fault::new(Kind::Cancelled, "the job was stopped while it waited for input")),
                input = self.until(|now| now.input.take()) => Ok(input),
            }
        })
    }
}
