//! The plan of one sandbox: what its keeper is to be, and why it could not be built.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    layout::{Mount, What},
    limits::Limits,
};

/// What a keeper is to be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// How it is confined.
    pub confined: Confined,
    /// What commands see.
    pub mounts: Vec<Mount>,
    /// Folders of git's that have no `commondir`, and must have none when the sandbox has ended.
    pub alone: Vec<PathBuf>,
    /// Where temporary files go when there can be no private folder for them.
    pub scratch: Vec<PathBuf>,
    /// What commands may use.
    pub limits: Limits,
    /// Whether commands may make sockets that are named by a path.
    pub unix_sockets: bool,
    /// The parts of the sandbox that a person agreed to do without.
    pub accept_weaker: Vec<String>,
}

/// How the processes of a keeper are confined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confined {
    /// They are not.
    #[default]
    Not,
    /// In namespaces of their own, with rules on top.
    Apart,
    /// The same, in namespaces that bubblewrap made.
    Wrapped,
    /// By rules alone, where a person accepted that.
    ByRules,
}

/// What a keeper says once it is what it was to be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Why it is not.
    pub trouble: Option<Trouble>,
    /// Where commands find the proxy. Its socket comes along, and after it the one on which is told what was
    /// ended for its memory.
    pub proxy: Option<u16>,
}

/// A part of the sandbox that a kernel may not have, or may not give to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A file system, processes and a network of their own.
    Namespaces,
    /// Landlock.
    Landlock,
    /// Landlock's rule on signals, where there is no namespace of processes.
    Signals,
    /// The filter of system calls.
    Seccomp,
}

/// Why a sandbox could not be built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// The part that is missing.
    pub part: Part,
    /// What was being done.
    pub step: String,
    /// What the system said.
    pub error: String,
}

impl Part {
    /// The name by which a person agrees to do without it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
            Self::Signals => "signals",
            Self::Seccomp => "seccomp",
        }
    }

    /// What is lost where a person does without it.
    pub fn without(self) -> &'static str {
        match self {
            Self::Namespaces => {
                "commands then share the machine's processes and network stack, may open no socket at all, change control \
                 files in the roots, and change modes and times of files outside them."
            }
            Self::Landlock => "the second layer that keeps writes inside the roots is then missing.",
            Self::Signals => "commands may then send signals to other processes of this user.",
            Self::Seccomp => "the filter of system calls is then missing.",
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
