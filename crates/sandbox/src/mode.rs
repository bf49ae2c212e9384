//! Sandbox modes: what may be changed at all.

use serde::{Deserialize, Serialize};

/// The files that may be changed. The modes are in order, the narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
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
    /// All modes, the narrowest first.
    pub const ALL: [Self; 3] = [Self::ReadOnly, Self::Workspace, Self::Full];

    /// Returns the mode of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Returns its name in the configuration and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Workspace => "workspace",
            Self::Full => "full",
        }
    }
}
