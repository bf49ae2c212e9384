//! The socket to a host: sends requests, reads messages, and passes each to the request that waits for it.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use kit::{
    Cx,
    procs::{Ending, Process},
};
use memchr::{memchr, memmem, memrchr};
use parking_lot::Mutex;
use tokio::{
    io::Interest,
    net::UnixStream,
    sync::{Notify, Semaphore, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    Lost, Why,
    messages::{HostMessage, line},
};
use crate::plugins::{
    compiled::Compiled,
    questions::{self, Question},
};

/// Limit of a line, and of bytes that are not a message.
const LONGEST: usize = (64 << 20) + (1 << 16);
/// Bytes per read.
const CHUNK: usize = 64 << 10;
/// Reads in a row before other tasks run.
const TURNS: usize = 16;
/// Limit of a process's questions that haft answers at the same time.
const QUESTIONS: usize = 16;
/// Limit of waiting questions; haft does not answer further ones.
const MOST_QUESTIONS: usize = 10_000;
/// Time that a process has to end after it closed its socket.
const EXIT: Duration = Duration::from_secs(2);

/// The socket, and the open requests.
pub(super) struct Link {
    stream: UnixStream,
    token: String,
    pub(super) state: Mutex<State>,
    /// Notified when bytes could not be sent at once.
    unsent: Notify,
    /// The number of open questions, and the permits to answer them.
    asked: AtomicUsize,
    answering: Semaphore,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) next: u64,
    pub(super) waiting: HashMap<u64, Waiter>,
    unsent: Vec<u8>,
    pub(super) gone: Option<Why>,
    /// Stores the script's bytecode; taken with the first message, as only that precedes any tool code.
    compiled: Option<Compiled>,
}

/// An open request.
pub(super) struct Waiter {
    pub(super) answer: oneshot::Sender<Result<HostMessage, Lost>>,
    /// The call: it gets progress, and the tool's questions are answered on its behalf.
    pub(super) cx: Option<Cx>,
    /// Whether the process may have begun the request.
    pub(super) begun: bool,
}

/// Handles the messages of the process until it is gone, then ends all that is left of it.
pub(super) async fn attend(link: Arc<Link>, process: Arc<Process>, dropped: CancellationToken) {
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
    /// Creates the link over this socket. `compiled` stores the script's bytecode.
    pub(super) fn new(stream: UnixStream, token: String, compiled: Compiled) -> Arc<Self> {
        let state = State { compiled: Some(compiled), ..State::default() };
        Arc::new(Self {
            stream,
            token,
            state: Mutex::new(state),
            unsent: Notify::new(),
            asked: AtomicUsize::new(0),
            answering: Semaphore::new(QUESTIONS),
        })
    }

    /// Sends bytes, and queues those that can't be sent at once.
    pub(super) fn send(&self, state: &mut State, bytes: &[u8]) -> Result<(), Why> {
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
    pub(super) fn over(&self, why: Why) {
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
