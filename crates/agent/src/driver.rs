//! The driver of a conversation: decides when the next turn begins.
//!
//! A turn begins with a message of a person or a program, or with the end of a job, whose result the model
//! gets. `haft run`, the chat and sub-agents use this driver.

use std::time::Duration;

use runtime::{OwedJob, Session};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::{
    event::Event,
    input::Input,
    model::Usage,
    turn::{Agent, AgentError, Ended, Outcome},
};

/// Interval at which haft checks whether an awaited job listens on a port.
const PORTS: Duration = Duration::from_secs(2);

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
}

/// The outcome of a turn and of the turns that awaited jobs began.
#[derive(Debug)]
pub struct Settled {
    /// The outcome of the last turn, with the totals of all.
    pub outcome: Outcome,
    /// The promised jobs that did not end in time.
    pub late: Vec<OwedJob>,
}

impl Driver {
    /// Creates a driver that has run no turn yet.
    pub fn new(driving: Driving) -> Self {
        Self { driving, woken: 0 }
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
        agent.turn_with(input, cancel).await
    }

    /// Resolves when the event of a job may begin a turn. Dropping the future loses nothing.
    pub async fn woken(&self, session: &Session) {
        if self.woken >= self.driving.wakes {
            return std::future::pending().await;
        }
        let mut changes = session.job_changes();
        loop {
            changes.borrow_and_update();
            if session.has_notifications() {
                return;
            }
            // The session is gone, and no event can follow.
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Runs one turn that begins with the events of jobs.
    ///
    /// # Errors
    /// Those of [`Agent::turn`].
    pub async fn wake(
        &mut self,
        agent: &mut Agent,
        cancel: &CancellationToken,
    ) -> Result<Outcome, AgentError> {
        self.woken += 1;
        agent.turn(None, cancel).await
    }

    /// Runs a turn, and then one more for each promised result that arrives. Without input it continues the
    /// conversation where it stopped.
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
        let mut changes = agent.session().job_changes();
        let mut until = Instant::now() + self.driving.wait;
        let mut told: Vec<OwedJob> = Vec::new();
        while all.ended == Ended::Done {
            changes.borrow_and_update();
            if agent.session().owes_notifications() && self.woken < self.driving.wakes {
                let more = self.wake(agent, cancel).await?;
                all.add(more);
                (until, told) = (Instant::now() + self.driving.wait, Vec::new());
                continue;
            }
            let owed = agent.session().owed_jobs().await;
            if owed.is_empty() || self.woken >= self.driving.wakes {
                return Ok(Settled { outcome: all, late: owed });
            }
            if told != owed {
                let left = until.saturating_duration_since(Instant::now());
                let seconds = (left + Duration::from_millis(500)).as_secs();
                agent.host().hear(Event::Waits { jobs: owed.clone(), seconds });
                told.clone_from(&owed);
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => all.ended = Ended::Cancelled,
                _ = changes.changed() => {}
                // A server that begins to listen sends no notification.
                () = sleep(PORTS) => {}
                () = sleep_until(until) => return Ok(Settled { outcome: all, late: owed }),
            }
        }
        Ok(Settled { outcome: all, late: Vec::new() })
    }
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
