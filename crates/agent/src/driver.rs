//! The driver of a conversation: decides when the next turn begins.
//!
//! A turn begins with a message of a person or a program, with a message in the session's inbox, or with the end of a job,
//! whose result the model gets. `haft run`, the chat, sub-agents and the session service use this driver.

use std::time::Duration;

use runtime::{OwedJob, Session};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    event::Event,
    input::Input,
    model::Usage,
    turn::{Agent, AgentError, Ended, Outcome},
};

/// Interval at which haft checks whether an awaited job listens on a port.
const PORTS: Duration = Duration::from_secs(2);

/// Interval at which haft looks for messages that another process posted and could not tell it of.
const INBOX: Duration = Duration::from_millis(250);

/// Limits of the turns that begin by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driving {
    /// Time that the end of a conversation waits for results that were promised to the model.
    pub wait: Duration,
    /// Maximum number of consecutive turns that ends of jobs begin.
    pub wakes: usize,
}

/// Runs the turns of one conversation.
#[derive(Debug)]
pub struct Driver {
    driving: Driving,
    /// The number of turns that ends of jobs have begun since the last message.
    woken: usize,
    /// Whether the last turn that began by itself failed: then only a new event begins the next one.
    failed: bool,
    /// Whether messages and jobs may begin turns now.
    gate: Option<watch::Receiver<bool>>,
}

/// The outcome of a turn and of the turns that awaited jobs began.
#[derive(Debug)]
pub struct Settled {
    /// The outcome of the last turn, with the totals of all.
    pub outcome: Outcome,
    /// The last texts of the turns that were followed by one that a message began.
    pub earlier: Vec<String>,
    /// The promised jobs that did not end in time.
    pub late: Vec<OwedJob>,
}

impl Driver {
    /// Creates a driver that has run no turn yet.
    pub fn new(driving: Driving) -> Self {
        Self { driving, woken: 0, failed: false, gate: None }
    }

    /// Lets messages and jobs begin turns only while the value is true.
    #[must_use]
    pub fn gated(self, gate: watch::Receiver<bool>) -> Self {
        Self { gate: Some(gate), ..self }
    }

    /// Runs one turn with a message of a person or a program.
    ///
    /// # Errors
    /// Those of [`Agent::turn_with`].
    pub async fn say(
        &mut self,
        agent: &mut Agent,
        input: Input,
        cancel: &CancellationToken,
    ) -> Result<Outcome, AgentError> {
        self.woken = 0;
        let outcome = agent.turn_with(input, cancel).await;
        self.failed = outcome.is_err();
        outcome
    }

    /// Resolves when a message in the session's inbox or the event of a job may begin a turn. Dropping the future loses
    /// nothing.
    pub async fn woken(&self, session: &Session) {
        let Some(gate) = &self.gate else { return self.has_cause(session).await };
        let mut gate = gate.clone();
        loop {
            if gate.wait_for(|it| *it).await.is_err() {
                return std::future::pending().await;
            }
            tokio::select! {
                () = self.has_cause(session) => {}
                _ = gate.changed() => continue,
            }
            if *gate.borrow() {
                return;
            }
        }
    }

    async fn has_cause(&self, session: &Session) {
        let jobs_wake = self.woken < self.driving.wakes;
        let (mut jobs, mut inbox) = (session.job_changes(), arrivals(session));
        // After a failure the same message would fail again at once.
        let mut waits_for_more = self.failed;
        loop {
            jobs.borrow_and_update();
            inbox.borrow_and_update();
            if !waits_for_more && (has_message(session) || (jobs_wake && session.has_notifications())) {
                return;
            }
            tokio::select! {
                changed = jobs.changed(), if jobs_wake => {
                    // The session is gone, and no event can follow.
                    if changed.is_err() {
                        return std::future::pending().await;
                    }
                    waits_for_more = false;
                }
                _ = inbox.changed() => waits_for_more = false,
                () = sleep(INBOX) => {}
            }
        }
    }

    /// Returns what begins the next turn, in a word: `message` or `job`.
    pub fn cause(session: &Session) -> &'static str {
        if has_message(session) { "message" } else { "job" }
    }

    /// Runs one turn that begins with messages of the inbox or with the events of jobs.
    ///
    /// # Errors
    /// Those of [`Agent::turn`].
    pub async fn wake(
        &mut self,
        agent: &mut Agent,
        cancel: &CancellationToken,
    ) -> Result<Outcome, AgentError> {
        // A message that the person typed is a message of theirs, and others end when their senders do.
        if agent.session().has_notifications() {
            self.woken += 1;
        }
        let outcome = agent.turn(None, cancel).await;
        self.failed = outcome.is_err();
        outcome
    }

    /// Runs a turn, and then one more for each promised result and each message that arrives until there is nothing to wait
    /// for. Without input it continues the conversation where it stopped.
    ///
    /// # Errors
    /// Those of [`Agent::turn_with`].
    pub async fn settle(
        &mut self,
        agent: &mut Agent,
        input: Option<Input>,
        cancel: &CancellationToken,
    ) -> Result<Settled, AgentError> {
        let mut all = match input {
            Some(input) => self.say(agent, input, cancel).await?,
            None => agent.turn(None, cancel).await?,
        };
        let (mut changes, mut inbox) = (agent.session().job_changes(), arrivals(agent.session()));
        let mut until = Instant::now() + self.driving.wait;
        let mut told: Vec<OwedJob> = Vec::new();
        let mut earlier = Vec::new();
        while all.ended == Ended::Done {
            changes.borrow_and_update();
            inbox.borrow_and_update();
            let is_owed = agent.session().owes_notifications() && self.woken < self.driving.wakes;
            let has_message = has_message(agent.session());
            if has_message && !all.text.is_empty() {
                earlier.push(all.text.clone());
            }
            if is_owed || has_message {
                let more = self.wake(agent, cancel).await?;
                all.add(more);
                (until, told) = (Instant::now() + self.driving.wait, Vec::new());
                continue;
            }
            let owed = agent.session().owed_jobs().await;
            if owed.is_empty() || self.woken >= self.driving.wakes {
                return Ok(Settled { outcome: all, earlier, late: owed });
            }
            if told != owed {
                let left = until.saturating_duration_since(Instant::now());
                let seconds = (left + Duration::from_millis(500)).as_secs();
                agent.host().observe(Event::Waits { jobs: owed.clone(), seconds });
                told.clone_from(&owed);
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => all.ended = Ended::Cancelled,
                _ = changes.changed() => {}
                _ = inbox.changed() => {}
                // A server that begins to listen sends no notification, nor does another process that posts a message.
                () = sleep(PORTS) => {}
                () = sleep_until(until) => return Ok(Settled { outcome: all, earlier, late: owed }),
            }
        }
        Ok(Settled { outcome: all, earlier, late: Vec::new() })
    }
}

/// Returns a counter that changes when this process posts a message for the session.
fn arrivals(session: &Session) -> tokio::sync::watch::Receiver<u64> {
    session.runtime().store().inbox().arrivals(session.name())
}

/// Returns whether a message waits in the session's inbox. An inbox that can't be read has none: the turn's own rows fail then.
fn has_message(session: &Session) -> bool {
    session.runtime().store().inbox().has_queued(session.name()).unwrap_or(false)
}

impl Outcome {
    /// Creates the outcome of turns whose time limit was reached, with no text in the last.
    pub(crate) fn limited() -> Self {
        Self { ended: Ended::Limit, text: String::new(), steps: 0, usage: Usage::default(), cost: None }
    }

    /// Adds a later turn of the same conversation.
    pub fn add(&mut self, more: Self) {
        self.ended = more.ended;
        self.text = more.text;
        self.steps += more.steps;
        self.usage += more.usage;
        self.cost = self.cost.zip(more.cost).map(|(one, other)| one + other);
    }
}
