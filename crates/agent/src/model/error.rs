//! Model errors.

use std::fmt;

use serde::Serialize;

/// The reason why a model did not answer completely.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct ModelError {
    /// The kind, which decides how haft reacts.
    pub breach: Breach,
    /// The error, in the provider's own words.
    pub what: String,
    /// The next step for the person.
    pub next: Option<String>,
    /// Whether the model has already retried, as often as that makes sense.
    pub tried: bool,
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Breach {
    /// The key is missing, wrong, or not valid for this model.
    Auth,
    /// The conversation is longer than the model's context window.
    TooLong,
    /// The provider does not accept the request.
    Refused,
    /// The provider is overloaded, also after retries.
    Busy,
    /// The provider can't be reached, also after retries.
    Unreachable,
    /// The answer broke off.
    Broken,
    /// The answer does not match the provider's documentation.
    Malformed,
}

impl Breach {
    /// Returns the kind's name in traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::TooLong => "too_long",
            Self::Refused => "refused",
            Self::Busy => "busy",
            Self::Unreachable => "unreachable",
            Self::Broken => "broken",
            Self::Malformed => "malformed",
        }
    }
}

impl ModelError {
    /// Creates an error of this kind.
    pub fn new(breach: Breach, what: impl Into<String>) -> Self {
        Self { breach, what: what.into(), next: None, tried: false }
    }

    /// Adds what a person can do.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// Marks the error as already retried.
    #[must_use]
    pub fn tried(mut self) -> Self {
        self.tried = true;
        self
    }

    /// Returns whether the same request may succeed later.
    pub fn may_pass(&self) -> bool {
        matches!(self.breach, Breach::Busy | Breach::Unreachable | Breach::Broken | Breach::Malformed)
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
