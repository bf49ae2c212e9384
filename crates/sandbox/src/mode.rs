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
