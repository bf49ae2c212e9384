//! A running call as seen from outside: its output so far, and requests to it.
//!
//! Three look at it: the tool (as its [`Caller`]), the task that runs the call and grants
//! its wishes, and whoever asks for the job that it has become.

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

use super::Jobs;
use crate::approval_time::AskedTime;

/// One call, from its beginning to its end and, if it is a job, beyond.
pub(crate) struct ThisCall {
    /// The tool that was called.
    pub(crate) tool: String,
    /// What a person calls the call; may be empty.
    pub(crate) title: String,
    /// Stops the tool, whoever it is that wants it stopped.
    pub(crate) stop: CancellationToken,
    began: Instant,
    /// How long a person was asked about it.
    pub(crate) asked: Arc<AskedTime>,
    jobs: Weak<Jobs>,
    // Invariant: taken after the table's lock or without it, never before it.
    pub(super) now: Mutex<Now>,
    changed: Notify,
}

/// How the call stands now.
#[derive(Default)]
pub(super) struct Now {
    /// Its number as a job, once somebody wanted to know.
    number: Option<u64>,
    stage: Stage,
    wishes: VecDeque<Wish>,
    input: Option<Value>,
    pub(super) live: Live,
    pub(super) said: Option<Arc<Output>>,
    pub(super) end: Option<End>,
    /// How many wait for news of it.
    pub(super) watchers: usize,
    /// There is something that nobody was told of.
    pub(super) is_news: bool,
    /// Its result was promised: it was called to work in the background.
    pub(super) is_owed: bool,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    #[default]
    Pending,
    Running,
    Waiting,
}

/// What came of it.
pub(super) struct End {
    pub(super) state: State,
    pub(super) result: Arc<Result<Output, Fault>>,
    pub(super) took: Duration,
}

/// Why a call is to answer before it is over.
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

    /// Its number as a job: `job_3` has 3.
    pub(super) fn number(&self) -> u64 {
        let mut now = self.now.lock();
        *now.number.get_or_insert_with(|| self.jobs.upgrade().map_or(0, |jobs| jobs.next_number()))
    }

    /// Did anybody want to know its number?
    pub(super) fn has_number(&self) -> bool {
        self.now.lock().number.is_some()
    }

    /// Its id as a job.
    pub(crate) fn id(&self) -> String {
        format!("job_{}", self.number())
    }

    /// Its title, or the name of its tool where it has none.
    pub(crate) fn name(&self) -> &str {
        if self.title.is_empty() { &self.tool } else { &self.title }
    }

    /// How long it has run, or ran.
    pub(super) fn took(&self) -> Duration {
        self.now.lock().end.as_ref().map_or_else(|| self.elapsed(), |end| end.took)
    }

    /// How long it has run, without the time that a person was asked about it.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed().saturating_sub(self.asked.total())
    }

    /// The call as others see it.
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

    /// Somebody wants it to answer before it is over.
    pub(crate) fn wish(&self, wish: Wish) {
        self.change(|now| now.wishes.push_back(wish));
    }

    /// Resolves when there is a wish.
    pub(crate) async fn wished(&self) -> Wish {
        self.until(|now| now.wishes.pop_front()).await
    }

    /// The wish that was not granted yet.
    pub(crate) fn take_wish(&self) -> Option<Wish> {
        self.now.lock().wishes.pop_front()
    }

    /// Its result is promised to whoever called it. A call that a person moved to the background, or whose tool goes on
    /// there by itself, promises none.
    pub(crate) fn owes_its_result(&self) {
        self.now.lock().is_owed = true;
    }

    /// It has its locks.
    pub(crate) fn runs(&self) {
        self.change(|now| now.stage = Stage::Running);
    }

    /// It said this and waits for input.
    pub(super) fn waits(now: &mut Now, said: Output) {
        now.stage = Stage::Waiting;
        now.said = Some(Arc::new(said));
    }

    /// Gives it its input; false when it waits for none.
    pub(super) fn put(&self, input: Value) -> bool {
        self.change(|now| {
            if now.end.is_some() || now.stage != Stage::Waiting {
                return false;
            }
            now.stage = Stage::Running;
            now.said = None;
            now.is_news = false;
            now.input = Some(input);
            true
        })
    }

    /// Resolves when it does nothing more by itself: it is over, or waits for input.
    pub(super) async fn settled(&self) {
        self.until(|now| now.is_settled().then_some(())).await;
    }

    /// Changes how it stands, and wakes who waits for that.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Now) -> T) -> T {
        let done = change(&mut self.now.lock());
        self.changed.notify_waiters();
        done
    }

    /// Waits until `look` finds something.
    pub(super) async fn until<T>(&self, mut look: impl FnMut(&mut Now) -> Option<T>) -> T {
        loop {
            // Made before the look, so that it hears of whatever changes after that.
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
            // What ended does not come to life again.
            if now.end.is_none() {
                now.live = live;
            }
        });
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
