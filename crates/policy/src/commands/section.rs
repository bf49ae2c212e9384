//! `[commands]` and `[[command]]` of haft.toml: the lists and rules about command lines.

use serde::{Deserialize, Serialize};

/// The lists of command prefixes. Each line has the first words of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commands {
    /// Commands that run without approval even without a sandbox.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Commands that need approval.
    #[serde(default)]
    pub ask: Vec<String>,
    /// Commands that never run.
    #[serde(default)]
    pub deny: Vec<String>,
    /// The only commands that are allowed; `*` stands for all.
    pub only: Option<Vec<String>>,
    /// The rules with examples.
    #[serde(skip_deserializing)]
    pub rules: Vec<CommandRule>,
}

/// A rule on commands, with examples that are checked when it is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandRule {
    /// The first words of the commands.
    pub prefix: Vec<String>,
    /// The decision.
    pub then: Then,
    /// Command lines that it must match.
    #[serde(default, rename = "match", skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<String>,
    /// Command lines that it must not match.
    #[serde(default, rename = "not_match", skip_serializing_if = "Vec::is_empty")]
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
