//! A started process: its state, its output, its end.

use std::{any::Any, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::{Life, Recording, control::Control, input::Input, wire::Order};
use crate::{Fault, Kind};

/// How long a supervisor may take for what needs no waiting.
const ANSWER: Duration = Duration::from_secs(5);
/// How long a tree may take to go after it was killed, before its supervisor is given up.
const KILL: Duration = Duration::from_secs(8);

/// A process that was started, and everything it started in turn. Dropping it ends them all.
pub struct Process {
    pid: u32,
    supervisor: Option<u32>,
    output: Arc<Recording>,
    errors: Option<Arc<Recording>>,
    input: Option<Input>,
    control: Control,
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
    /// Leave the process itself, and end only what it started since this mark was made by
    /// [`Process::mark`].
    pub spare: Option<u64>,
}

/// What is left of a tree whose first process has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Each process: its id and its command line, shortened. At most 100 of them.
    pub processes: Vec<(u32, String)>,
    /// The TCP ports that they listen on.
    pub ports: Vec<u16>,
}

impl Process {
    pub(super) fn new(
        pid: u32,
        supervisor: Option<u32>,
        output: Arc<Recording>,
        errors: Option<Arc<Recording>>,
        input: Option<Input>,
        control: Control,
    ) -> Self {
        Self { pid, supervisor, output, errors, input, control }
    }

    /// The same, with something that is dropped once nothing is left of it and of all it started.
    #[must_use]
    pub fn holding(self, held: impl Any + Send + Sync) -> Self {
        self.control.hold(Box::new(held));
        self
    }

    /// Whether anything may be left of it and of all it started.
    pub fn life(&self) -> Life {
        self.control.life().clone()
    }

    /// Its id where it runs, which in a sandbox is not its id outside.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The id, as we see it, of the process that it and all it starts descend from, for as long as any of them lives.
    pub fn supervisor(&self) -> Option<u32> {
        self.supervisor
    }

    /// What it wrote; with [`Streams::Together`](super::Streams::Together) its errors too.
    pub fn output(&self) -> &Arc<Recording> {
        &self.output
    }

    /// Its errors, where they are kept apart.
    pub fn errors(&self) -> Option<&Arc<Recording>> {
        self.errors.as_ref()
    }

    /// Waits until the process itself has ended, whatever still holds its pipes. May be called by many,
    /// and again.
    pub async fn exited(&self) -> Exit {
        self.control.exited().await
    }

    /// Waits until it has ended, and then until its pipes are empty, but no longer than `drain`: a child
    /// that it left behind may hold them for ever.
    pub async fn finished(&self, drain: Duration) -> Exit {
        let exit = self.exited().await;
        let all = async {
            self.output.over().await;
            if let Some(errors) = &self.errors {
                errors.over().await;
            }
        };
        let _ = tokio::time::timeout(drain, all).await;
        exit
    }

    /// How it ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        self.control.exit()
    }

    /// Ends it and everything it started; gives how many processes had to be ended. Waits until they are gone,
    /// but not for ever: what the kernel does not let go of is left to the keeper.
    pub async fn end(&self, ending: Ending) -> usize {
        let grace_ms = u64::try_from(ending.grace.as_millis()).unwrap_or(u64::MAX);
        let order = Order::End { grace_ms, spare: ending.spare };
        match self.control.ask(order, ending.grace.saturating_add(KILL)).await {
            Some(answer) => {
                if ending.spare.is_none() {
                    self.control.life().end();
                }
                answer.value as usize
            }
            None if self.control.is_gone() => 0,
            None => {
                self.control.give_up().await;
                1
            }
        }
    }

    /// Remembers what it has started until now, for [`Ending::spare`]. The newest eight marks are good; with an older
    /// one, all that it started is ended.
    pub async fn mark(&self) -> u64 {
        // Marks count from 1: what there was before no mark is nothing.
        self.control.ask(Order::Mark, ANSWER).await.map_or(0, |it| it.value)
    }

    /// What is alive of its tree, without itself, and where that listens.
    pub async fn left(&self) -> Left {
        self.left_of(None).await
    }

    /// The same of what it has started since this mark was made by [`mark`](Self::mark).
    pub async fn left_since(&self, mark: u64) -> Left {
        self.left_of(Some(mark)).await
    }

    async fn left_of(&self, since: Option<u64>) -> Left {
        let Some(answer) = self.control.ask(Order::Left { since }, ANSWER).await else {
            return Left::default();
        };
        let mut left: Left = serde_json::from_slice(&answer.bytes).unwrap_or_default();
        left.processes.retain(|it| it.0 != self.pid);
        left
    }

    /// Writes to its input, or types into its terminal. What it does not read yet is kept, up to 1 MiB, so this
    /// does not wait for it.
    ///
    /// # Errors
    /// When it has no input, has closed it, or has read too little of it.
    pub async fn write(&self, bytes: &[u8]) -> Result<(), Fault> {
        let Some(input) = &self.input else {
            return Err(Fault::new(Kind::Unavailable, "the process was started without an input"));
        };
        input.write(bytes)
    }

    /// Ends its input, once all that was written has been read. In a terminal this is `Ctrl-D`.
    pub fn close_input(&self) {
        if let Some(input) = &self.input {
            input.close();
        }
    }

    /// Changes the size of its terminal, and tells it so.
    ///
    /// # Errors
    /// When it has none, or has ended.
    pub fn resize(&self, rows: u16, cols: u16) -> Result<(), Fault> {
        let Some(terminal) = self.input.as_ref().and_then(Input::terminal) else {
            return Err(Fault::new(Kind::Unavailable, "the process has no terminal"));
        };
        let size = rustix::termios::Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&*terminal, size).map_err(|error| {
            Fault::new(Kind::Unavailable, format!("the terminal can't be resized: {error}")).caused_by(error)
        })
    }

    /// Sends a signal to the process's group.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn signal(&self, signal: i32) -> Result<(), Fault> {
        match self.control.ask(Order::Signal(signal), ANSWER).await {
            Some(answer) if answer.value == 1 => Ok(()),
            _ => Err(Fault::new(
                Kind::Unavailable,
                format!("signal {signal} was not sent: the process has ended"),
            )),
        }
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
