//! MCP over stdio: a reader, a writer thread, and backpressure between them.
//!
//! The reader parses lines, and refuses invalid messages. rmcp gets the valid ones, one at a time. Where the input
//! can be read without waiting, that happens in the task that takes the messages: a client that lets its model think
//! finds sleeping threads, and each one between its request and the answer takes time to wake. Elsewhere (a file, a
//! terminal) a thread reads. Another thread writes what the client does not take at once.

use std::{
    fs::File,
    future::Future,
    io::{self, ErrorKind, Read, Write},
    sync::Arc,
    thread,
    time::Duration,
};

use rmcp::{
    RoleServer,
    model::{
        ClientJsonRpcMessage, ClientNotification, ErrorCode, JsonRpcMessage, ProtocolVersion,
        ServerJsonRpcMessage, ServerResult,
    },
    transport::Transport,
};
use serde_json::Value;
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use crate::{
    direct::Direct,
    in_flight::InFlight,
    input::Input,
    message::{Refusal, begins},
    reader::{Here, Inbox, Reader},
};

/// How many answers may wait for the writing thread.
pub(crate) const OUTBOX: usize = 64;

/// Time without a message after which memory that only the start needed is given back.
const REST: Duration = Duration::from_secs(1);

/// Signals for the end of the two streams.
pub(crate) struct Ends {
    /// Cancelled when the input has ended.
    pub(crate) input: CancellationToken,
    /// Cancelled when the output can't be written any more.
    pub(crate) broken: CancellationToken,
    /// Resolves when everything was written, or nothing more can be.
    pub(crate) output: oneshot::Receiver<()>,
}

/// The transport of one client: its messages, and the channel for answers.
pub(crate) struct Wire {
    inbox: Inbox,
    outbox: Option<mpsc::Sender<Vec<u8>>>,
    in_flight: Arc<InFlight>,
    broken: CancellationToken,
    direct: Option<Arc<Direct>>,
    begun: bool,
    /// Whether the client has left it alone for a while since it began.
    rested: bool,
}

/// Takes standard input and output for the protocol alone: prints to fd 1 go to standard error from now on,
/// and reads of fd 0 find the end of the file.
pub(crate) fn private() -> io::Result<(File, File)> {
    // Not 0, 1 or 2, and closed on exec.
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((input.into(), output.into()))
}

/// Where the lines of a client come from.
pub(crate) enum Source {
    /// A stream that a thread reads.
    Thread(Box<dyn Read + Send>),
    /// An input that is read without waiting.
    Here(Input),
}

/// Starts the reader and the writer. With `direct`, answers that the client takes at once are written without the
/// latter.
pub(crate) fn open(
    source: Source,
    output: impl Write + Send + 'static,
    direct: Option<Direct>,
) -> io::Result<(Wire, Ends)> {
    let (outbox, to_client) = mpsc::channel(OUTBOX);
    let (written, output_done) = oneshot::channel();
    let in_flight = Arc::new(InFlight::default());
    let ends =
        Ends { input: CancellationToken::new(), broken: CancellationToken::new(), output: output_done };

    let reader = Reader { in_flight: Arc::clone(&in_flight) };
    let input_ended = ends.input.clone().drop_guard();
    let inbox = match source {
        Source::Here(input) => Inbox::Here(Box::new(Here::new(input, input_ended, reader))),
        Source::Thread(input) => {
            // One message at a time: the rest stays in the pipe until rmcp takes it.
            let (to_rmcp, inbox) = mpsc::channel(1);
            let outbox = outbox.downgrade();
            thread::Builder::new().name("mcp-read".to_owned()).spawn(move || {
                reader.read(input, &to_rmcp, &outbox);
                drop(input_ended);
            })?;
            Inbox::Thread(inbox)
        }
    };
    let direct = direct.map(Arc::new);
    let wire = Wire {
        inbox,
        outbox: Some(outbox),
        in_flight: Arc::clone(&in_flight),
        broken: ends.broken.clone(),
        direct: direct.clone(),
        begun: false,
        rested: false,
    };
    let broken = ends.broken.clone();
    thread::Builder::new().name("mcp-write".to_owned()).spawn(move || {
        if let Err(error) = write(to_client, output, &in_flight, direct.as_deref()) {
            tracing::info!(%error, "the client has stopped reading");
        }
        broken.cancel();
        in_flight.close();
        // The receiver is gone if the server was abandoned.
        let _ = written.send(());
    })?;
    Ok((wire, ends))
}

impl Transport<RoleServer> for Wire {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let line = self.line(&message);
        let outbox = self.outbox.clone();
        if let (Some(line), Some(_)) = (&line, &outbox) {
            self.in_flight.queued(line.len());
        }
        let (direct, in_flight) = (self.direct.clone(), self.in_flight.clone());
        async move {
            if let (Some(direct), Some(line), Some(outbox)) = (direct, &line, &outbox) {
                let is_next = || in_flight.unsent() == line.len();
                let rest = |left: &[u8]| outbox.try_send(left.to_vec()).is_ok();
                if let Some(written) = direct.write(line, is_next, rest) {
                    in_flight.sent(written);
                    return Ok(());
                }
            }
            let sent = match (outbox, line) {
                (Some(outbox), Some(line)) => outbox.send(line).await.is_ok(),
                (outbox, None) => outbox.is_some(),
                (None, Some(_)) => false,
            };
            if sent { Ok(()) } else { Err(ErrorKind::BrokenPipe.into()) }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let message = tokio::select! {
                biased;
                () = self.broken.cancelled() => None,
                message = self.inbox.next(self.outbox.as_ref()) => message,
                () = sleep(REST), if self.begun && !self.rested => {
                    self.rested = true;
                    kit::memory::give_back();
                    kit::memory::forget_start();
                    continue;
                }
            }?;
            match &message {
                JsonRpcMessage::Request(request) => self.begun |= begins(&request.request),
                _ if !self.begun => {
                    tracing::debug!("ignoring a message that came before the conversation began");
                    continue;
                }
                JsonRpcMessage::Notification(notification) => self.note(&notification.notification),
                JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
            }
            return Some(message);
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.outbox = None;
        self.inbox.close();
        self.in_flight.close();
        Ok(())
    }
}

impl Wire {
    /// Returns the bytes to write now: none for an answer that completes no batch yet.
    fn line(&self, message: &ServerJsonRpcMessage) -> Option<Vec<u8>> {
        let batch = match message {
            JsonRpcMessage::Response(response) => {
                if let ServerResult::InitializeResult(agreed) = &response.result {
                    self.in_flight.allow_batches(agreed.protocol_version == ProtocolVersion::V_2025_03_26);
                }
                self.in_flight.answered(&response.id)
            }
            JsonRpcMessage::Error(error) => error.id.as_ref().and_then(|id| self.in_flight.answered(id)),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let line = line(message);
        match batch {
            Some(batch) => batch.leave(Some(line)),
            None => Some(line),
        }
    }

    fn note(&self, notification: &ClientNotification) {
        let ClientNotification::CancelledNotification(cancelled) = notification else { return };
        let batch = cancelled.params.request_id.as_ref().and_then(|id| self.in_flight.cancelled(id));
        // The others of its batch may have waited for this one.
        if let Some(line) = batch.and_then(|batch| batch.leave(None))
            && let Some(outbox) = self.outbox.clone()
        {
            self.in_flight.queued(line.len());
            tokio::spawn(async move { outbox.send(line).await });
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.in_flight.close();
    }
}

/// The thread that writes: everything that waits in as few writes as it takes.
pub(crate) fn write(
    mut lines: mpsc::Receiver<Vec<u8>>,
    mut output: impl Write,
    in_flight: &InFlight,
    direct: Option<&Direct>,
) -> io::Result<()> {
    const TOGETHER: usize = 64 * 1024;
    while let Some(mut bytes) = lines.blocking_recv() {
        while bytes.len() < TOGETHER
            && let Ok(more) = lines.try_recv()
        {
            bytes.extend_from_slice(&more);
        }
        {
            let _turn = direct.map(Direct::turn);
            output.write_all(&bytes)?;
            output.flush()?;
        }
        in_flight.sent(bytes.len());
    }
    Ok(())
}

fn line(message: &ServerJsonRpcMessage) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).unwrap_or_else(|error| {
        let id = match message {
            JsonRpcMessage::Response(response) => response.id.clone().into_json_value(),
            _ => Value::Null,
        };
        let what = format!("the answer can't be written as JSON: {error}");
        Refusal::new(id, ErrorCode::INTERNAL_ERROR, what).to_json().to_string().into_bytes()
    });
    line.push(b'\n');
    line
}
