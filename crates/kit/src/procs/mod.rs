//! Guarded processes: no process outlives the session that started it.
//!
//! A *keeper* starts each process: a small process of haft's own binary that runs in the session's sandbox
//! and has its *zygote* fork a *supervisor* for each command. The supervisor is the subreaper of its command,
//! so it can kill the whole tree, and it ends by itself when haft does.

mod async_pipe;
mod client;
mod control;
mod input;
#[cfg(target_os = "linux")]
mod keeper;
pub mod keys;
mod lending;
#[cfg(target_os = "linux")]
mod listening;
pub mod preview;
mod process;
mod recording;
mod refusal;
#[cfg(target_os = "linux")]
mod scratch;
mod screen;
pub mod script;
mod signal;
#[cfg(target_os = "linux")]
mod stack;
#[cfg(target_os = "linux")]
mod start;
#[cfg(target_os = "linux")]
mod supervisor;
#[cfg(target_os = "linux")]
mod tree;
mod wire;
#[cfg(target_os = "linux")]
mod zygote;

use std::{
    future::Future,
    os::fd::{BorrowedFd, OwnedFd},
    path::PathBuf,
    pin::Pin,
    sync::Arc,
};

pub use client::{Base, Keeper, WeakKeeper, most_commands};
pub use control::Life;
#[cfg(target_os = "linux")]
pub use keeper::{Looked, Orders, Watch, take_stdin};
pub use lending::Lendable;
pub use process::{Ending, Exit, Left, Process};
pub use recording::{Recording, Slice, SpillFile, SpillSpace, Spilling, plain_text};
#[cfg(target_os = "linux")]
pub use scratch::Allocator;
pub use screen::Screen;
pub use signal::signal_name;
pub use tree::is_suspended;
pub use wire::Limit;

use crate::{Fault, Kind, OrFault};
use preview::Preview;

/// A callback of the sandbox that runs in each command before it begins, in memory that it shares with its
/// supervisor: it may not allocate. For a tracked command it gets the socket over which the listener is sent.
pub type Inside<'a> = &'a dyn Fn(Option<BorrowedFd<'_>>) -> std::io::Result<()>;

/// Counts the changes of a process to the calls for which it works.
pub trait Attribution: Send + Sync {
    /// Counts them to this call until the result is dropped.
    fn during(&self, call: &str) -> During;
}

/// A time in which a process works for a call.
pub type During = Box<dyn std::any::Any + Send + Sync>;

/// A program to start.
#[derive(Debug)]
pub struct Program {
    /// The program, looked up in the child's `PATH` unless it has a slash, and its arguments.
    pub argv: Vec<String>,
    /// Its working directory: an absolute path.
    pub cwd: PathBuf,
    /// Variables on top of the session's short list.
    pub env: Vec<(String, String)>,
    /// Its standard input.
    pub stdin: Stdin,
    /// Its output streams.
    pub streams: Streams,
    /// Further open files, with the descriptor that each has in the child.
    pub files: Vec<(i32, OwnedFd)>,
}

/// The standard input of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// Empty: an end of file.
    Null,
    /// The bytes that [`Process::write`] writes.
    Pipe,
}

/// The output streams of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// stdout and stderr go into one recording, in the order in which they were written.
    Together,
    /// stderr has a recording of its own.
    Apart,
    /// stdin and stdout are the descriptors 0 and 1 of [`Program::files`]; only stderr is recorded.
    Given,
    /// A terminal is all three; [`Stdin`] is ignored.
    Terminal {
        /// Its height in rows.
        rows: u16,
        /// Its width in columns.
        cols: u16,
    },
}

/// Starts the processes of one call. Cheap to clone.
#[derive(Clone)]
pub struct Procs {
    spawner: Arc<dyn Spawner>,
}

/// Starts processes in a session's sandbox, for all its calls.
pub trait Spawner: Send + Sync {
    /// Starts a program.
    fn start(&self, program: Program) -> Starting<'_>;

    /// Returns one line for each rule of the sandbox that may have made a command fail; it names the rule and
    /// says how to ask for more.
    fn denials(&self, exit: Exit, output: &str) -> Vec<String>;

    /// Returns the storage of long outputs, if any.
    fn spilling(&self) -> Option<Arc<dyn Spilling>> {
        None
    }

    /// Returns the id of the call for which it starts them, if it is for one.
    fn call(&self) -> Option<&str> {
        None
    }

    /// Returns a preview: it starts processes that see the roots as they are, and keeps none of their changes.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] where there is none.
    fn preview(&self) -> Result<Preview, Fault> {
        Err(Fault::new(Kind::Unavailable, "commands can't be previewed here"))
    }
}

/// Returns the line about processes that a program left running and haft ended; `None` if it left none.
pub fn left_running(processes: usize) -> Option<String> {
    match processes {
        0 => None,
        1 => Some("[1 process that it left running was ended]".to_owned()),
        _ => Some(format!("[{processes} processes that it left running were ended]")),
    }
}

/// A process that is being started.
pub type Starting<'a> = Pin<Box<dyn Future<Output = Result<Process, Fault>> + Send + 'a>>;

impl Procs {
    /// Creates a handle on this spawner.
    pub fn new(spawner: Arc<dyn Spawner>) -> Self {
        Self { spawner }
    }

    /// Starts a program; it is killed, with everything it started, when the [`Process`] is dropped.
    ///
    /// # Errors
    /// [`Kind::Denied`] when this call declared no command, [`Kind::NotFound`] when the program or folder
    /// does not exist, [`Kind::Unavailable`] when the sandbox can't be built.
    pub async fn start(&self, program: Program) -> Result<Process, Fault> {
        self.spawner.start(program).await
    }

    /// Returns the id of the call for which it starts them, if it is for one.
    pub fn call(&self) -> Option<&str> {
        self.spawner.call()
    }

    /// Counts what a process changes to this call until the result is dropped. For one that was started for
    /// another call, or works for several.
    pub fn during(&self, process: &Process) -> Option<During> {
        Some(process.attribution()?.during(self.call()?))
    }

    /// Returns a preview: it starts processes that see the roots as they are, and keeps none of their changes.
    ///
    /// # Errors
    /// [`Kind::Denied`] when this call declared no command, [`Kind::Unavailable`] where there is no preview.
    pub fn preview(&self) -> Result<Preview, Fault> {
        self.spawner.preview()
    }

    /// Records the output of a pipe as that of a process is recorded: for output of a process that was
    /// started earlier.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when it can't be read.
    pub fn record(&self, pipe: OwnedFd) -> Result<Arc<Recording>, Fault> {
        Recording::reading(pipe, self.spawner.spilling())
            .or_fault(Kind::Unavailable, "the output can't be read")
    }

    /// Creates a recording for output from elsewhere, for instance from another machine; long output is
    /// spilled like that of processes.
    pub fn recording(&self) -> Recording {
        Recording::new(self.spawner.spilling())
    }

    /// Returns one line for each rule of the sandbox that may have made a command fail.
    pub fn denials(&self, exit: Exit, output: &str) -> Vec<String> {
        self.spawner.denials(exit, output)
    }
}
