//! The reader of a client's messages: bytes become lines, lines become messages, invalid ones are refused.

use std::{
    collections::VecDeque,
    io::{ErrorKind, Read},
    sync::Arc,
};

use rmcp::model::{ClientJsonRpcMessage, ErrorCode, GetExtensions as _, JsonRpcMessage};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

use crate::{
    batch::{self, Batch},
    in_flight::InFlight,
    input::Input,
    lines::{LONGEST_LINE, Line, Lines},
    message::{self, Message, Refusal, understand},
};

/// The most bytes that are read at once.
const AT_ONCE: usize = 64 * 1024;

/// The messages of a client, one at a time.
pub(crate) enum Inbox {
    /// From a thread that reads.
    Thread(mpsc::Receiver<ClientJsonRpcMessage>),
    /// From the input itself.
    Here(Box<Here>),
}

impl Inbox {
    /// Returns the next message; none after the last. Nothing is lost if this is dropped before it is done.
    pub(crate) async fn next(
        &mut self,
        outbox: Option<&mpsc::Sender<Vec<u8>>>,
    ) -> Option<ClientJsonRpcMessage> {
        match self {
            Self::Thread(inbox) => inbox.recv().await,
            Self::Here(here) => here.next(outbox?).await,
        }
    }

    pub(crate) fn close(&mut self) {
        match self {
            Self::Thread(inbox) => inbox.close(),
            Self::Here(here) => {
                here.steps.clear();
                here.input = None;
            }
        }
    }
}

/// An input that is read by whoever takes its messages.
pub(crate) struct Here {
    /// With what is cancelled at its end.
    input: Option<(Input, DropGuard)>,
    reader: Reader,
    lines: Lines,
    buffer: Vec<u8>,
    /// The steps that were read, and not taken yet.
    steps: VecDeque<Step>,
}

impl Here {
    pub(crate) fn new(input: Input, ended: DropGuard, reader: Reader) -> Self {
        Self {
            input: Some((input, ended)),
            reader,
            lines: Lines::new(LONGEST_LINE),
            buffer: vec![0; AT_ONCE],
            steps: VecDeque::new(),
        }
    }

    async fn next(&mut self, outbox: &mpsc::Sender<Vec<u8>>) -> Option<ClientJsonRpcMessage> {
        loop {
            while let Some(step) = self.steps.front() {
                if step.waits() && !self.reader.in_flight.capacity().await {
                    return None;
                }
                // Reserved before the step is taken: whoever waits for this may give up.
                let place = if step.is_answer() { Some(outbox.reserve().await.ok()?) } else { None };
                let step = self.steps.pop_front()?;
                let taken = self.reader.take(step, &mut self.steps);
                if let Some(Taken::Message(message)) = taken {
                    return Some(*message);
                }
                if let (Some(Taken::Answer(line)), Some(place)) = (taken, place) {
                    self.reader.in_flight.queued(line.len());
                    place.send(line);
                }
            }
            let (input, _) = self.input.as_ref()?;
            let steps = &mut self.steps;
            match input.read(&mut self.buffer).await {
                Ok(0) => {
                    self.lines.end(|line| steps.extend(step(&line)));
                    self.input = None;
                }
                Ok(count) => {
                    let bytes = self.buffer.get(..count).unwrap_or_default();
                    self.lines.take(bytes, |line| steps.extend(step(&line)));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!(%error, "the input can't be read any more");
                    self.input = None;
                }
            }
        }
    }
}

/// Turns lines into messages, within the limits of what is under way.
pub(crate) struct Reader {
    pub(crate) in_flight: Arc<InFlight>,
}

/// A part of the input that was understood, and not taken yet.
enum Step {
    Message(Box<ClientJsonRpcMessage>, Option<Arc<Batch>>),
    Refusal(Refusal, Option<Arc<Batch>>),
    /// The members of a batch. Whether there may be any depends on what was agreed before.
    Members(Vec<Value>),
    /// All members of a batch were taken.
    Complete(Arc<Batch>),
    /// A line for the client.
    Answer(Vec<u8>),
}

/// The outcome of a step.
enum Taken {
    Message(Box<ClientJsonRpcMessage>),
    /// An answer without rmcp.
    Answer(Vec<u8>),
}

impl Step {
    fn of(message: Message, batch: Option<&Arc<Batch>>) -> Option<Self> {
        match message {
            Message::Good(message) => Some(Self::Message(message, batch.cloned())),
            Message::Bad(refusal) => Some(Self::Refusal(refusal, batch.cloned())),
            Message::Nothing => None,
        }
    }

    /// Returns whether it may be taken only while there is capacity. Refusals wait for the limits as well: the client
    /// may not be reading them. Notifications don't: they cancel what fills it.
    fn waits(&self) -> bool {
        match self {
            Self::Message(message, _) => matches!(**message, JsonRpcMessage::Request(_)),
            Self::Refusal(_, batch) => batch.is_none(),
            Self::Answer(_) => true,
            Self::Members(_) | Self::Complete(_) => false,
        }
    }

    /// Returns whether it is answered here.
    fn is_answer(&self) -> bool {
        matches!(self, Self::Answer(_) | Self::Refusal(_, None))
    }
}

impl Reader {
    /// Reads to the end, on a thread.
    pub(crate) fn read(
        &self,
        mut input: impl Read,
        to_rmcp: &mpsc::Sender<ClientJsonRpcMessage>,
        // Weak, so that the writer ends with the server and not with the input.
        outbox: &mpsc::WeakSender<Vec<u8>>,
    ) {
        let mut lines = Lines::new(LONGEST_LINE);
        let mut buffer = vec![0; AT_ONCE];
        let mut is_open = true;
        let mut take = |line: &Line<'_>| {
            is_open = is_open && self.pass(step(line), to_rmcp, outbox);
            is_open
        };
        let mut goes_on = true;
        while goes_on {
            let bytes = match input.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => buffer.get(..count).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    tracing::warn!(%error, "the input can't be read any more");
                    break;
                }
            };
            lines.take(bytes, |line| goes_on = take(&line));
        }
        lines.end(|line| {
            take(&line);
        });
    }

    /// Passes a step on, and those that it leads to, each once there is capacity. False: nobody takes more.
    fn pass(
        &self,
        step: Option<Step>,
        to_rmcp: &mpsc::Sender<ClientJsonRpcMessage>,
        outbox: &mpsc::WeakSender<Vec<u8>>,
    ) -> bool {
        let mut steps = VecDeque::from_iter(step);
        while let Some(step) = steps.pop_front() {
            if step.waits() && !self.in_flight.wait_for_capacity() {
                return false;
            }
            let is_passed = match self.take(step, &mut steps) {
                Some(Taken::Message(message)) => to_rmcp.blocking_send(*message).is_ok(),
                Some(Taken::Answer(line)) => {
                    let Some(outbox) = outbox.upgrade() else { return false };
                    self.in_flight.queued(line.len());
                    outbox.blocking_send(line).is_ok()
                }
                None => true,
            };
            if !is_passed {
                return false;
            }
        }
        true
    }

    /// Takes a step. What is to be taken before all others comes to the front of `steps`.
    fn take(&self, step: Step, steps: &mut VecDeque<Step>) -> Option<Taken> {
        match step {
            Step::Message(message, batch) => return self.message(message, batch, steps),
            Step::Answer(line) => return Some(Taken::Answer(line)),
            Step::Refusal(refusal, None) => return Some(Taken::Answer(refusal_line(&refusal))),
            Step::Refusal(refusal, Some(batch)) => {
                batch.join();
                // The reader itself is still in the batch, so this is never the last.
                batch.leave(Some(refusal_line(&refusal)));
            }
            Step::Members(members) => self.members(members, steps),
            Step::Complete(batch) => {
                if let Some(line) = batch.leave(None) {
                    steps.push_front(Step::Answer(line));
                }
            }
        }
        None
    }

    fn members(&self, members: Vec<Value>, steps: &mut VecDeque<Step>) {
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
                steps.push_front(Step::Complete(Arc::clone(&batch)));
                for member in members.into_iter().rev() {
                    if let Some(step) = Step::of(understand(member), Some(&batch)) {
                        steps.push_front(step);
                    }
                }
                return;
            }
        };
        steps.push_front(Step::Refusal(Refusal::new(Value::Null, ErrorCode::INVALID_REQUEST, what), None));
    }

    fn message(
        &self,
        mut message: Box<ClientJsonRpcMessage>,
        batch: Option<Arc<Batch>>,
        steps: &mut VecDeque<Step>,
    ) -> Option<Taken> {
        if let JsonRpcMessage::Request(request) = &mut *message {
            let Some(mut ticket) = self.in_flight.admit(&request.id, batch.as_ref()) else {
                let id = request.id.clone().into_json_value();
                let what = format!("a request with the id {id} is under way");
                let refusal = Refusal::new(id, ErrorCode::INVALID_REQUEST, what);
                steps.push_front(Step::Refusal(refusal, batch));
                return None;
            };
            if let Some(batch) = batch {
                batch.join();
            }
            if request.request.method() == "tools/call" {
                ticket = ticket.in_order();
            }
            request.request.extensions_mut().insert(Arc::new(ticket));
        }
        Some(Taken::Message(message))
    }
}

/// Returns what a line is; nothing for an empty one.
fn step(line: &Line<'_>) -> Option<Step> {
    let refusal = match line {
        Line::TooLong => {
            let what = format!("the line is longer than {} MiB", LONGEST_LINE >> 20);
            Refusal::new(Value::Null, ErrorCode::INVALID_REQUEST, what)
        }
        Line::Whole(bytes) => match message::json(bytes) {
            Ok(Some(Value::Array(members))) => return Some(Step::Members(members)),
            Ok(value) => return Step::of(understand(value?), None),
            Err(refusal) => refusal,
        },
    };
    Some(Step::Refusal(refusal, None))
}

fn refusal_line(refusal: &Refusal) -> Vec<u8> {
    let mut line = refusal.to_json().to_string().into_bytes();
    line.push(b'\n');
    line
}
