//! A started process: its state, its output, its end.

use std::{any::Any, io, os::fd::OwnedFd, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::{Attribution, Lendable, Life, Recording, control::Control, input::Input, wire::Order};
use crate::{Fault, Kind};

/// Time limit for a supervisor's answer to an order that needs no waiting.
const ANSWER: Duration = Duration::from_secs(5);
/// Time limit for a killed tree to end, before its supervisor is given up.
const KILL: Duration = Duration::from_secs(8);

/// A started process, and everything it started in turn. Dropping it kills them all.
pub struct Process {
    pid: u32,
    supervisor: Option<u32>,
    output: Arc<Recording>,
    errors: Option<Arc<Recording>>,
    input: Option<Input>,
    control: Control,
    listener: Option<io::Result<OwnedFd>>,
    attribution: Option<Arc<dyn Attribution>>,
}

/// The end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// It was killed by this signal.
    Signal(i32),
    /// Unknown: its supervisor is gone.
    Lost,
}

/// Options for ending a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// Time for it to end by itself after `SIGTERM`.
    pub grace: Duration,
    /// Spares the process itself: ends only what it started since [`Process::mark`] returned this mark.
    pub spare: Option<u64>,
}

/// The processes that are left of a tree whose first process has ended.
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
        Self { pid, supervisor, output, errors, input, control, listener: None, attribution: None }
    }

    /// With the listener of its filter.
    pub(super) fn with_listener(mut self, listener: Option<io::Result<OwnedFd>>) -> Self {
        self.listener = listener;
        self
    }

    /// Takes the listener of the filter that [`Base::track`](super::Base::track) asked for, or why there is
    /// none. As long as it is not answered, the process waits before each change.
    pub fn take_listener(&mut self) -> Option<io::Result<OwnedFd>> {
        self.listener.take()
    }

    /// Counts its changes by this.
    #[must_use]
    pub fn attributed_by(mut self, attribution: Arc<dyn Attribution>) -> Self {
        self.attribution = Some(attribution);
        self
    }

    /// Returns what counts its changes to calls, if it is tracked.
    pub fn attribution(&self) -> Option<&dyn Attribution> {
        self.attribution.as_deref()
    }

    /// With a file that its supervisor can hold while it is quiet.
    #[must_use]
    pub fn lending(self, file: Arc<dyn Lendable>) -> Self {
        self.control.lends(file);
        self
    }

    /// Lets its supervisor hold its files while it is quiet, so that haft needs one open file for it. Not for a process
    /// whose output [`Recording::catch_up`] reads.
    pub fn lend_when_quiet(&self) {
        self.control.lends(Arc::new(self.output.clone()));
        if let Some(errors) = &self.errors {
            self.control.lends(Arc::new(errors.clone()));
        }
        self.control.lend_when_quiet();
    }

    /// Keeps `held` until nothing is left of it and of everything it started.
    #[must_use]
    pub fn holding(self, held: impl Any + Send + Sync) -> Self {
        self.control.hold(Box::new(held));
        self
    }

    /// Returns a handle that says whether anything may be left of it and of everything it started.
    pub fn life(&self) -> Life {
        self.control.life().clone()
    }

    /// Returns its process id inside the sandbox, which is not its id outside.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the process id, outside the sandbox, of its supervisor, as long as that lives.
    pub fn supervisor(&self) -> Option<u32> {
        self.supervisor
    }

    /// Returns its recorded output; with [`Streams::Together`](super::Streams::Together) stderr too.
    pub fn output(&self) -> &Arc<Recording> {
        &self.output
    }

    /// Returns its recorded stderr, if that has a recording of its own.
    pub fn errors(&self) -> Option<&Arc<Recording>> {
        self.errors.as_ref()
    }

    /// Waits until the process itself has ended, even if other processes still hold its pipes. May be called
    /// several times, also at once.
    pub async fn exited(&self) -> Exit {
        self.control.exited().await
    }

    /// Waits until it has ended, and then until its pipes are empty, but no longer than `drain`: a child that
    /// it left behind may hold them for ever.
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

    /// Returns how it ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        self.control.exit()
    }

    /// Ends it and everything it started; returns the number of processes that had to be killed. Waits until
    /// they are gone, for a bounded time: processes that the kernel does not release are left to the keeper.
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

    /// Marks what it has started until now, for [`Ending::spare`]. The newest eight marks are valid; with an
    /// older one, everything that it started is ended.
    pub async fn mark(&self) -> u64 {
        // Marks count from 1: before any mark there is nothing to spare.
        self.control.ask(Order::Mark, ANSWER).await.map_or(0, |it| it.value)
    }

    /// Returns the living processes of its tree, without itself, and their ports.
    pub async fn left(&self) -> Left {
        self.left_of(None).await
    }

    /// Like [`left`](Self::left), for what it has started since [`mark`](Self::mark) returned this mark.
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

    /// Writes to its stdin, or types into its terminal. Up to 1 MiB that it has not read yet is buffered, so
    /// this does not wait for it.
    ///
    /// # Errors
    /// When it has no input, has closed it, or has read too little of it.
    pub async fn write(&self, bytes: &[u8]) -> Result<(), Fault> {
        let Some(input) = &self.input else {
            return Err(Fault::new(Kind::Unavailable, "the process was started without an input"));
        };
        input.write(bytes)
    }

    /// Closes its stdin once everything written has been read. In a terminal this is `Ctrl-D`.
    pub fn close_input(&self) {
        if let Some(input) = &self.input {
            input.close();
        }
    }

    /// Changes the size of its terminal, and notifies it.
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
    /// Returns the exit code that a shell would give: 128 plus the signal's number; -1 if unknown.
    pub fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
            Self::Lost => -1,
        }
    }

    /// Returns whether it exited with code 0.
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

impl Ending {
    /// Immediately.
    pub const NOW: Self = Self { grace: Duration::ZERO, spare: None };

    /// After `SIGTERM`, with this much time to end.
    pub const fn within(grace: Duration) -> Self {
        Self { grace, spare: None }
    }
}
