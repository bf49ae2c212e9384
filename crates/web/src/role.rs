//! Roles: each has the rights of those before it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

    /// Returns the role of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}
