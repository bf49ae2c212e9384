//! What does the operating system enforce on the processes of a session?

mod control;
pub mod denial;
#[cfg(target_os = "linux")]
mod enter;
pub mod environment;
#[cfg(target_os = "linux")]
mod filter;
pub mod layout;
pub mod limits;
pub mod proxy;
#[cfg(target_os = "linux")]
mod ruleset;
pub mod seatbelt;

use std::{
    fmt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde::{Deserialize, Serialize};

use layout::{Mount, What};
use limits::Limits;

/// The first argument of our own binary that makes it a keeper.
pub const KEEPER: &str = "keeper";

/// What a keeper is to be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Whether it is confined at all.
    pub confined: bool,
    /// What commands see.
    pub mounts: Vec<Mount>,
    /// Where temporary files go when there can be no private folder for them.
    pub scratch: Vec<PathBuf>,
    /// What commands may use.
    pub limits: Limits,
    /// Whether commands may make sockets that are named by a path.
    pub unix_sockets: bool,
    /// The parts of the sandbox that a person agreed to do without.
    pub accept_weaker: Vec<String>,
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
    /// The limits on what each process uses.
    Limits,
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
            Self::Limits => "limits",
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed at {}: {}", self.part.name(), self.step, self.error)
    }
}

impl Plan {
    fn accepts(&self, part: Part) -> bool {
        self.accept_weaker.iter().any(|it| it == part.name())
    }

    fn is_root(&self, path: &Path) -> bool {
        self.mounts.iter().any(|mount| mount.at == path && matches!(mount.what, What::Bind { .. }))
    }
}

/// Runs this process as a keeper: takes its orders from the socket that is its descriptor 3, enters the
/// sandbox they describe, and starts what it is told to until that socket closes. To be called before
/// anything else in `main`, while there is one thread.
pub fn keep() -> ExitCode {
    ExitCode::FAILURE
}

pub fn debug_enter(plan: &Plan) -> Result<bool, Trouble> {
    let t = std::time::Instant::now();
    match enter::leave(|| {})? {
        enter::Side::Outside(_) => Ok(false),
        enter::Side::Inside => {
            enter::settle(plan)?;
            let _ = std::fs::write("/tmp/took", format!("{:?}", t.elapsed()));
            Ok(true)
        }
    }
}
