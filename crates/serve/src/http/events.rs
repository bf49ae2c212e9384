//! Event replay for clients whose connection broke.
//!
//! rmcp's own buffer drops an answer as soon as it was sent, even if no client received it.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::stream;
use rmcp::{
    model::JsonRpcMessage,
    transport::{
        common::server_side_http::ServerSseMessage,
        streamable_http_server::session::{EventId, EventStore, EventStoreError, EventStream},
    },
};
use tokio::sync::watch;

/// Maximum number of stored events per session.
const EVENTS: usize = 64;

/// Maximum size of stored events, in bytes; the newest one is always stored.
const BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of streams; above it, streams without stored events are dropped.
const STREAMS: usize = 1024;

/// The newest events of one session.
pub(super) struct Events {
    stored: Mutex<StoredEvent>,
    /// Number of events so far.
    count: watch::Sender<u64>,
}

#[derive(Default)]
struct StoredEvent {
    events: VecDeque<Event>,
    bytes: usize,
    streams: HashMap<String, u64>,
}

struct Event {
    number: u64,
    stream: u64,
    bytes: usize,
    message: ServerSseMessage,
}

impl Events {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { stored: Mutex::default(), count: watch::Sender::new(0) })
    }

    fn stored(&self) -> MutexGuard<'_, StoredEvent> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, stream: &str, event: &ServerSseMessage) -> EventId {
        let bytes = event.message.as_deref().map_or(0, |message| {
            // Its encoded size, which is about its size in memory.
            let mut counter = Counter(0);
            drop(serde_json::to_writer(&mut counter, message));
            counter.0
        });
        let mut stored = self.stored();
        let number = *self.count.borrow() + 1;
        if stored.streams.len() > STREAMS {
            // Mostly streams of requests that the client cancelled.
            let held: HashSet<u64> = stored.events.iter().map(|it| it.stream).collect();
            stored.streams.retain(|_, it| held.contains(it));
        }
        let stream = *stored.streams.entry(stream.to_owned()).or_insert(number);
        let id = format!("{number}.{stream}");
        let mut message = event.clone();
        message.event_id = Some(id.clone());
        // An event without a message only has a number, and is not replayed.
        if event.message.is_some() {
            stored.bytes += bytes;
            stored.events.push_back(Event { number, stream, bytes, message });
        }
        while stored.events.len() > EVENTS || (stored.bytes > BYTES && stored.events.len() > 1) {
            let Some(oldest) = stored.events.pop_front() else { break };
            stored.bytes -= oldest.bytes;
        }
        if is_last(event) {
            stored.streams.retain(|_, it| *it != stream);
        }
        drop(stored);
        self.count.send_replace(number);
        id
    }

    /// Returns the first event of this stream after that one.
    fn after(&self, stream: u64, number: u64) -> Option<(u64, ServerSseMessage)> {
        let stored = self.stored();
        let next = stored.events.iter().find(|it| it.stream == stream && it.number > number);
        next.map(|it| (it.number, it.message.clone()))
    }

    fn is_open(&self, stream: u64) -> bool {
        let stored = self.stored();
        stored.streams.values().any(|it| *it == stream) || stored.events.iter().any(|it| it.stream == stream)
    }
}

/// Returns whether it is an answer, which is the last event of a request's stream.
fn is_last(event: &ServerSseMessage) -> bool {
    matches!(event.message.as_deref(), Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)))
}

impl EventStore for Events {
    fn store_event<'a, 'b, 'c, 'd>(
        &'a self,
        stream: &'b str,
        event: &'c ServerSseMessage,
    ) -> Pin<Box<dyn Future<Output = Result<EventId, EventStoreError>> + Send + 'd>>
    where
        'a: 'd,
        'b: 'd,
        'c: 'd,
        Self: 'd,
    {
        let id = self.keep(stream, event);
        Box::pin(async move { Ok(id) })
    }

    fn replay_events_after<'a, 'b, 'd>(
        &'a self,
        last: &'b str,
    ) -> Pin<Box<dyn Future<Output = Result<EventStream, EventStoreError>> + Send + 'd>>
    where
        'a: 'd,
        'b: 'd,
        Self: 'd,
    {
        let _ = last;
        Box::pin(async { Err("only a session's own events are told again".into()) })
    }
}

/// Returns the events after this one, including future ones, until the answer.
pub(super) fn replay(events: &Arc<Events>, last: &str) -> Option<EventStream> {
    let (number, stream) = last.split_once('.')?;
    let (number, stream): (u64, u64) = (number.parse().ok()?, stream.parse().ok()?);
    if !events.is_open(stream) {
        return None;
    }
    let begin = (Arc::clone(events), events.count.subscribe(), Some(number));
    Some(Box::pin(stream::unfold(begin, move |(events, mut count, from)| async move {
        let from = from?;
        loop {
            // Before the check, so that a later event wakes this.
            count.mark_unchanged();
            if let Some((number, message)) = events.after(stream, from) {
                let next = (!is_last(&message)).then_some(number);
                return Some((message, (events, count, next)));
            }
            if !events.is_open(stream) {
                return None;
            }
            count.changed().await.ok()?;
        }
    })))
}

struct Counter(usize);

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
