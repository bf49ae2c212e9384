//! Approvals in the middle of a call.

use std::path::Path;

use super::{After, Soon};
use crate::{Fault, text::Content};

/// What a person is asked about in the middle of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matter {
    /// The name of the rule by which it is asked about: `ssh_host_key`.
    pub rule: &'static str,
    /// What it is about: a host with the fingerprint of its key.
    pub about: String,
    /// Why it is asked about, in one sentence.
    pub says: &'static str,
    /// What would be done after a yes, one line each.
    pub effects: Vec<String>,
    /// What would be kept after a yes for longer than this call; nothing, where only this call can be allowed.
    pub keeps: Option<String>,
}

/// Asks the person about what could not be known before the call ran. That nobody is to be asked (`--approve auto`) is no
/// yes to it.
pub trait Confirm: Send + Sync {
    /// Asks, and waits for the answer: only a person's yes is one. Gives whether it is for longer than this call.
    ///
    /// # Errors
    /// [`Kind::Denied`](crate::Kind::Denied) when they say no, or nobody is there to be asked.
    fn confirm(&self, matter: Matter) -> Soon<'_, Result<bool, Fault>>;
}

/// Nobody is there.
pub struct NobodyConfirms;

impl Confirm for NobodyConfirms {
    fn confirm(&self, matter: Matter) -> Soon<'_, Result<bool, Fault>> {
        let Matter { rule, about, says, .. } = matter;
        let fault = Fault::denied(format!("`{about}`: {says} (rule `{rule}`); there was nobody to ask"));
        Box::pin(std::future::ready(Err(fault)))
    }
}

/// A change of a file that is about to land.
#[derive(Debug, Clone, Copy)]
pub struct Proposed<'a> {
    /// The file's absolute path.
    pub path: &'a Path,
    /// What it holds; `None` where there is no such file.
    pub before: Option<&'a Content>,
    /// What it would hold.
    pub after: After<'a>,
}

/// Shows a person changes of files before they land.
pub trait Review: Send + Sync {
    /// Asks about all of these together, and blocks until there is an answer. A yes is for these contents only.
    ///
    /// # Errors
    /// [`Kind::Denied`](crate::Kind::Denied) when the person refuses, or nobody is there to be asked;
    /// [`Kind::Cancelled`](crate::Kind::Cancelled) when the call is stopped meanwhile.
    fn review(&self, changes: &[Proposed<'_>]) -> Result<(), Fault>;
}
