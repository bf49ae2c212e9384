//! Approval during a call.

use std::path::Path;

use super::{After, Soon};
use crate::{Fault, text::Content};

/// A matter that needs a person's approval during a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matter {
    /// The name of the rule that requires it: `ssh_host_key`.
    pub rule: &'static str,
    /// The subject: a host with the fingerprint of its key.
    pub about: String,
    /// The reason, in one sentence.
    pub says: &'static str,
    /// The effects of an approval, one line each.
    pub effects: Vec<String>,
    /// The permission that an approval could leave beyond this call; `None` if only this call can be allowed.
    pub keeps: Option<String>,
}

/// Asks the person to approve what could not be known before the call ran. `--approve auto` does not approve it.
pub trait Confirm: Send + Sync {
    /// Asks, and waits for the answer: only a person can approve. Returns whether the approval is for longer
    /// than this call.
    ///
    /// # Errors
    /// [`Kind::Denied`](crate::Kind::Denied) when they refuse, or no person can be asked.
    fn confirm(&self, matter: Matter) -> Soon<'_, Result<bool, Fault>>;
}

/// Refuses everything: no person can be asked.
pub struct NobodyConfirms;

impl Confirm for NobodyConfirms {
    fn confirm(&self, matter: Matter) -> Soon<'_, Result<bool, Fault>> {
        let Matter { rule, about, says, .. } = matter;
        let fault = Fault::denied(format!("`{about}`: {says} (rule `{rule}`); there was nobody to ask"));
        Box::pin(std::future::ready(Err(fault)))
    }
}

/// A file change that is about to be made.
#[derive(Debug, Clone, Copy)]
pub struct Proposed<'a> {
    /// The file's absolute path.
    pub path: &'a Path,
    /// Its present content; `None` if the file does not exist.
    pub before: Option<&'a Content>,
    /// Its new content.
    pub after: After<'a>,
}

/// Shows a person file changes before they are made.
pub trait Review: Send + Sync {
    /// Asks about all of these together, and blocks until there is an answer. An approval is for these contents only.
    ///
    /// # Errors
    /// [`Kind::Denied`](crate::Kind::Denied) when the person refuses, or no person can be asked;
    /// [`Kind::Cancelled`](crate::Kind::Cancelled) when the call is stopped meanwhile.
    fn review(&self, changes: &[Proposed<'_>]) -> Result<(), Fault>;
}
