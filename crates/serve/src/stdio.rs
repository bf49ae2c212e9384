//! MCP over stdio: a task that reads, a thread that writes, and backpressure between them.
//!
//! The task reads and parses lines, and refuses invalid messages. rmcp gets the valid ones, one at a time. Short answers
//! are written where they are made, longer ones by the thread: standard output may be a pipe, a socket, a file or a
//! terminal, and only a blocking write works on all of them without changing a file description that other processes share.

use std::{
    fs::File,
    future::Future,
    io::{self, ErrorKind, Write},
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
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    direct::Direct,
    in_flight::InFlight,
    incoming::Reader,
    input::Input,
    message::{Refusal, begins},
    standard_stream::StandardStream,
};

/// How many answers may wait for the writing thread.
pub(crate) const OUTBOX: usize = 64;

/// Time without a message after which memory that only the start needed is given back.
const REST: Duration = Duration::from_secs(1);

/// Time after the end of the input without a byte that the client takes, after which the answers that are left are lost.
const STALLED: Duration = Duration::from_secs(5);

/// The interval at which haft looks meanwhile whether anything is left.
const LOOK: Duration = Duration::from_millis(200);

/// Signals for the end of the two streams.
pub(crate) struct Ends {
    /// Cancelled when the input has ended.
    pub(crate) input: CancellationToken,
    /// Cancelled when the output can't be written any more.
    pub(crate) broken: CancellationToken,
    /// Resolves when everything was written, or nothing more can be.
    pub(crate) output: oneshot::Receiver<()>,
    pub(crate) in_flight: Arc<InFlight>,
}

impl Ends {
    /// Waits until the client has taken every answer, for as long as it takes some.
    ///
    /// # Errors
    /// When it takes nothing more, and answers are left.
    pub(crate) async fn written(mut self) -> io::Result<()> {
        let (mut unsent, mut moved) = (self.in_flight.unsent(), Instant::now());
        // An error of the channel is a client that has stopped reading: its end of the pipe is closed.
        while timeout(LOOK, &mut self.output).await.is_err() {
            let left = self.in_flight.unsent();
            if left == 0 {
                // Only a call that does not end keeps the output open.
                break;
            }
            if left < unsent {
                moved = Instant::now();
            } else if moved.elapsed() >= STALLED {
                let what =
                    format!("the client took none of the last {left} bytes for {} s", STALLED.as_secs());
                return Err(io::Error::new(ErrorKind::TimedOut, what));
            }
            unsent = left;
        }
        Ok(())
    }
}

/// The transport of one client: its messages, and the channel for answers.
pub(crate) struct Wire {
    inbox: mpsc::Receiver<ClientJsonRpcMessage>,
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
pub(crate) fn private() -> io::Result<(StandardStream, StandardStream)> {
    // Not 0, 1 or 2, and closed on exec.
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((StandardStream::new(input.into()), StandardStream::new(output.into())))
}

/// Starts the task that reads and the thread that writes. With `direct`, short answers are written without the latter.
pub(crate) fn open(
    input: Input,
    output: impl Write + Send + 'static,
    direct: Option<Direct>,
) -> io::Result<(Wire, Ends)> {
    // One message at a time: the rest stays in the pipe until rmcp takes it.
    let (to_rmcp, inbox) = mpsc::channel(1);
    let (outbox, to_client) = mpsc::channel(OUTBOX);
    let (written, output_done) = oneshot::channel();
    let in_flight = Arc::new(InFlight::default());
    let ends = Ends {
        input: CancellationToken::new(),
        broken: CancellationToken::new(),
        output: output_done,
        in_flight: in_flight.clone(),
    };

    let reader = Reader::new(Arc::clone(&in_flight), to_rmcp, outbox.downgrade());
    let input_ended = ends.input.clone().drop_guard();
    tokio::spawn(async move {
        reader.read(input).await;
        drop(input_ended);
    });
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
            if let (Some(direct), Some(line), Some(_)) = (direct, &line, &outbox)
                && direct.write(line, || in_flight.unsent() == line.len())
            {
                in_flight.sent(line.len());
                return Ok(());
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
                message = self.inbox.recv() => message,
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
    /// A blocking write returns after all of its bytes, and progress is counted by writes.
    const PIECE: usize = 16 * 1024;
    while let Some(mut bytes) = lines.blocking_recv() {
        while bytes.len() < TOGETHER
            && let Ok(more) = lines.try_recv()
        {
            bytes.extend_from_slice(&more);
        }
        let _turn = direct.map(Direct::turn);
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let written = match output.write(rest.get(..PIECE).unwrap_or(rest)) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            in_flight.sent(written);
            rest = rest.get(written..).unwrap_or_default();
        }
        output.flush()?;
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
