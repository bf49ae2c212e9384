//! Message transport over the pipes of a server's process.
//!
//! One message per line, over two pipes. haft leaves out lines that are not messages and remembers the first
//! for its notes; an answer that is too long or can't be parsed becomes an error response to its request.

use std::{
    collections::VecDeque,
    future::Future,
    io,
    os::fd::OwnedFd,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use kit::{Fault, Kind, OrFault, escape::visible};
use memchr::memchr;
use parking_lot::Mutex;
use rmcp::{
    RoleClient,
    model::{ClientRequest, JsonRpcMessage, RequestId},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe::{Receiver, Sender},
    time::{Instant, Sleep, sleep_until},
};

/// Limit of a line, in bytes.
const LONGEST: usize = 16 << 20;
/// Bytes per read.
const CHUNK: usize = 64 << 10;
/// Bytes kept of a line that is too long, to find the request that it answers.
const HEAD: usize = 4 << 10;
/// Limit of a shown line that is not a message, in characters.
const SHOWN: usize = 200;
/// Time that a server has to answer `server/discover` before haft takes it for an older one.
const PROBE: Duration = Duration::from_secs(3);

/// haft's ends of the pipes to a server.
pub(super) struct Ends {
    input: Sender,
    output: Receiver,
}

/// Creates the pipes to a server: haft's ends, and the server's with their descriptor numbers.
///
/// # Errors
/// When there are too many open files.
pub(super) fn pipes() -> Result<(Ends, Vec<(i32, OwnedFd)>), Fault> {
    let make = || -> io::Result<_> {
        let (their_input, input) = io::pipe()?;
        let (output, their_output) = io::pipe()?;
        let ends = Ends {
            input: Sender::from_owned_fd(nonblocking(input)?)?,
            output: Receiver::from_owned_fd(nonblocking(output)?)?,
        };
        Ok((ends, vec![(0, their_input.into()), (1, their_output.into())]))
    };
    make().or_fault(Kind::Unavailable, "no pipes to a server can be made")
}

fn nonblocking(end: impl Into<OwnedFd>) -> io::Result<OwnedFd> {
    let end = end.into();
    rustix::io::ioctl_fionbio(&end, true)?;
    Ok(end)
}

/// Records output of a server that is not a message.
#[derive(Default)]
pub(super) struct StrayOutput {
    lines: AtomicU64,
    first: Mutex<Option<String>>,
    was_slow: AtomicBool,
}

impl StrayOutput {
    /// Returns one line about output that is not a message.
    pub(super) fn noise(&self) -> Option<String> {
        let first = self.first.lock().clone()?;
        let lines = self.lines.load(Ordering::Relaxed);
        let lines = if lines == 1 { "1 line".to_owned() } else { format!("{lines} lines") };
        Some(format!("{lines} on its output are not messages and were left out; the first: {first}"))
    }

    /// Returns whether the server did not answer `server/discover` in time.
    pub(super) fn was_slow(&self) -> bool {
        self.was_slow.load(Ordering::Relaxed)
    }

    fn no_message(&self, line: &[u8], why: &str) {
        self.lines.fetch_add(1, Ordering::Relaxed);
        let mut first = self.first.lock();
        if first.is_none() {
            let shown = String::from_utf8_lossy(line.get(..SHOWN).unwrap_or(line)).into_owned();
            *first = Some(format!("{}{why}", visible(shown.trim_end()).0));
        }
    }
}

/// The transport to a server, as rmcp uses it.
pub(super) struct Wire {
    output: Receiver,
    input: Arc<tokio::sync::Mutex<Option<Sender>>>,
    stray: Arc<StrayOutput>,
    chunk: Box<[u8]>,
    /// The incomplete line read so far.
    line: Vec<u8>,
    /// Whether the line is too long; its head stays.
    is_too_long: bool,
    ready: VecDeque<RxJsonRpcMessage<RoleClient>>,
    probe: Option<Probe>,
}

/// A `server/discover` request, which an older server may not know.
struct Probe {
    id: RequestId,
    until: Pin<Box<Sleep>>,
    /// Whether haft gave it up: it drops a late answer.
    is_over: bool,
}

impl Wire {
    pub(super) fn new(ends: Ends, stray: Arc<StrayOutput>) -> Self {
        Self {
            output: ends.output,
            input: Arc::new(tokio::sync::Mutex::new(Some(ends.input))),
            stray,
            chunk: vec![0; CHUNK].into(),
            line: Vec::new(),
            is_too_long: false,
            ready: VecDeque::new(),
            probe: None,
        }
    }

    /// Splits what was read into lines, and parses them as messages.
    fn take(&mut self, read: usize) {
        let chunk = std::mem::take(&mut self.chunk);
        let mut rest = chunk.get(..read).unwrap_or_default();
        while let Some(end) = memchr(b'\n', rest) {
            let (line, after) = rest.split_at(end);
            self.add(line);
            self.end_line();
            rest = after.get(1..).unwrap_or_default();
        }
        self.add(rest);
        self.chunk = chunk;
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.is_too_long {
            return;
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() > LONGEST {
            self.is_too_long = true;
            self.line.truncate(HEAD);
            self.line.shrink_to_fit();
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_too_long) {
            let why = format!("a line of more than {} MiB", LONGEST >> 20);
            self.stray.no_message(&line, &format!("… ({why})"));
            self.fails(id_in(&line), &format!("its answer is {why}, and was not read"));
            return;
        }
        let text = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line).trim_ascii();
        if text.is_empty() {
            return;
        }
        // Revision 2025-03-26 allowed several messages in a line.
        if text.starts_with(b"[")
            && let Ok(several) = serde_json::from_slice::<Vec<Value>>(text)
        {
            several.iter().for_each(|it| self.message(it.to_string().as_bytes()));
            return;
        }
        self.message(text);
    }

    fn message(&mut self, text: &[u8]) {
        match serde_json::from_slice::<RxJsonRpcMessage<RoleClient>>(text) {
            Ok(message) => self.take_message(message),
            Err(error) => {
                let value = serde_json::from_slice::<Value>(text).ok();
                let is_answer = match &value {
                    Some(value) => value.get("result").is_some() || value.get("error").is_some(),
                    // JSON that is nested too deeply to parse; its head is enough.
                    None => text.starts_with(b"{") && memchr::memmem::find(text, b"\"result\"").is_some(),
                };
                if value.as_ref().is_some_and(|it| it.get("method").is_some() && it.get("id").is_none()) {
                    // An unknown notification is harmless.
                    return;
                }
                self.stray.no_message(text, "");
                if is_answer {
                    let id = value.as_ref().map_or_else(|| id_in(text), |it| id(it.get("id")));
                    self.fails(id, &format!("its answer is none that MCP has: {error}"));
                }
            }
        }
    }

    fn take_message(&mut self, message: RxJsonRpcMessage<RoleClient>) {
        let id = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let (Some(id), Some(probe)) = (id, &self.probe)
            && probe.id == *id
        {
            let is_over = probe.is_over;
            self.probe = None;
            if is_over {
                return;
            }
        }
        self.ready.push_back(message);
    }

    /// Answers the request of this id with an error, so that it does not wait forever.
    fn fails(&mut self, id: Option<Value>, why: &str) {
        let Some(id) = id else { return };
        let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": why}});
        if let Ok(message) = serde_json::from_value(error) {
            self.take_message(message);
        }
    }

    /// Gives up the probe: haft takes the server for an older one.
    fn give_up_probe(&mut self) {
        let Some(probe) = &mut self.probe else { return };
        probe.is_over = true;
        self.stray.was_slow.store(true, Ordering::Relaxed);
        let error = json!({
            "jsonrpc": "2.0", "id": probe.id,
            "error": {"code": -32601, "message": "server/discover was not answered in time"},
        });
        if let Ok(message) = serde_json::from_value(error) {
            self.ready.push_back(message);
        }
    }
}

impl Transport<RoleClient> for Wire {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &item
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
        {
            let until = Box::pin(sleep_until(Instant::now() + PROBE));
            self.probe = Some(Probe { id: request.id.clone(), until, is_over: false });
        }
        let input = self.input.clone();
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let mut input = input.lock().await;
            let Some(input) = input.as_mut() else { return Err(io::ErrorKind::BrokenPipe.into()) };
            input.write_all(&line).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            let read = match &mut self.probe {
                Some(probe) if !probe.is_over => tokio::select! {
                    biased;
                    read = self.output.read(&mut self.chunk) => Some(read),
                    () = probe.until.as_mut() => None,
                },
                _ => Some(self.output.read(&mut self.chunk).await),
            };
            match read {
                None => self.give_up_probe(),
                Some(Ok(read @ 1..)) => self.take(read),
                Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Some(Ok(0) | Err(_)) => return None,
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        // A server that does not read its input must not block haft.
        if let Ok(mut input) = self.input.try_lock() {
            input.take();
        }
        Ok(())
    }
}

/// Returns the id of a request that a message answers, if it is a valid id.
fn id(value: Option<&Value>) -> Option<Value> {
    value.filter(|it| it.is_u64() || it.is_i64() || it.is_string()).cloned()
}

/// Returns the id of the request that a message answers, from its head.
fn id_in(head: &[u8]) -> Option<Value> {
    let head = head.get(..HEAD).unwrap_or(head);
    let at = memchr::memmem::find(head, b"\"id\"")?;
    let rest = head.get(at + 4..)?.trim_ascii_start().strip_prefix(b":")?;
    serde_json::Deserializer::from_slice(rest)
        .into_iter::<Value>()
        .next()?
        .ok()
        .filter(|it| id(Some(it)).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_id_is_found_in_the_head_of_an_answer() {
        for (head, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"#, Some(json!(7))),
            (r#"{"jsonrpc": "2.0", "id" : "a b", "resu"#, Some(json!("a b"))),
            (r#"{"id":{"x":1},"result":"#, None),
            (r#"{"result":{"content":[]"#, None),
        ] {
            assert_eq!(id_in(head.as_bytes()), expected, "{head}");
        }
    }
}
