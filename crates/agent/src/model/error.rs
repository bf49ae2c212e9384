//! Model errors.

use std::fmt;

use serde::Serialize;

/// Why a model did not answer, or not to the end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct ModelError {
    /// The kind, which decides what is done about it.
    pub breach: Breach,
    /// What happened, with the provider's own words.
    pub what: String,
    /// What a person can do about it.
    pub next: Option<String>,
    /// The model has asked again itself, as often as that makes sense.
    pub tried: bool,
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Breach {
    /// The key is missing, wrong, or not good for this model.
    Auth,
    /// The conversation is longer than the model's window.
    TooLong,
    /// The provider does not accept the request.
    Refused,
    /// The provider has no room, also after some time.
    Busy,
    /// The provider can't be reached, also after some time.
    Unreachable,
    /// The answer broke off.
    Broken,
    /// The answer is not what the provider's documentation says.
    Malformed,
}

impl Breach {
    /// Its name in traces.
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
    /// An error of this kind.
    pub fn new(breach: Breach, what: impl Into<String>) -> Self {
        Self { breach, what: what.into(), next: None, tried: false }
    }

    /// Says what a person can do.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// Says that asking again, now, is of no use: it was done.
    #[must_use]
    pub fn tried(mut self) -> Self {
        self.tried = true;
        self
    }

    /// May the same request work another time?
    pub fn may_pass(&self) -> bool {
        matches!(self.breach, Breach::Busy | Breach::Unreachable | Breach::Broken | Breach::Malformed)
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auth => "auth",
            Self::TooLong => "too_long",
            Self::Refused => "refused",
            Self::Busy => "busy",
            Self::Unreachable => "unreachable",
            Self::Broken => "broken",
            Self::Malformed => "malformed",
        })
    }
}
