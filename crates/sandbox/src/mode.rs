//! Sandbox modes: what may be changed at all.

use serde::{Deserialize, Serialize};

/// The files that may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// None.
    ReadOnly,
    /// Those below the roots.
    #[default]
    Workspace,
    /// Like `Workspace` for files; commands run unconfined.
    Full,
}

impl SandboxMode {
    /// Returns its name in the configuration and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Workspace => "workspace",
            Self::Full => "full",
        }
    }
}
