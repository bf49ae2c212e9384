//! The plan of one sandbox: the keeper's orders, and the reasons why one can't be built.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    layout::{Mount, What},
    limits::Limits,
};

/// The orders of a keeper.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The kind of confinement.
    pub confined: Confined,
    /// The mounts.
    pub mounts: Vec<Mount>,
    /// Git folders without a `commondir`, which must have none when the sandbox has ended.
    pub alone: Vec<PathBuf>,
    /// Folders for temporary files, if there can be no private ones.
    pub scratch: Vec<PathBuf>,
    /// The limits.
    pub limits: Limits,
    /// Whether commands may make sockets that are named by a path.
    pub unix_sockets: bool,
    /// The missing parts of the sandbox that a person accepted.
    pub accept_weaker: Vec<String>,
}

/// The confinement of a keeper's processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confined {
    /// None.
    #[default]
    Not,
    /// Namespaces, with rules on top.
    Apart,
    /// Namespaces that bubblewrap made, with rules on top.
    Wrapped,
    /// Rules alone, if a person accepted that.
    ByRules,
}

/// A keeper's report on its sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The reason why it could not be built.
    pub trouble: Option<Trouble>,
    /// The port of the proxy. Its socket is sent along, after it the one on which the resource watch reports, and
    /// after that the folder with the changes of a preview.
    pub proxy: Option<u16>,
}

/// A part of the sandbox that a kernel may not have, or may not permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Separate file system, processes and network.
    Namespaces,
    /// Landlock.
    Landlock,
    /// Landlock's rule on signals, if there is no PID namespace.
    Signals,
    /// The seccomp filter.
    Seccomp,
    /// The overlays of a preview.
    Overlay,
}

/// The reason why a sandbox could not be built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// The part that is missing.
    pub part: Part,
    /// The failed step.
    pub step: String,
    /// The system's error.
    pub error: String,
}

impl Part {
    /// Returns the name by which a person accepts that it is missing.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
            Self::Signals => "signals",
            Self::Seccomp => "seccomp",
            Self::Overlay => "overlay",
        }
    }

    /// Returns what is lost without it.
    pub fn without(self) -> &'static str {
        match self {
            Self::Namespaces => {
                "commands then share the machine's processes and network stack, may open no socket at all, change control \
                 files in the roots, and change modes and times of files outside them."
            }
            Self::Landlock => "the second layer that keeps writes inside the roots is then missing.",
            Self::Signals => "commands may then send signals to other processes of this user.",
            Self::Seccomp => "the filter of system calls is then missing.",
            Self::Overlay => "commands can't be previewed then.",
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed at {}: {}", self.part.name(), self.step, self.error)
    }
}

impl Plan {
    pub(crate) fn accepts(&self, part: Part) -> bool {
        self.accept_weaker.iter().any(|it| it == part.name())
    }

    pub(crate) fn is_root(&self, path: &Path) -> bool {
        self.mounts.iter().any(|mount| mount.at == path && matches!(mount.what, What::Bind { .. }))
    }
}
