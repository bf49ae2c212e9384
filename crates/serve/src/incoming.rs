//! The messages of a client: parses lines, refuses invalid messages, and passes the others on in their order.

use std::sync::Arc;

use rmcp::model::{ClientJsonRpcMessage, ErrorCode, GetExtensions as _, JsonRpcMessage};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::{
    batch::{self, Batch},
    in_flight::InFlight,
    input::Input,
    lines::{LONGEST_LINE, Line, Lines},
    message::{self, Message, Refusal, understand},
};

/// Longer lines than this are parsed beside the reactor.
const LONG: usize = 64 * 1024;

/// The task that reads.
pub(crate) struct Reader {
    in_flight: Arc<InFlight>,
    to_rmcp: mpsc::Sender<ClientJsonRpcMessage>,
    // Weak, so that the writer ends with the server and not with the input.
    outbox: mpsc::WeakSender<Vec<u8>>,
}

/// The signal to stop reading.
struct Over;

/// The messages of one line.
enum Parsed {
    /// The line is empty.
    Nothing,
    One(Message),
    Batch(Vec<Value>),
    Refused(Refusal),
}

impl Reader {
    pub(crate) fn new(
        in_flight: Arc<InFlight>,
        to_rmcp: mpsc::Sender<ClientJsonRpcMessage>,
        outbox: mpsc::WeakSender<Vec<u8>>,
    ) -> Self {
        Self { in_flight, to_rmcp, outbox }
    }

    /// Reads until the input ends or the server has.
    pub(crate) async fn read(&self, mut input: Input) {
        let mut lines = Lines::new(LONGEST_LINE);
        loop {
            let bytes = tokio::select! {
                bytes = input.read() => bytes,
                () = self.to_rmcp.closed() => return,
            };
            let mut bytes = match bytes {
                Ok([]) => break,
                Ok(bytes) => bytes,
                Err(error) => {
                    tracing::warn!(%error, "the input can't be read any more");
                    break;
                }
            };
            while let Some(line) = lines.next(&mut bytes) {
                if self.line(&line).await.is_err() {
                    return;
                }
            }
        }
        if let Some(line) = lines.rest() {
            let _ = self.line(&line).await;
        }
    }

    async fn line(&self, line: &Line<'_>) -> Result<(), Over> {
        let parsed = match *line {
            Line::TooLong => {
                let what = format!("the line is longer than {} MiB", LONGEST_LINE >> 20);
                Parsed::Refused(Refusal::new(Value::Null, ErrorCode::INVALID_REQUEST, what))
            }
            Line::Whole(bytes) if bytes.len() <= LONG => parse(bytes),
            Line::Whole(bytes) => {
                let bytes = bytes.to_owned();
                tokio::task::spawn_blocking(move || parse(&bytes)).await.map_err(|_| Over)?
            }
        };
        match parsed {
            Parsed::Nothing => Ok(()),
            Parsed::One(message) => self.message(message, None).await,
            Parsed::Batch(members) => self.batch(members).await,
            Parsed::Refused(refusal) => self.refuse(&refusal, None).await,
        }
    }

    async fn batch(&self, members: Vec<Value>) -> Result<(), Over> {
        let what = match members.len() {
            _ if !self.in_flight.are_batches_allowed() => {
                "only revision 2025-03-26 has batches; send one message per line".to_owned()
            }
            0 => "the batch is empty".to_owned(),
            count if count > batch::LONGEST => {
                format!("the batch has {count} messages; send at most {} at once", batch::LONGEST)
            }
            _ => {
                let batch = Arc::new(Batch::new());
                for member in members {
                    self.message(understand(member), Some(&batch)).await?;
                }
                return match batch.leave(None) {
                    Some(line) => self.post(line).await,
                    None => Ok(()),
                };
            }
        };
        self.refuse(&Refusal::new(Value::Null, ErrorCode::INVALID_REQUEST, what), None).await
    }

    async fn message(&self, message: Message, batch: Option<&Arc<Batch>>) -> Result<(), Over> {
        let mut message = match message {
            Message::Good(message) => *message,
            Message::Bad(refusal) => return self.refuse(&refusal, batch).await,
            Message::Nothing => return Ok(()),
        };
        if let JsonRpcMessage::Request(request) = &mut message {
            if !self.in_flight.capacity().await {
                return Err(Over);
            }
            let Some(mut ticket) = self.in_flight.admit(&request.id, batch) else {
                let id = request.id.clone().into_json_value();
                let what = format!("a request with the id {id} is under way");
                return self.refuse(&Refusal::new(id, ErrorCode::INVALID_REQUEST, what), batch).await;
            };
            if let Some(batch) = batch {
                batch.join();
            }
            if request.request.method() == "tools/call" {
                ticket = ticket.in_order();
            }
            request.request.extensions_mut().insert(Arc::new(ticket));
        }
        self.to_rmcp.send(message).await.map_err(|_| Over)
    }

    async fn refuse(&self, refusal: &Refusal, batch: Option<&Arc<Batch>>) -> Result<(), Over> {
        let mut line = refusal.to_json().to_string().into_bytes();
        line.push(b'\n');
        match batch {
            Some(batch) => {
                batch.join();
                // The reader itself is still in the batch, so this is never the last.
                batch.leave(Some(line));
                Ok(())
            }
            None => self.post(line).await,
        }
    }

    async fn post(&self, line: Vec<u8>) -> Result<(), Over> {
        // Refusals wait for the limits too: the client may not be reading them.
        if !self.in_flight.capacity().await {
            return Err(Over);
        }
        let Some(outbox) = self.outbox.upgrade() else { return Err(Over) };
        self.in_flight.queued(line.len());
        outbox.send(line).await.map_err(|_| Over)
    }
}

fn parse(line: &[u8]) -> Parsed {
    match message::json(line) {
        Ok(None) => Parsed::Nothing,
        Ok(Some(Value::Array(members))) => Parsed::Batch(members),
        Ok(Some(value)) => Parsed::One(understand(value)),
        Err(refusal) => Parsed::Refused(refusal),
    }
}
