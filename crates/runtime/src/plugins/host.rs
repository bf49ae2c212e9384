//! Requests to a process that runs a Python file.
//!
//! The protocol is one JSON value per line over a socket; `host/host.py` is at the other end. A token begins
//! each message. haft drops bytes before it, which a tool has written to the socket itself.

mod link;
mod messages;

use std::{
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kit::{
    Cx, Fault, Kind, OrFault,
    procs::{
        Ending, Exit, Process, Procs, Program, Recording, Stdin,
        script::{framed, python, sockets},
    },
    spans,
};
use serde::Serialize;
use tokio::{
    net::UnixStream,
    sync::{RwLock, RwLockReadGuard, oneshot},
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument as _;

pub(super) use self::messages::HostMessage;
use self::{
    link::{Link, Waiter, attend},
    messages::{First, Stop, line},
};
use super::{compiled::Compiled, interpreter};

/// The oldest Python 3 that can run the script.
pub(super) const OLDEST: u8 = 8;
/// The code that loads the script.
const BOOT: &str = include_str!("boot.py");
/// The host script: its parts share one set of globals.
const SCRIPT: [&str; 13] = [
    include_str!("host/wire.py"),
    include_str!("host/faults.py"),
    include_str!("host/signature.py"),
    include_str!("host/navi.py"),
    include_str!("host/terrarium.py"),
    include_str!("host/channels.py"),
    include_str!("host/agents.py"),
    include_str!("host/shims.py"),
    include_str!("host/results.py"),
    include_str!("host/questions.py"),
    include_str!("host/formats.py"),
    include_str!("host/describe.py"),
    include_str!("host/host.py"),
];
/// Returns the version of the script: another version may read files in another way.
pub(super) fn version() -> String {
    let mut hasher = blake3::Hasher::new();
    for part in SCRIPT {
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex().chars().take(16).collect()
}

/// Time that a process has to stop a request by itself, and then to end: the answer is promised within 200
/// ms.
const OBEY: Duration = Duration::from_millis(100);
const GO: Duration = Duration::from_millis(50);
/// Time that processes that a call left running have to end.
const LEAVE: Duration = Duration::from_millis(50);

/// A process that runs the host script. Dropping this ends it, with all that it started.
pub(super) struct Host {
    link: Arc<Link>,
    process: Arc<Process>,
    /// Each call holds it shared; ending left processes takes it exclusively.
    calls: RwLock<()>,
    /// Marks the processes that the import started, which stay; unset before the import.
    mark: OnceLock<u64>,
    /// Whether processes that calls started may be running.
    has_left: AtomicBool,
    _wanted: DropGuard,
}

/// The purpose of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    /// It runs calls of one file.
    Serve,
    /// It describes files.
    Describe,
}

/// A request under way. Dropping it before there is an answer stops it: by a message, and if that has no
/// effect, by ending the process.
pub(super) struct Asked {
    host: Arc<Host>,
    id: u64,
    /// None after the answer.
    answer: Option<oneshot::Receiver<Result<HostMessage, Lost>>>,
}

/// The reason why no answer will come.
#[derive(Debug, Clone)]
pub(super) struct Lost {
    /// Why the process is gone.
    pub(super) why: Why,
    /// Whether the process may have begun the request.
    pub(super) begun: bool,
    /// The number of other requests that it may have begun.
    pub(super) others: usize,
}

/// The reason why a process is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Why {
    /// It ended by itself.
    Exited(Exit),
    /// It closed its socket.
    Closed,
    /// Its output on the socket is not a message.
    Garbled(String),
    /// haft ended it because the request with this id was stopped or took too long.
    For(u64),
    /// haft ended it because nothing needs it.
    Unneeded,
}

impl Host {
    /// Returns its process.
    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    /// Starts the host with the first of these interpreters that exists, and returns that interpreter's name.
    /// `file` is the file that it runs, if it is for one file.
    pub(super) async fn start_with_any<'a>(
        procs: &Procs,
        names: &'a [String],
        workspace: &Path,
        (mode, file): (Mode, Option<&Path>),
        compiled: impl Fn(&str) -> Compiled,
    ) -> Result<(&'a str, Arc<Self>), Fault> {
        for name in names {
            match Self::start(procs, name, workspace, (mode, file), compiled(name)).await {
                Err(fault) if fault.kind == Kind::NotFound => {}
                host => return Ok((name, Arc::new(host?))),
            }
        }
        Err(interpreter::none(names))
    }

    /// Starts the host with this interpreter, in this folder. It may not be ready when this returns.
    async fn start(
        procs: &Procs,
        interpreter: &str,
        folder: &Path,
        (mode, file): (Mode, Option<&Path>),
        compiled: Compiled,
    ) -> Result<Self, Fault> {
        let (ours, theirs) = sockets().or_fault(Kind::Unavailable, "a socket can't be made")?;
        ours.set_nonblocking(true).or_fault(Kind::Unavailable, "a socket can't be made")?;
        let stream = UnixStream::from_std(ours).or_fault(Kind::Unavailable, "a socket can't be used")?;
        let program =
            Program { cwd: folder.to_owned(), ..python(interpreter, OLDEST, "host", theirs, Stdin::Null) };
        let span = spans::PluginProcess::begin(file, Some(interpreter));
        let process = Arc::new(procs.start(program).instrument(span.span()).await?);
        let token = token()?;
        let mut first = framed(BOOT);
        first.extend(compiled.pieces());
        first.extend(framed(&SCRIPT.concat()));
        first.extend(line(&First { token: &token, mode, keep: compiled.is_stored() })?);
        let link = Link::new(stream, token, compiled);
        // If the process is gone, the next request reports it.
        let _ = link.send(&mut link.state.lock(), &first);
        let dropped = CancellationToken::new();
        let attending = attend(link.clone(), process.clone(), dropped.clone());
        tokio::spawn(async move { attending.instrument(span.span()).await });
        let (calls, mark, has_left) = Default::default();
        Ok(Self { link, process, calls, mark, has_left, _wanted: dropped.drop_guard() })
    }

    /// Sends a request for the call of `cx`. `request` builds it from its id and from whether the process is
    /// to report when it begins. The first request has the id 0, which its answer may leave out.
    ///
    /// # Errors
    /// When the process is gone.
    pub(super) fn ask<T: Serialize>(
        self: &Arc<Self>,
        cx: Option<&Cx>,
        request: impl FnOnce(u64, bool) -> T,
    ) -> Result<Asked, Lost> {
        let (to, answer) = oneshot::channel();
        let mut state = self.link.state.lock();
        let id = state.next;
        state.next += 1;
        // A request that arrives while others run may have to wait.
        let begun = state.waiting.is_empty();
        let bytes = line(&request(id, !begun)).unwrap_or_default();
        self.link.send(&mut state, &bytes).map_err(|why| Lost { why, begun: false, others: 0 })?;
        state.waiting.insert(id, Waiter { answer: to, cx: cx.cloned(), begun });
        Ok(Asked { host: self.clone(), id, answer: Some(answer) })
    }

    /// Marks all present processes as started by the import: they are not leftovers of calls.
    pub(super) async fn imported(&self) {
        // There is one import, so the first mark stays.
        let _ = self.mark.set(self.process.mark().await);
    }

    /// Returns a guard that a running call holds.
    pub(super) async fn call(&self) -> RwLockReadGuard<'_, ()> {
        self.calls.read().await
    }

    /// Ends the processes that calls left running, once no other call runs here. `started` says whether the
    /// finished call may have started any.
    pub(super) async fn end_left(&self, started: bool) {
        if started {
            self.has_left.store(true, Ordering::Relaxed);
        }
        if !self.has_left.load(Ordering::Relaxed) {
            return;
        }
        // The last of several calls does it.
        let (Ok(_alone), Some(mark)) = (self.calls.try_write(), self.mark.get()) else { return };
        self.has_left.store(false, Ordering::Relaxed);
        self.process.end(Ending { grace: LEAVE, spare: Some(*mark) }).await;
    }

    /// Tells the process to stop the request with this id, or to drop its generator.
    pub(super) fn tell_to_stop(&self, id: u64) {
        if let Ok(bytes) = line(&Stop { op: "cancel", id }) {
            // A process that is gone has stopped.
            let _ = self.link.send(&mut self.link.state.lock(), &bytes);
        }
    }

    /// Returns whether the process is gone, or about to be.
    pub(super) fn is_gone(&self) -> bool {
        self.link.state.lock().gone.is_some()
    }

    /// Returns the output of the process, stdout and stderr.
    pub(super) fn printed(&self) -> &Arc<Recording> {
        self.process.output()
    }

    /// Ends the process at once because of the request with this id. All other open requests get that as the
    /// reason.
    async fn end_for(self: Arc<Self>, id: u64) {
        self.link.over(Why::For(id));
        self.process.end(Ending::NOW).await;
    }
}

impl Asked {
    /// Returns the request's id.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Waits for the answer. May be awaited again after a cancellation.
    pub(super) async fn answer(&mut self) -> Result<HostMessage, Lost> {
        let gone = Lost { why: Why::Unneeded, begun: true, others: 0 };
        let Some(answer) = &mut self.answer else { return Err(gone) };
        let said = answer.await.unwrap_or(Err(gone));
        self.answer = None;
        said
    }

    /// Stops the request: by a message, and if there is no answer soon, by ending the process. Returns the
    /// answer, if one arrived.
    pub(super) async fn stop(mut self) -> Option<HostMessage> {
        self.host.tell_to_stop(self.id);
        match timeout(OBEY, self.answer()).await {
            Ok(said) => said.ok(),
            Err(_) => {
                self.answer = None;
                // The task goes on if this future is dropped.
                let ending = tokio::spawn(self.host.clone().end_for(self.id));
                let _ = timeout(GO, ending).await;
                None
            }
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let (Some(mut answer), Ok(tokio)) = (self.answer.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        if answer.try_recv().is_ok() {
            return;
        }
        self.host.tell_to_stop(self.id);
        let (host, id) = (self.host.clone(), self.id);
        tokio.spawn(async move {
            if timeout(OBEY, answer).await.is_err() {
                host.end_for(id).await;
            }
        });
    }
}

fn token() -> Result<String, Fault> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).or_fault(Kind::Unavailable, "there are no random numbers to be had")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
