//! Approval: the question to a person, and the answer.

use std::{future::Future, pin::Pin};

use kit::effect::{Effect, Scope};
use policy::Rule;
use store::changes::Change;

/// A call that a person is asked about.
#[derive(Debug, Clone)]
pub struct Request {
    /// The id of the call at the door, where it is one that asks: of the call itself, or of that which it is made for.
    pub call: Option<String>,
    /// The agent that asks, where it is not the one the person speaks with: `explore_1f3a`.
    pub agent: Option<String>,
    /// The tool.
    pub tool: String,
    /// Why it is asked about.
    pub rule: Rule,
    /// Its arguments, as they came.
    pub arguments: String,
    /// What the call would touch that needs a person, one line each.
    pub effects: Vec<String>,
    /// The changes of files that would land, where they are known: a yes is for exactly these.
    pub changes: Vec<Change>,
    /// What would be kept if it is allowed for longer than this call; if this is empty, nothing can be.
    pub offers: Vec<Effect>,
}

/// What the person said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// This call may run, and for as long as that what it was asked about is not asked again.
    Yes(Scope),
    /// It may not.
    No,
    /// It may not, and what the person says to that.
    Instead(String),
    /// There was nobody to ask, which is a no.
    NobodyThere,
}

impl Verdict {
    /// The name in the journal.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Yes(Scope::Once) => "approved",
            Self::Yes(Scope::Session) => "approved for this session",
            Self::Yes(Scope::Project) => "approved for this project",
            Self::No | Self::Instead(_) => "refused by the person",
            Self::NobodyThere => "denied, nobody to ask",
        }
    }
}

/// The way a door asks its person.
pub trait Approver: Send + Sync {
    /// Asks, and waits for the answer. A future that is dropped takes its question back.
    fn approve(&self, request: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>>;

    /// Can several questions stand at once? Where they can't, of a session's calls only one asks at a time.
    fn asks_together(&self) -> bool {
        false
    }

    /// Is there somebody to be asked, as far as can be told without asking? `call` is that of [`Request::call`].
    fn is_attended(&self, call: &str) -> bool {
        let _ = call;
        true
    }
}

/// A door with nobody behind it.
pub struct Unattended;

impl Approver for Unattended {
    fn approve(&self, _: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(std::future::ready(Verdict::NobodyThere))
    }

    fn is_attended(&self, _: &str) -> bool {
        false
    }
}
