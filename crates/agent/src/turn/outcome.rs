//! The limits of a turn, and how it ends.

use std::time::Duration;

use kit::Fault;
use runtime::config::STEPS;
use serde::Serialize;

use crate::model::{ModelError, Usage};

/// The limits of one turn. haft sends no request beyond them: the conversation so far stays, and the next
/// turn begins with a line that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum model responses.
    pub steps: usize,
    /// Limit of tokens, of requests and answers together; above it, haft sends no further request.
    pub tokens: Option<u64>,
    /// Time limit. It stops an unfinished answer with its calls.
    pub time: Option<Duration>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { steps: STEPS, tokens: None, time: None }
    }
}

/// The outcome of a turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// How the turn ended.
    pub ended: Ended,
    /// The model's last text.
    pub text: String,
    /// The number of answers.
    pub steps: usize,
    /// The tokens used, including those of summaries.
    pub usage: Usage,
    /// The cost in dollars, where it is known.
    pub cost: Option<f64>,
}

/// The way a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The model completed its answer.
    Done,
    /// The turn was cancelled.
    Cancelled,
    /// The turn reached its limit of answers, tokens or time.
    Limit,
    /// The provider stopped the model.
    Refused,
}

/// The reason why a turn failed. The conversation so far is kept, and the next turn continues it.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The conversation can't be written or read.
    #[error(transparent)]
    Transcript(#[from] Fault),
}

impl Ended {
    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Limit => "limit",
            Self::Refused => "refused",
        }
    }
}

impl AgentError {
    /// Returns the kind of the error, in a word.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Model(error) => error.breach.name(),
            Self::Transcript(fault) => fault.kind.name(),
        }
    }
}

/// Adds two costs, where they are known.
pub(super) fn sum(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    }
}
