//! The lists and rules about command lines, as a configuration gives them.

use serde::{Deserialize, Serialize};

/// The lists of command prefixes. Each line has the first words of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commands {
    /// Commands that run without approval even without a sandbox.
    pub allow: Vec<String>,
    /// Commands that need approval.
    pub ask: Vec<String>,
    /// Commands that never run.
    pub deny: Vec<String>,
    /// The only commands that are allowed; `*` stands for all.
    pub only: Option<Vec<String>>,
    /// The rules with examples.
    pub rules: Vec<CommandRule>,
}

/// A rule on commands, with examples that are checked when it is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRule {
    /// The first words of the commands.
    pub prefix: Vec<String>,
    /// The decision.
    pub then: Then,
    /// Command lines that it must match.
    pub matches: Vec<String>,
    /// Command lines that it must not match.
    pub not_matches: Vec<String>,
}

/// The decision on a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Then {
    /// Run it.
    Allow,
    /// Ask a person first.
    Ask,
    /// Refuse it.
    Deny,
}
