//! Sandbox modes: what may be changed at all.

use serde::{Deserialize, Serialize};

/// What may be changed at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Nothing.
    ReadOnly,
    /// What lies below the roots.
    #[default]
    Workspace,
    /// For files the same as `Workspace`; commands run unconfined.
    Full,
}
