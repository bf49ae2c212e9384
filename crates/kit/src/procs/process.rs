//! What is known of a process that was started, and how is it ended?

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::Recording;
use crate::Fault;

/// A process that was started, and everything it started in turn. Dropping it ends them all.
pub struct Process {
    output: Arc<Recording>,
    errors: Option<Arc<Recording>>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Nobody knows: its supervisor is gone.
    Lost,
}

/// How a process is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// How long it may take to end by itself after it was asked to (`SIGTERM`).
    pub grace: Duration,
    /// Leave the process itself, and end only what it started since then (an instant of the
    /// supervisor's clock, as [`Process::mark`] gives it).
    pub spare: Option<u64>,
}

/// What is left of a tree whose first process has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Each process: its id and its command line, shortened.
    pub processes: Vec<(u32, String)>,
    /// The ports of this machine that they listen on.
    pub ports: Vec<u16>,
}

impl Process {
    /// What it wrote; with [`Streams::Together`](super::Streams::Together) its errors too.
    pub fn output(&self) -> &Arc<Recording> {
        &self.output
    }

    /// Its errors, where they are kept apart.
    pub fn errors(&self) -> Option<&Arc<Recording>> {
        self.errors.as_ref()
    }
}

impl Exit {
    /// The code a shell would give: 128 and the number of the signal; -1 if it is not known.
    pub fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
            Self::Lost => -1,
        }
    }

    /// Did it end by itself, with code 0?
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

impl Ending {
    /// At once.
    pub const NOW: Self = Self { grace: Duration::ZERO, spare: None };

    /// After asking, with this much time to obey.
    pub const fn within(grace: Duration) -> Self {
        Self { grace, spare: None }
    }
}

impl Process {
    /// Waits until the process itself has ended, whatever still holds its pipes. May be called by many,
    /// and again.
    pub async fn exited(&self) -> Exit {
        std::future::pending().await
    }

    /// Waits until it has ended, and then until its pipes are empty, but no longer than `drain`: a child
    /// that it left behind may hold them for ever.
    pub async fn finished(&self, drain: Duration) -> Exit {
        let _ = drain;
        self.exited().await
    }

    /// How it ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        None
    }

    /// Ends it and everything it started; gives how many processes had to be ended. Waits until they are gone.
    pub async fn end(&self, ending: Ending) -> usize {
        let _ = ending;
        0
    }

    /// An instant of the supervisor's clock, for [`Ending::spare`].
    pub async fn mark(&self) -> u64 {
        0
    }

    /// What is left of its tree, and where that listens.
    pub async fn left(&self) -> Left {
        Left::default()
    }

    /// Writes to its input, or types into its terminal.
    ///
    /// # Errors
    /// When it has no input, or has closed it.
    pub async fn write(&self, bytes: &[u8]) -> Result<(), Fault> {
        let _ = bytes;
        Err(Fault::bug("not built yet"))
    }

    /// Ends its input.
    pub fn close_input(&self) {}

    /// Sends a signal to the process's group.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn signal(&self, signal: i32) -> Result<(), Fault> {
        let _ = signal;
        Err(Fault::bug("not built yet"))
    }
}
