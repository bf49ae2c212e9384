//! The driver of a conversation: decides when the next turn begins.
//!
//! A turn begins with what a person or a program says, or with the end of a job, whose result the model is told. `haft run`,
//! the chat and sub-agents use this driver.

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

/// How often haft looks whether a job that is waited for has begun to listen on a port.
const PORTS: Duration = Duration::from_secs(2);

/// How turns begin that nobody asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driving {
    /// How long the end of a conversation waits for results that were promised to the model.
    pub wait: Duration,
    /// How many turns in a row the ends of jobs may begin.
    pub wakes: usize,
}

/// Takes the turns of one conversation.
#[derive(Debug)]
pub struct Driver {
    driving: Driving,
    /// How many turns the ends of jobs began since somebody said something.
    woken: usize,
}

/// What turns came to that were waited for.
#[derive(Debug)]
pub struct Settled {
    /// The last turn's, with what all took.
    pub outcome: Outcome,
    /// What was promised and did not come in time.
    pub late: Vec<OwedJob>,
}

impl Driver {
    /// A driver that has taken no turn yet.
    pub fn new(driving: Driving) -> Self {
        Self { driving, woken: 0 }
    }

    /// One turn with what a person or a program says.
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

    /// Resolves when there is news of a job that may begin a turn. Dropping it loses nothing.
    pub async fn woken(&self, session: &Session) {
        if self.woken >= self.driving.wakes {
            return std::future::pending().await;
        }
        let mut changes = session.job_changes();
        loop {
            changes.borrow_and_update();
            if session.has_news() {
                return;
            }
            // The session is gone, and with it all that could happen.
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// One turn that begins with the news of jobs.
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

    /// A turn, and as long as results are owed to the model another one for each that comes. Without input it goes on where
    /// the conversation was left.
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
            if agent.session().owes_news() && self.woken < self.driving.wakes {
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
                // A server that begins to listen tells nobody.
                () = sleep(PORTS) => {}
                () = sleep_until(until) => return Ok(Settled { outcome: all, late: owed }),
            }
        }
        Ok(Settled { outcome: all, late: Vec::new() })
    }
}

impl Outcome {
    /// Of turns whose time was up, with nothing said in the last.
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
