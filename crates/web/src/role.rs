//! Roles: each has the rights of those before it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sessions::Operation;

/// The rights of whoever signs in or has a token. They are in order: each includes the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Watches sessions.
    View,
    /// Begins sessions, prompts them, stops them, and reads files of the workspace.
    Say,
    /// Decides approvals, undoes changes, runs commands.
    Approve,
    /// Deletes sessions, shares them, revokes grants, makes tokens.
    Own,
}

impl Role {
    /// All roles, lowest first.
    pub const ALL: [Self; 4] = [Self::View, Self::Say, Self::Approve, Self::Own];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Say => "say",
            Self::Approve => "approve",
            Self::Own => "own",
        }
    }

    /// Returns the role that an operation on a session needs, by whichever protocol it comes.
    pub fn needed(operation: &Operation) -> Self {
        match operation {
            Operation::Report(_) => Self::View,
            // In an editor's process, such a prompt is the command.
            Operation::Prompt(prompt) if is_undo(&prompt.text) => Self::Approve,
            Operation::Prompt(_)
            | Operation::Cancel { .. }
            | Operation::Answer { .. }
            | Operation::Fork { .. }
            | Operation::Rewind { .. }
            | Operation::Rename { .. }
            | Operation::Archive { .. }
            | Operation::Model { .. }
            | Operation::Profile { .. }
            | Operation::Compact { .. } => Self::Say,
            Operation::Approve { .. }
            | Operation::Undo { .. }
            | Operation::Command { .. }
            | Operation::Commit { .. } => Self::Approve,
            Operation::Close | Operation::Sandbox { .. } => Self::Own,
        }
    }

    /// Returns the role of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

fn is_undo(prompt: &str) -> bool {
    prompt.split_whitespace().next().is_some_and(|it| it.eq_ignore_ascii_case("/undo"))
}
