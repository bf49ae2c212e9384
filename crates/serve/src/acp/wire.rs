//! The two streams of a connection: a thread that reads, a thread that writes, and the requests that wait for the client.
//!
//! Answers of the client are handed over by the reading thread itself, so a tool that waits for one on a blocked thread
//! gets it all the same.

use std::{
    collections::HashMap,
    io::{self, ErrorKind, Read, Write},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rmcp::model::{ErrorCode, RequestId};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::incoming::{Message, understand};
use crate::{
    in_flight::{InFlight, Ticket},
    lines::{LONGEST_LINE, Line, Lines},
    message::{self, Refusal},
    stdio::{Ends, OUTBOX, write},
};

/// A request or notification of the client.
pub(super) enum Incoming {
    Request { id: RequestId, method: String, params: Value, ticket: Ticket },
    Notification { method: String, params: Value },
}

/// Capacity of the queue of incoming messages.
const INBOX: usize = 64;

/// Retry interval of a blocking send while the outbox is full.
const ROOM: Duration = Duration::from_millis(1);

/// The callback for the client's answer; it gets an error when the connection closes.
type Waiting = Box<dyn FnOnce(Result<Value, Value>) + Send>;

/// A connection.
pub(super) struct Opened {
    pub(super) incoming: mpsc::Receiver<Incoming>,
    pub(super) sender: Sender,
    pub(super) ends: Ends,
}

/// The way to the client. Cheap to clone; the output ends with the last clone.
#[derive(Clone)]
pub(super) struct Sender {
    outbox: mpsc::Sender<Vec<u8>>,
    shared: Arc<Shared>,
}

struct Shared {
    in_flight: Arc<InFlight>,
    pending: Mutex<Option<HashMap<i64, Waiting>>>,
    next: AtomicI64,
}

/// Starts reading and writing.
pub(super) fn open(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
) -> io::Result<Opened> {
    let (to_dispatcher, incoming) = mpsc::channel(INBOX);
    let (outbox, to_client) = mpsc::channel(OUTBOX);
    let (written, output_done) = oneshot::channel();
    let in_flight = Arc::new(InFlight::default());
    let pending = Mutex::new(Some(HashMap::new()));
    let shared = Arc::new(Shared { in_flight: in_flight.clone(), pending, next: AtomicI64::new(0) });
    let ends = Ends {
        input: CancellationToken::new(),
        broken: CancellationToken::new(),
        output: output_done,
        in_flight: in_flight.clone(),
    };

    let reader = Reader { shared: shared.clone(), to_dispatcher, outbox: outbox.downgrade() };
    let input_ended = ends.input.clone().drop_guard();
    thread::Builder::new().name("acp-read".to_owned()).spawn(move || {
        reader.read(input);
        reader.shared.give_up();
        drop((reader, input_ended));
    })?;
    let (broken, closed) = (ends.broken.clone(), shared.clone());
    thread::Builder::new().name("acp-write".to_owned()).spawn(move || {
        if let Err(error) = write(to_client, output, &in_flight, None) {
            tracing::info!(%error, "the client has stopped reading");
        }
        broken.cancel();
        in_flight.close();
        closed.give_up();
        // Nobody waits any more when the connection was given up.
        let _ = written.send(());
    })?;
    Ok(Opened { incoming, sender: Sender { outbox, shared }, ends })
}

impl Shared {
    /// No answer will come any more.
    fn give_up(&self) {
        let waiting = self.pending.lock().take();
        for (_, tell) in waiting.into_iter().flatten() {
            tell(Err(gone()));
        }
    }
}

fn gone() -> Value {
    json!({"code": -32603, "message": "the client has gone away"})
}

impl Sender {
    /// Sends a message; false when nobody reads any more.
    pub(super) async fn send(&self, message: &impl Serialize) -> bool {
        let line = line(message);
        self.shared.in_flight.queued(line.len());
        self.outbox.send(line).await.is_ok()
    }

    /// The same without a future: blocks while the outbox is full, for at most `within`.
    pub(super) fn send_blocking(&self, message: &impl Serialize, within: Duration) -> bool {
        let mut line = line(message);
        self.shared.in_flight.queued(line.len());
        let deadline = Instant::now() + within;
        loop {
            line = match self.outbox.try_send(line) {
                Ok(()) => return true,
                Err(mpsc::error::TrySendError::Full(line)) if Instant::now() < deadline => line,
                Err(_) => return false,
            };
            thread::sleep(ROOM);
        }
    }

    /// The same where nothing can be awaited: if the outbox is full, a task sends the message later.
    pub(super) fn send_soon(&self, message: &impl Serialize) {
        let line = line(message);
        self.shared.in_flight.queued(line.len());
        if let Err(mpsc::error::TrySendError::Full(line)) = self.outbox.try_send(line)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let outbox = self.outbox.clone();
            runtime.spawn(async move { outbox.send(line).await });
        }
    }

    /// Answers a request: its id is free again.
    pub(super) async fn answer(&self, id: &RequestId, answer: Result<Value, impl Serialize>) {
        self.shared.in_flight.answered(id);
        let id = id.clone().into_json_value();
        let message = match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        };
        self.send(&message).await;
    }

    /// The id of a request of ours; `tell` gets its answer, on another thread.
    pub(super) fn expect(&self, tell: Waiting) -> i64 {
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        match self.shared.pending.lock().as_mut() {
            Some(pending) => drop(pending.insert(id, tell)),
            None => tell(Err(gone())),
        }
        id
    }

    /// Nobody waits for this answer any more; false when it is there already.
    pub(super) fn forget(&self, id: i64) -> bool {
        self.shared.pending.lock().as_mut().is_some_and(|it| it.remove(&id).is_some())
    }
}

/// The thread that reads.
struct Reader {
    shared: Arc<Shared>,
    to_dispatcher: mpsc::Sender<Incoming>,
    // Weak, so that the writer ends with the connection and not with the input.
    outbox: mpsc::WeakSender<Vec<u8>>,
}

/// There is no use in reading on.
struct Over;

impl Reader {
    fn read(&self, mut input: impl Read) {
        let mut lines = Lines::new(LONGEST_LINE);
        let mut buffer = vec![0; 64 * 1024];
        let mut outcome = Ok(());
        while outcome.is_ok() {
            let bytes = match input.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => buffer.get(..count).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    tracing::warn!(%error, "the input can't be read any more");
                    break;
                }
            };
            lines.take(bytes, |line| {
                if outcome.is_ok() {
                    outcome = self.line(&line);
                }
            });
        }
        if outcome.is_ok()
            && let Some(line) = lines.rest()
        {
            drop(self.line(&line));
        }
    }

    fn line(&self, line: &Line<'_>) -> Result<(), Over> {
        let understood = match line {
            Line::TooLong => {
                let what = format!("the line is longer than {} MiB", LONGEST_LINE >> 20);
                Err(Refusal::new(Value::Null, ErrorCode::INVALID_REQUEST, what))
            }
            Line::Whole(bytes) => match message::json(bytes) {
                Ok(None) => return Ok(()),
                Ok(Some(value)) => understand(value),
                Err(refusal) => Err(refusal),
            },
        };
        match understood {
            Ok(Message::Nothing) => Ok(()),
            Ok(Message::Response { id, result }) => {
                let waiting = self.shared.pending.lock().as_mut().and_then(|it| it.remove(&id));
                if let Some(tell) = waiting {
                    tell(result);
                }
                Ok(())
            }
            Ok(Message::Notification { method, params }) => {
                self.pass(Incoming::Notification { method, params })
            }
            Ok(Message::Request { id, method, params }) => self.request(id, method, params),
            Err(refusal) => self.refuse(&refusal),
        }
    }

    fn request(&self, id: RequestId, method: String, params: Value) -> Result<(), Over> {
        let in_flight = &self.shared.in_flight;
        // Not by waiting: an answer of the client may be what a request under way waits for.
        if in_flight.is_full() {
            let what = "too many requests are under way; wait for some of the answers";
            return self.refuse(&Refusal::new(id.into_json_value(), ErrorCode::INVALID_REQUEST, what));
        }
        let Some(ticket) = in_flight.admit(&id, None) else {
            let id = id.into_json_value();
            let what = format!("a request with the id {id} is under way");
            return self.refuse(&Refusal::new(id, ErrorCode::INVALID_REQUEST, what));
        };
        self.pass(Incoming::Request { id, method, params, ticket })
    }

    fn pass(&self, incoming: Incoming) -> Result<(), Over> {
        self.to_dispatcher.blocking_send(incoming).map_err(|_| Over)
    }

    fn refuse(&self, refusal: &Refusal) -> Result<(), Over> {
        // These wait until the client reads: they too are answers that nobody may be reading.
        if !self.shared.in_flight.wait_until_read() {
            return Err(Over);
        }
        let line = line(&refusal.to_json());
        let Some(outbox) = self.outbox.upgrade() else { return Err(Over) };
        self.shared.in_flight.queued(line.len());
        outbox.blocking_send(line).map_err(|_| Over)
    }
}

fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).unwrap_or_else(|error| {
        let what = format!("the message can't be written as JSON: {error}");
        Refusal::new(Value::Null, ErrorCode::INTERNAL_ERROR, what).to_json().to_string().into_bytes()
    });
    line.push(b'\n');
    line
}
