//! The lists and rules about command lines, as a configuration gives them.

use serde::{Deserialize, Serialize};

/// What is said about commands. Each line has the first words of some.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commands {
    /// Run without a question also where no sandbox contains them.
    pub allow: Vec<String>,
    /// Run only after approval.
    pub ask: Vec<String>,
    /// Never run.
    pub deny: Vec<String>,
    /// The only commands there are; `*` stands for all.
    pub only: Option<Vec<String>>,
    /// The rules with examples.
    pub rules: Vec<CommandRule>,
}

/// A rule about commands, with examples that are tried when it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRule {
    /// The first words of the commands.
    pub prefix: Vec<String>,
    /// What becomes of them.
    pub then: Then,
    /// Command lines that the rule is about.
    pub matches: Vec<String>,
    /// Command lines that it is not about.
    pub not_matches: Vec<String>,
}

/// What becomes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Then {
    /// It runs.
    Allow,
    /// A person is asked first.
    Ask,
    /// It does not run.
    Deny,
}
