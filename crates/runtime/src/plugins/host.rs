//! Requests to a process that runs a Python file.
//!
//! The protocol is one JSON value per line over a socket; `host/host.py` is at the other end. A token begins
//! each message. haft drops bytes before it, which a tool has written to the socket itself.

use std::{
    collections::HashMap,
    io,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
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
use memchr::{memchr, memmem, memrchr};
use parking_lot::Mutex;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use tokio::{
    io::Interest,
    net::UnixStream,
    sync::{Notify, RwLock, RwLockReadGuard, Semaphore, oneshot},
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument as _;

use super::{
    Described,
    compiled::Compiled,
    interpreter,
    questions::{self, Question},
};
use crate::result_parts::Piece;

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

/// Limit of a line, and of bytes that are not a message.
const LONGEST: usize = (64 << 20) + (1 << 16);
/// Bytes per read.
const CHUNK: usize = 64 << 10;
/// Reads in a row before other tasks run.
const TURNS: usize = 16;
/// Time that a process has to stop a request by itself, and then to end: the answer is promised within 200
/// ms.
const OBEY: Duration = Duration::from_millis(100);
const GO: Duration = Duration::from_millis(50);
/// Time that processes that a call left running have to end.
const LEAVE: Duration = Duration::from_millis(50);
/// Limit of a process's questions that haft answers at the same time.
const QUESTIONS: usize = 16;
/// Limit of waiting questions; haft does not answer further ones.
const MOST_QUESTIONS: usize = 10_000;
/// Time that a process has to end after it closed its socket.
const EXIT: Duration = Duration::from_secs(2);

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

/// The socket, and the open requests.
struct Link {
    stream: UnixStream,
    token: String,
    state: Mutex<State>,
    /// Notified when bytes could not be sent at once.
    unsent: Notify,
    /// The number of open questions, and the permits to answer them.
    asked: AtomicUsize,
    answering: Semaphore,
}

#[derive(Default)]
struct State {
    next: u64,
    waiting: HashMap<u64, Waiter>,
    unsent: Vec<u8>,
    gone: Option<Why>,
    /// Stores the script's bytecode; taken with the first message, as only that precedes any tool code.
    compiled: Option<Compiled>,
}

/// An open request.
struct Waiter {
    answer: oneshot::Sender<Result<HostMessage, Lost>>,
    /// The call: it gets progress, and the tool's questions are answered on its behalf.
    cx: Option<Cx>,
    /// Whether the process may have begun the request.
    begun: bool,
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

/// A message of a process.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct HostMessage {
    pub(super) op: String,
    pub(super) id: u64,
    pub(super) ok: bool,
    #[serde(deserialize_with = "filled")]
    pub(super) parts: Vec<Piece>,
    pub(super) structured: Option<Value>,
    pub(super) exit: Option<i32>,
    /// Whether it may have started processes.
    pub(super) started: bool,
    /// Whether this is an intermediate result of a generator, which waits for input.
    pub(super) more: bool,
    #[serde(deserialize_with = "filled")]
    pub(super) notes: Vec<String>,
    #[serde(deserialize_with = "filled")]
    pub(super) error: String,
    #[serde(deserialize_with = "filled")]
    pub(super) traceback: String,
    #[serde(deserialize_with = "filled")]
    pub(super) tools: Vec<Described>,
    pub(super) tool: Option<Described>,
    #[serde(deserialize_with = "filled")]
    pub(super) missing: Vec<String>,
    done: Option<f64>,
    total: Option<f64>,
    #[serde(deserialize_with = "filled")]
    message: String,
    #[serde(deserialize_with = "filled")]
    pub(super) executable: String,
    #[serde(deserialize_with = "filled")]
    compiled_by: String,
    #[serde(deserialize_with = "filled")]
    code: String,
    /// The number that ties an answer to its question.
    number: u64,
    question: Option<Question>,
}

/// Reads `null` as the default value.
fn filled<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

impl Host {
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
        let state = State { compiled: Some(compiled), ..State::default() };
        let link = Arc::new(Link {
            stream,
            token,
            state: Mutex::new(state),
            unsent: Notify::new(),
            asked: AtomicUsize::new(0),
            answering: Semaphore::new(QUESTIONS),
        });
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

#[derive(Serialize)]
struct Stop {
    op: &'static str,
    id: u64,
}

#[derive(Serialize)]
struct First<'a> {
    token: &'a str,
    mode: Mode,
    /// Whether haft wants the script's bytecode, if it had to be compiled.
    keep: bool,
}

/// Encodes a message as a line.
fn line(message: &impl Serialize) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::with_capacity(256);
    serde_json::to_writer(&mut bytes, message).or_fault(Kind::Bug, "a message to a tool can't be written")?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn token() -> Result<String, Fault> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).or_fault(Kind::Unavailable, "there are no random numbers to be had")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Handles the messages of the process until it is gone, then ends all that is left of it.
async fn attend(link: Arc<Link>, process: Arc<Process>, dropped: CancellationToken) {
    let mut buffer = ReadBuffer::default();
    let why = tokio::select! {
        biased;
        () = dropped.cancelled() => Why::Unneeded,
        why = link.receive(&mut buffer) => match why {
            Some(why) => why,
            None => match timeout(EXIT, process.exited()).await {
                Ok(exit) => Why::Exited(exit),
                Err(_) => Why::Closed,
            },
        },
        // A process that it left behind may hold the socket open.
        exit = process.exited() => Why::Exited(exit),
    };
    link.drain(&mut buffer);
    link.over(why);
    process.end(Ending::NOW).await;
}

impl Link {
    /// Sends bytes, and queues those that can't be sent at once.
    fn send(&self, state: &mut State, bytes: &[u8]) -> Result<(), Why> {
        if let Some(why) = &state.gone {
            return Err(why.clone());
        }
        // If the other end is gone, the reading side reports it.
        let sent = if state.unsent.is_empty() { self.stream.try_write(bytes).unwrap_or(0) } else { 0 };
        if let Some(rest) = bytes.get(sent..).filter(|it| !it.is_empty()) {
            state.unsent.extend_from_slice(rest);
            self.unsent.notify_one();
        }
        Ok(())
    }

    fn send_rest(&self) {
        let mut state = self.state.lock();
        while !state.unsent.is_empty() {
            let Ok(sent) = self.stream.try_write(&state.unsent) else { return };
            state.unsent.drain(..sent);
        }
        state.unsent = Vec::new();
    }

    /// Reads messages until there are no more. Returns the reason, or nothing at the end of the stream.
    async fn receive(self: &Arc<Self>, buffer: &mut ReadBuffer) -> Option<Why> {
        loop {
            let all_sent = self.state.lock().unsent.is_empty();
            let interest =
                if all_sent { Interest::READABLE } else { Interest::READABLE | Interest::WRITABLE };
            let ready = tokio::select! {
                biased;
                ready = self.stream.ready(interest) => ready,
                () = self.unsent.notified(), if all_sent => continue,
            };
            let Ok(ready) = ready else { return None };
            if ready.is_writable() {
                self.send_rest();
            }
            if !ready.is_readable() && !ready.is_read_closed() {
                continue;
            }
            for _ in 0..TURNS {
                match self.read(buffer) {
                    Ok(0) => return None,
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => return None,
                }
                if let Err(why) = self.take(buffer) {
                    return Some(Why::Garbled(why));
                }
            }
        }
    }

    fn read(&self, buffer: &mut ReadBuffer) -> io::Result<usize> {
        if buffer.bytes.capacity() - buffer.bytes.len() < CHUNK / 4 {
            buffer.bytes.reserve(CHUNK);
        }
        self.stream.try_read_buf(&mut buffer.bytes)
    }

    /// Reads the rest of a process that has ended: its last answer may be there.
    fn drain(self: &Arc<Self>, buffer: &mut ReadBuffer) {
        while let Ok(1..) = self.read(buffer)
            && self.take(buffer).is_ok()
        {}
    }

    /// Handles the complete lines that were read.
    fn take(self: &Arc<Self>, buffer: &mut ReadBuffer) -> Result<(), String> {
        let Some(last) = memrchr(b'\n', buffer.bytes.get(buffer.searched..).unwrap_or_default()) else {
            buffer.searched = buffer.bytes.len();
            return buffer.check();
        };
        let end = buffer.searched + last + 1;
        let mut rest = buffer.bytes.get(..end).unwrap_or_default();
        while let Some(length) = memchr(b'\n', rest) {
            let (line, after) = rest.split_at(length + 1);
            rest = after;
            match message(line, self.token.as_bytes()) {
                Some(message) => {
                    buffer.junk = 0;
                    self.hand(message)?;
                }
                None => buffer.junk += line.len(),
            }
        }
        buffer.bytes.drain(..end);
        buffer.bytes.shrink_to(CHUNK * 2);
        buffer.searched = buffer.bytes.len();
        buffer.check()
    }

    /// Passes a message to the request that waits for it.
    fn hand(self: &Arc<Self>, message: &[u8]) -> Result<(), String> {
        let said: HostMessage = serde_json::from_slice(message).map_err(|error| {
            let begin = String::from_utf8_lossy(message.get(..200).unwrap_or(message)).into_owned();
            format!("{error}: {}", begin.trim_end())
        })?;
        let mut state = self.state.lock();
        let compiled = state.compiled.take();
        match said.op.as_str() {
            "compiled" => {
                drop(state);
                if let Some(compiled) = compiled {
                    compiled.keep(&said.compiled_by, &said.code);
                }
            }
            "begun" => {
                if let Some(waiter) = state.waiting.get_mut(&said.id) {
                    waiter.begun = true;
                }
            }
            "progress" => {
                let cx = state.waiting.get(&said.id).and_then(|it| it.cx.clone());
                drop(state);
                if let Some(cx) = cx {
                    let progress = &cx.services().progress;
                    progress.report(said.done.unwrap_or_default(), said.total, &said.message);
                }
            }
            "question" => {
                let cx = state.waiting.get(&said.id).and_then(|it| it.cx.clone());
                drop(state);
                self.question(said, cx);
            }
            _ => {
                // The request may have been dropped.
                if let Some(waiter) = state.waiting.remove(&said.id) {
                    drop(state);
                    let _ = waiter.answer.send(Ok(said));
                }
            }
        }
        Ok(())
    }

    /// Answers a question that a tool asks during its call.
    fn question(self: &Arc<Self>, said: HostMessage, cx: Option<Cx>) {
        let link = self.clone();
        // Each thread waits for its answer, so questions are limited by threads; a process that floods haft
        // gets no answers.
        if self.asked.fetch_add(1, Ordering::Relaxed) >= MOST_QUESTIONS {
            self.asked.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        // An agent works for minutes, and its own calls may ask questions: it takes no permit from them.
        if let Some(Question::Agent(task)) = said.question {
            tokio::spawn(async move {
                let answer = questions::reply_of_agent(cx, said.number, task).await;
                let _ = link.send(&mut link.state.lock(), &line(&answer).unwrap_or_default());
                link.asked.fetch_sub(1, Ordering::Relaxed);
            });
            return;
        }
        tokio::spawn(async move {
            let permit = link.answering.acquire().await;
            let answer =
                tokio::task::spawn_blocking(move || questions::reply(cx, said.number, said.question));
            if let Ok(answer) = answer.await {
                // A process that is gone needs no answer.
                let _ = link.send(&mut link.state.lock(), &line(&answer).unwrap_or_default());
            }
            link.asked.fetch_sub(1, Ordering::Relaxed);
            drop(permit);
        });
    }

    /// Fails all open requests: no more answers will come.
    fn over(&self, why: Why) {
        let mut state = self.state.lock();
        let why = state.gone.get_or_insert(why).clone();
        let waiting = std::mem::take(&mut state.waiting);
        state.unsent = Vec::new();
        drop(state);
        let all = waiting.values().filter(|it| it.begun).count();
        for Waiter { answer, begun, .. } in waiting.into_values() {
            // The request may have been dropped.
            let _ = answer.send(Err(Lost { why: why.clone(), begun, others: all - usize::from(begun) }));
        }
    }
}

/// Bytes that were read and not handled yet.
#[derive(Default)]
struct ReadBuffer {
    bytes: Vec<u8>,
    /// There is no line break before this position.
    searched: usize,
    /// The number of bytes since the last message that are not one.
    junk: usize,
}

impl ReadBuffer {
    fn check(&self) -> Result<(), String> {
        if self.bytes.len() + self.junk <= LONGEST {
            return Ok(());
        }
        Err(format!("more than {} MB that are not an answer", LONGEST >> 20))
    }
}

/// Returns the message in a line: the text after the token.
fn message<'a>(line: &'a [u8], token: &[u8]) -> Option<&'a [u8]> {
    let after = match line.strip_prefix(token) {
        Some(after) => after,
        None => line.get(memmem::rfind(line, token)? + token.len()..)?,
    };
    after.strip_prefix(b" ")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_message_begins_after_its_token_whatever_a_tool_wrote_before() {
        assert_eq!(message(b"t0k {}\n", b"t0k").unwrap(), b"{}\n");
        assert_eq!(message(b"junk t0k {}\n", b"t0k").unwrap(), b"{}\n");
        assert_eq!(message(b"t0k t0k {}\n", b"t0k"), Some(b"t0k {}\n".as_slice()));
        assert_eq!(message(b"junk {}\n", b"t0k"), None);
        assert_eq!(message(b"t0k\n", b"t0k"), None);
    }
}
