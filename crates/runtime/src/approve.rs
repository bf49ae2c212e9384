//! Who is asked, where a rule says that a person must be?

use std::{future::Future, pin::Pin};

use crate::policy::Rule;

/// A call that a person is asked about.
#[derive(Debug, Clone)]
pub struct Request {
    /// The tool.
    pub tool: String,
    /// Why it is asked about.
    pub rule: Rule,
    /// Its arguments, as they came.
    pub arguments: String,
}

/// What the person said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// This call may run.
    Yes,
    /// It may not.
    No,
    /// There was nobody to ask, which is a no.
    NobodyThere,
}

impl Verdict {
    /// The name in the journal.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Yes => "approved",
            Self::No => "refused by the person",
            Self::NobodyThere => "denied, nobody to ask",
        }
    }
}

/// The way a door asks its person.
pub trait Approver: Send + Sync {
    /// Asks, and waits for the answer.
    fn approve(&self, request: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>>;
}

/// A door with nobody behind it.
pub struct Unattended;

impl Approver for Unattended {
    fn approve(&self, _: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(std::future::ready(Verdict::NobodyThere))
    }
}
