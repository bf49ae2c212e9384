//! Guarded processes: nothing outlives the session that started it.
//!
//! A process is started by a *keeper*: a small process of our own binary which lives in
//! the session's sandbox and starts each command below a *supervisor* of its own. The
//! supervisor adopts whatever the command leaves behind, so the whole tree can be ended,
//! and it ends by itself when we do.

mod async_pipe;
mod client;
mod control;
mod input;
#[cfg(target_os = "linux")]
mod keeper;
pub mod keys;
#[cfg(target_os = "linux")]
mod listening;
mod process;
mod recording;
mod refusal;
mod screen;
pub mod script;
mod signal;
#[cfg(target_os = "linux")]
mod start;
#[cfg(target_os = "linux")]
mod supervisor;
#[cfg(target_os = "linux")]
mod tree;
mod wire;

use std::{future::Future, os::fd::OwnedFd, path::PathBuf, pin::Pin, sync::Arc};

pub use client::{Base, Keeper, WeakKeeper};
pub use control::Life;
#[cfg(target_os = "linux")]
pub use keeper::{Looked, Orders, Tick};
pub use process::{Ending, Exit, Left, Process};
pub use recording::{Recording, Slice, SpillFile, SpillSpace, Spilling, plain_text};
pub use screen::Screen;
pub use signal::signal_name;
pub use wire::Limit;

use crate::{Fault, Kind, OrFault};

/// What the sandbox does in each command before it begins.
pub type Inside<'a> = &'a dyn Fn() -> std::io::Result<()>;

/// What to start.
#[derive(Debug)]
pub struct Program {
    /// The program, looked up in the child's `PATH` unless it has a slash, and its arguments.
    pub argv: Vec<String>,
    /// Where it starts: an absolute path.
    pub cwd: PathBuf,
    /// Variables on top of the session's short list.
    pub env: Vec<(String, String)>,
    /// What it reads.
    pub stdin: Stdin,
    /// Where it writes.
    pub streams: Streams,
    /// More open files: as which descriptor the child has each.
    pub files: Vec<(i32, OwnedFd)>,
}

/// What a process reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: it is at the end of its input.
    Null,
    /// What is written with [`Process::write`].
    Pipe,
}

/// Where a process writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// Output and errors go into one recording, in the order in which they were written.
    Together,
    /// Errors have a recording of their own.
    Apart,
    /// Input and output are the descriptors 0 and 1 of [`Program::files`]; what is recorded are the errors.
    Given,
    /// A terminal is all three; [`Stdin`] is not looked at.
    Terminal {
        /// Its height in rows.
        rows: u16,
        /// Its width in columns.
        cols: u16,
    },
}

/// What the processes of one call are started with. Cheap to clone.
#[derive(Clone)]
pub struct Procs {
    spawner: Arc<dyn Spawner>,
}

/// Where processes run: what a session keeps for all its calls.
pub trait Spawner: Send + Sync {
    /// Starts a program there.
    fn start(&self, program: Program) -> Starting<'_>;

    /// What of the failure of a command the sandbox may be to blame for: one line for each rule,
    /// which names it and says how to ask for more.
    fn denials(&self, exit: Exit, output: &str) -> Vec<String>;

    /// Where a long output goes.
    fn spilling(&self) -> Option<Arc<dyn Spilling>> {
        None
    }
}

/// A process that is being started.
pub type Starting<'a> = Pin<Box<dyn Future<Output = Result<Process, Fault>> + Send + 'a>>;

impl Procs {
    /// Processes of this ground.
    pub fn new(spawner: Arc<dyn Spawner>) -> Self {
        Self { spawner }
    }

    /// Starts a program; it ends, with all it started, when the [`Process`] is dropped.
    ///
    /// # Errors
    /// [`Kind::Denied`] when this call declared no command,
    /// [`Kind::NotFound`] when there is no such program or folder,
    /// [`Kind::Unavailable`] when the sandbox can't be built.
    pub async fn start(&self, program: Program) -> Result<Process, Fault> {
        self.spawner.start(program).await
    }

    /// Records what comes out of a pipe, as it is done for a process: for output that a process which was
    /// started earlier writes.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when it can't be read.
    pub fn record(&self, pipe: OwnedFd) -> Result<Arc<Recording>, Fault> {
        Recording::reading(pipe, self.spawner.spilling())
            .or_fault(Kind::Unavailable, "the output can't be read")
    }

    /// A recording for an output that comes from somewhere else, another machine for instance; the whole of it is kept
    /// where that of processes is.
    pub fn recording(&self) -> Recording {
        Recording::new(self.spawner.spilling())
    }

    /// What of the failure of a command the sandbox may be to blame for, one line each.
    pub fn denials(&self, exit: Exit, output: &str) -> Vec<String> {
        self.spawner.denials(exit, output)
    }
}
