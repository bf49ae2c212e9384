//! Faults: why a call did not work, and what to do next.

use std::{borrow::Cow, error::Error, fmt};

use serde::{Deserialize, Serialize};

use crate::{Output, references::in_own_names};

/// A failed call: why, in words that the model can act on.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Fault {
    /// The kind; stable. Policy, retries and metrics read it, never the text.
    pub kind: Kind,
    /// The error: one sentence, with the offending value.
    pub what: String,
    /// The next step: a concrete call, path or value.
    pub next: Option<String>,
    /// Whether `next` refers to tools: see [`hint`](Self::hint). Texts that come from outside are never rendered.
    pub refers: bool,
    /// The output before it failed.
    pub seen: Option<Box<Output>>,
    /// For people and logs; the model never sees it.
    #[source]
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

/// The kinds of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The arguments are wrong.
    BadArgs,
    /// A named thing does not exist.
    NotFound,
    /// A thing has changed since it was shown.
    Stale,
    /// The arguments match more than one thing.
    Ambiguous,
    /// A rule forbids it.
    Denied,
    /// It took too long.
    Timeout,
    /// The call was cancelled.
    Cancelled,
    /// It is over a limit.
    TooBig,
    /// A resource that it needs is not available on this machine at present.
    Unavailable,
    /// The tool ran, and reported a failure.
    Failed,
    /// A defect of haft or of the tool.
    Bug,
}

impl Kind {
    /// The name used in the journal and on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::BadArgs => "bad_args",
            Self::NotFound => "not_found",
            Self::Stale => "stale",
            Self::Ambiguous => "ambiguous",
            Self::Denied => "denied",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::TooBig => "too_big",
            Self::Unavailable => "unavailable",
            Self::Failed => "failed",
            Self::Bug => "bug",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Fault {
    /// Creates a fault of this kind.
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), next: None, refers: false, seen: None, source: None }
    }

    /// Creates a fault of kind `BadArgs`.
    pub fn bad_args(what: impl Into<String>) -> Self {
        Self::new(Kind::BadArgs, what)
    }

    /// Creates a fault of kind `NotFound`.
    pub fn not_found(what: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, what)
    }

    /// Creates a fault of kind `Denied`.
    pub fn denied(what: impl Into<String>) -> Self {
        Self::new(Kind::Denied, what)
    }

    /// Creates a fault of kind `Bug`.
    pub fn bug(what: impl Into<String>) -> Self {
        Self::new(Kind::Bug, what)
    }

    /// Adds the next step.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self.refers = false;
        self
    }

    /// Adds a next step that [refers](crate::references) to tools; it is rendered with the names of those
    /// that are shown. The text must be the program's own: text from outside may stand in it only as an
    /// argument of a [`call`](crate::references::call).
    #[must_use]
    pub fn hint(self, next: impl Into<String>) -> Self {
        Self { refers: true, ..self.next(next) }
    }

    /// Adds the output before it failed.
    #[must_use]
    pub fn seen(mut self, seen: Output) -> Self {
        self.seen = Some(Box::new(seen));
        self
    }

    /// Adds the cause, for logs.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns a copy without the cause, for a second recipient.
    #[must_use]
    pub fn copied(&self) -> Self {
        Self {
            kind: self.kind,
            what: self.what.clone(),
            next: self.next.clone(),
            refers: self.refers,
            seen: self.seen.clone(),
            source: None,
        }
    }

    /// Renders its hint with the names of the tools that are shown: see [`references`](crate::references).
    pub fn render(&mut self, render: impl Fn(&str) -> Cow<'_, str>) {
        if !std::mem::take(&mut self.refers) {
            return;
        }
        if let Some(Cow::Owned(next)) = self.next.as_deref().map(render) {
            // The references that were left out may have been all of it.
            self.next = Some(next.trim().to_owned()).filter(|it| !it.is_empty());
        }
    }

    /// Returns the text for the model: what happened, what to try, what was seen.
    pub fn as_text(&self) -> String {
        let mut text = self.what.clone();
        if let Some(next) = &self.next {
            text.push('\n');
            text.push_str(&if self.refers { in_own_names(next) } else { Cow::Borrowed(next.as_str()) });
        }
        if let Some(seen) = &self.seen {
            let seen = seen.as_text();
            if !seen.is_empty() {
                text.push('\n');
                text.push_str(&seen);
            }
        }
        text
    }
}

/// Turns any error into a fault, with the sentence the model should read.
pub trait OrFault<T> {
    /// Returns the value, or a fault that says `what`, followed by the error's own message.
    ///
    /// # Errors
    /// When there was an error.
    fn or_fault(self, kind: Kind, what: &str) -> Result<T, Fault>;
}

impl<T, E: Error + Send + Sync + 'static> OrFault<T> for Result<T, E> {
    fn or_fault(self, kind: Kind, what: &str) -> Result<T, Fault> {
        self.map_err(|error| Fault::new(kind, format!("{what}: {error}")).caused_by(error))
    }
}
