//! Approval: the question to a person, and the verdict.

use std::{future::Future, pin::Pin, time::Duration};

use kit::effect::{Effect, Scope};
use policy::Rule;
use store::changes::Change;

/// A call that needs a person's approval.
#[derive(Debug, Clone)]
pub struct Request {
    /// The id of the client's call: the call itself, or the one for which a tool makes it; none, if no client
    /// call asks.
    pub call: Option<String>,
    /// The agent that asks, unless it is the one that the person talks to: `explore_1f3a`.
    pub agent: Option<String>,
    /// The tool.
    pub tool: String,
    /// The rule that asks.
    pub rule: Rule,
    /// The arguments, unchanged.
    pub arguments: String,
    /// The effects of the call that need approval, one line each.
    pub effects: Vec<String>,
    /// The file changes that the call would make, if they are known: approval covers exactly these.
    pub changes: Vec<Change>,
    /// The grants that are stored if the person allows more than this call; empty, if only this call can be
    /// allowed.
    pub offers: Vec<Effect>,
}

/// The answer of the person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The call may run. The scope says for how long the same effects need no further question.
    Yes(Scope),
    /// The call may not run.
    No,
    /// The call may not run, with the person's instructions.
    Instead(String),
    /// Nobody can be asked, which counts as a refusal.
    NobodyThere,
    /// Nobody decided in time, which counts as a refusal.
    NobodyDecided {
        /// The time that the call waited.
        waited: Duration,
        /// The next step: where a person decides.
        next: String,
    },
}

impl Verdict {
    /// Returns the name in the journal.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Yes(Scope::Once) => "approved",
            Self::Yes(Scope::Session) => "approved for this session",
            Self::Yes(Scope::Project) => "approved for this project",
            Self::No | Self::Instead(_) => "refused by the person",
            Self::NobodyThere => "denied, nobody to ask",
            Self::NobodyDecided { .. } => "denied, nobody decided in time",
        }
    }
}

/// The way in which a front end asks its person.
pub trait Approver: Send + Sync {
    /// Asks, and waits for the answer. Dropping the future withdraws the question.
    fn approve(&self, request: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>>;

    /// Returns whether several questions can be open at once. If not, only one call of a session asks at a
    /// time.
    fn asks_together(&self) -> bool {
        false
    }

    /// Returns whether somebody can be asked, as far as that is known without asking. `call` is that of
    /// [`Request::call`].
    fn is_attended(&self, call: &str) -> bool {
        let _ = call;
        true
    }
}

/// A front end without a person.
pub struct Unattended;

impl Approver for Unattended {
    fn approve(&self, _: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(std::future::ready(Verdict::NobodyThere))
    }

    fn is_attended(&self, _: &str) -> bool {
        false
    }
}
