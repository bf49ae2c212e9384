//! Turns: told to watchers from their beginning to their end, whatever happens in between.

use std::sync::Arc;

use agent::AgentError;
use tokio_util::sync::CancellationToken;

use super::Core;
use crate::{
    event::{Event, TurnEnd},
    fault::Failure,
};

/// How a turn begins.
#[derive(Debug, Clone, Default)]
pub struct Began {
    /// The key of its prompt, where it is an operation.
    pub key: Option<String>,
    /// The initiator of the turn.
    pub by: String,
    /// The person's words.
    pub text: String,
    /// The attachments, a line each.
    pub attached: Vec<String>,
    /// It is resumed (`PendingOperation::is_resumed`): its beginning is in the log.
    pub is_resumed: bool,
}

/// A turn that goes on. Dropped, it ends as cancelled.
pub struct Turn {
    pub(super) core: Arc<Core>,
    pub(super) key: Option<String>,
    pub(super) cancel: CancellationToken,
    pub(super) is_over: bool,
}

/// Work that goes on and is not a turn.
pub struct Work {
    pub(super) core: Arc<Core>,
    pub(super) cancel: CancellationToken,
}

impl Work {
    /// Stops the work.
    pub fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        *self.core.running.lock() = None;
    }
}

impl Turn {
    /// Stops the turn.
    pub fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// It ended so. Gives what an operation that began it has as its result.
    pub fn end(self, result: &Result<agent::Outcome, AgentError>) -> TurnEnd {
        match result {
            Ok(outcome) => self.ended(TurnEnd {
                key: None,
                ended: outcome.ended.name().to_owned(),
                text: outcome.text.clone(),
                steps: outcome.steps,
                usage: outcome.usage,
                cost: outcome.cost,
                error: None,
            }),
            Err(error) => self.failed(error),
        }
    }

    /// It failed so. Gives the same.
    pub fn failed(self, error: &AgentError) -> TurnEnd {
        self.ended(TurnEnd { error: Some(Failure::from(error)), ..TurnEnd::of("error") })
    }

    /// It ended without an answer of the model, with this text. Gives the same.
    pub(crate) fn ended_as(self, ended: agent::Ended, text: String) -> TurnEnd {
        self.ended(TurnEnd { text, ..TurnEnd::of(ended.name()) })
    }

    fn ended(mut self, mut end: TurnEnd) -> TurnEnd {
        end.key = self.key.clone();
        self.over(end.clone());
        end
    }

    fn over(&mut self, end: TurnEnd) {
        self.is_over = true;
        *self.core.running.lock() = None;
        self.core.log.add(Event::TurnEnded(end));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_over {
            self.cancel.cancel();
            self.over(TurnEnd { key: self.key.clone(), ..TurnEnd::of("cancelled") });
        }
    }
}

impl TurnEnd {
    /// A turn of which nothing but this is known.
    pub(crate) fn of(ended: &str) -> Self {
        Self {
            key: None,
            ended: ended.to_owned(),
            text: String::new(),
            steps: 0,
            usage: agent::model::Usage::default(),
            cost: None,
            error: None,
        }
    }
}
