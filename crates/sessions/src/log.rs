//! The log of a session that this process owns: events become numbered rows on the disk, and only then are seen.
//!
//! Whoever reports an event doesn't wait. Events go to the store's queue in the order in which they were reported, so an
//! event is on the disk no later than a row of the transcript or the journal that was queued after it.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    time::Duration,
};

use agent::Observer;
use kit::{Fault, Kind as FaultKind, redact::Secrets};
use parking_lot::Mutex;
use serde_json::json;
use store::{EventRow, Events, Store, Write};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep_until},
};

use crate::{
    compaction::Compaction,
    event::Event,
    streams::{Kind, Streams},
};

/// So many events wait for a disk that takes none; later ones are lost, and counted.
const WAITING: usize = 10_000;

/// How long after a failure it is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The newest rows are kept in memory, at most so many of them,
const RING_ROWS: usize = 256;
/// and about so many bytes.
const RING_BYTES: usize = 64 << 10;

/// The log of one session.
pub struct Log {
    shared: Arc<Shared>,
    store: Store,
    session: Arc<str>,
    secrets: Arc<Secrets>,
    pulse: Arc<Notify>,
}

/// The state that the writer's thread and watchers share with the log. It owns no store: the writer must not be the last owner.
pub(crate) struct Shared {
    state: Mutex<State>,
    compaction: Mutex<Compaction>,
    ring: Mutex<Ring>,
    head: watch::Sender<u64>,
    pulse: Arc<Notify>,
}

#[derive(Default)]
struct State {
    streams: Streams,
    waiting: Vec<Arc<Event>>,
    /// The events that the writer has taken, until they are committed.
    taken: Vec<Arc<Event>>,
    /// Compactions of what an earlier owner left in pieces.
    left: Vec<Write>,
    epoch: Option<u64>,
    is_queued: bool,
    retry: Option<Instant>,
    lost: usize,
    /// Another process owns the session.
    is_over: bool,
}

/// The newest rows, without a gap. None of them is a piece that another row took the place of.
#[derive(Default)]
struct Ring {
    rows: VecDeque<EventRow>,
    bytes: usize,
    /// The highest number of a piece that another row took the place of.
    floor: u64,
}

impl Log {
    /// Returns a log that buffers events until the session [is claimed](Self::claimed). `head` is updated at each commit.
    /// Must be called within a tokio runtime.
    pub(crate) fn new(store: &Store, session: &str, head: watch::Sender<u64>) -> Arc<Self> {
        let pulse = Arc::<Notify>::default();
        let shared = Shared {
            state: Mutex::default(),
            compaction: Mutex::default(),
            ring: Mutex::default(),
            head,
            pulse: pulse.clone(),
        };
        let log = Arc::new(Self {
            shared: Arc::new(shared),
            store: store.clone(),
            session: session.into(),
            secrets: store.stamp().secrets,
            pulse: pulse.clone(),
        });
        tokio::spawn(keep_time(Arc::downgrade(&log), pulse));
        log
    }

    /// Starts to write: this process owns the session under this epoch, with `head` rows. Buffered events follow these rows.
    pub(crate) fn claimed(&self, epoch: u64, head: u64, left: (Compaction, Vec<Write>)) {
        self.shared.head.send_replace(head);
        *self.shared.compaction.lock() = left.0;
        let mut state = self.shared.state.lock();
        state.left = left.1;
        state.epoch = Some(epoch);
        self.queue(&mut state);
    }

    /// Adds an event of the session. Doesn't wait.
    pub fn add(&self, event: impl Into<Event>) {
        let event = event.into();
        let mut rows = Vec::new();
        let mut state = self.shared.state.lock();
        let Some((path, done)) = event.of_agent() else {
            state.streams.end_all(&mut rows);
            rows.push(event);
            return self.push(&mut state, rows);
        };
        match Kind::of(done) {
            Some(kind) => {
                let piece = done.clone();
                state.streams.add(&path, kind, piece, &self.secrets, &mut rows);
                if rows.is_empty() {
                    self.pulse.notify_one();
                }
            }
            None => {
                state.streams.end_texts(&path, &mut rows);
                rows.push(event);
            }
        }
        self.push(&mut state, rows);
    }

    /// Queues what was kept back for a moment.
    pub(crate) fn end_texts(&self) {
        let mut rows = Vec::new();
        let mut state = self.shared.state.lock();
        state.streams.end_all(&mut rows);
        self.push(&mut state, rows);
    }

    /// Waits until all that was added is on the disk.
    ///
    /// # Errors
    /// When it can't be written.
    pub async fn flush(&self) -> Result<(), Fault> {
        self.end_texts();
        self.store.flush().await?;
        let state = self.shared.state.lock();
        if state.is_over {
            return Err(moved(&self.session));
        }
        // What waits apart from a failure was added meanwhile.
        let is_unclaimed = state.epoch.is_none() && !state.waiting.is_empty();
        match state.retry.is_some() || is_unclaimed {
            false => Ok(()),
            true => Err(Fault::new(FaultKind::Unavailable, "events of the session can't be written")
                .next("See `haft doctor`.")),
        }
    }

    /// The number of the last row on the disk.
    pub fn head(&self) -> u64 {
        *self.shared.head.borrow()
    }

    /// Forgets the newest rows: nobody watches, and nothing happens.
    pub(crate) fn rest(&self) {
        self.shared.ring.lock().clear();
        self.shared.state.lock().waiting.shrink_to_fit();
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns whether another process has taken the session over.
    pub(crate) fn is_over(&self) -> bool {
        self.shared.state.lock().is_over
    }

    fn push(&self, state: &mut State, rows: Vec<Event>) {
        for row in rows {
            if state.waiting.len() >= WAITING {
                state.lost += 1;
                continue;
            }
            state.waiting.push(Arc::new(row));
        }
        self.queue(state);
    }

    /// Queues the writing of what waits. The writer takes all that waits by then.
    fn queue(&self, state: &mut State) {
        let Some(epoch) = state.epoch else { return };
        let nothing = state.waiting.is_empty() && state.left.is_empty();
        if nothing || state.is_queued || state.is_over || state.retry.is_some() {
            return;
        }
        state.is_queued = true;
        let (taking, done) = (self.shared.clone(), self.shared.clone());
        let queued = self.store.events().append(
            &*self.session,
            epoch,
            move |head| taking.take(head),
            move |rows| done.written(rows),
        );
        // The store is closed: nothing can be written any more, and nobody waits for it.
        if let Err(fault) = queued {
            tracing::debug!(%fault, "events are not written");
        }
    }

    fn tick(&self) -> Option<Instant> {
        let mut rows = Vec::new();
        let mut state = self.shared.state.lock();
        state.streams.tick(&self.secrets, &mut rows);
        if state.retry.is_some_and(|at| at <= Instant::now()) {
            state.retry = None;
        }
        self.push(&mut state, rows);
        state.streams.due().into_iter().chain(state.retry).min()
    }
}

impl Observer for Log {
    fn observe(&self, event: agent::Event) {
        self.add(event);
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.pulse.notify_one();
    }
}

/// Writes what was kept back for a moment, and tries again what failed.
async fn keep_time(log: Weak<Log>, pulse: Arc<Notify>) {
    loop {
        let Some(due) = log.upgrade().map(|it| it.tick()) else { return };
        tokio::select! {
            () = pulse.notified() => {}
            () = async { match due { Some(at) => sleep_until(at).await, None => std::future::pending().await } } => {}
        }
    }
}

impl Shared {
    /// Takes the waiting events. Returns the writes for the writer's transaction.
    fn take(&self, head: u64) -> Vec<Write> {
        let mut state = self.state.lock();
        state.is_queued = false;
        if state.lost > 0 {
            let text = format!("{} events are missing here: they could not be written", state.lost);
            state.lost = 0;
            state.waiting.push(Arc::new(agent::Event::Note { text }.into()));
        }
        let events = std::mem::take(&mut state.waiting);
        let mut writes = std::mem::take(&mut state.left);
        state.taken.clone_from(&events);
        drop(state);
        let mut compaction = self.compaction.lock();
        for (seq, event) in (head + 1..).zip(&events) {
            writes.push(Write::Add { body: json!(**event) });
            compaction.see(seq, event, &mut writes);
        }
        // Before anybody can read from the disk that a row took the place of pieces, memory has these no longer: whoever
        // read the one must not go on with the other.
        let last = |it: &Write| match it {
            Write::Compact { pieces, .. } => pieces.last().copied(),
            Write::Add { .. } => None,
        };
        self.ring.lock().keep_after(writes.iter().filter_map(last).max().unwrap_or(0));
        writes
    }

    /// Publishes committed rows. On a fault, retries later, or drops all events if another process owns the session.
    fn written(&self, rows: Result<Vec<EventRow>, Fault>) {
        let mut state = self.state.lock();
        match rows {
            Ok(rows) => {
                state.taken.clear();
                drop(state);
                let Some(last) = rows.last().map(|it| it.seq) else { return };
                self.ring.lock().add(rows);
                self.head.send_replace(last);
            }
            Err(fault) => {
                state.is_queued = false;
                state.is_over = fault.kind == FaultKind::Stale;
                tracing::warn!(%fault, "events are not written");
                if state.is_over {
                    state.taken.clear();
                    state.waiting.clear();
                    return;
                }
                let later = std::mem::take(&mut state.waiting);
                state.waiting = std::mem::take(&mut state.taken);
                state.waiting.extend(later);
                state.retry = Some(Instant::now() + RETRY);
                drop(state);
                self.compaction.lock().forget();
                self.pulse.notify_one();
            }
        }
    }

    /// The rows after this number, where the newest rows reach back so far.
    pub(crate) fn newest(&self, after: u64) -> Option<Vec<EventRow>> {
        let ring = self.ring.lock();
        let first = ring.rows.front()?.seq;
        let skip = usize::try_from(after.checked_sub(first - 1)?).ok()?;
        let rows: Vec<EventRow> = ring.rows.iter().skip(skip).take(PAGE_ROWS).cloned().collect();
        (!rows.is_empty()).then_some(rows)
    }
}

impl Ring {
    fn add(&mut self, rows: Vec<EventRow>) {
        // A batch may be all that was lost to another process meanwhile: what is kept has no gap.
        let follows = |last: &EventRow| rows.first().is_some_and(|it| it.seq == last.seq + 1);
        if !self.rows.back().is_none_or(follows) {
            self.clear();
        }
        for row in rows.into_iter().filter(|it| it.seq > self.floor) {
            self.bytes += row.body.len();
            self.rows.push_back(row);
        }
        while self.rows.len() > RING_ROWS || (self.bytes > RING_BYTES && self.rows.len() > 1) {
            self.drop_first();
        }
    }

    /// Drops the rows up to this number, now and when they come.
    fn keep_after(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
        while self.rows.front().is_some_and(|it| it.seq <= self.floor) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(row) = self.rows.pop_front() {
            self.bytes -= row.body.len();
        }
    }

    fn clear(&mut self) {
        (self.rows, self.bytes) = (VecDeque::new(), 0);
    }
}

/// Another process runs the session.
pub(crate) fn moved(session: &str) -> Fault {
    Fault::new(FaultKind::Stale, format!("another process runs the session `{session}` now"))
        .next("Attach to it again.")
}

/// So many rows are read at once, at most,
const PAGE_ROWS: usize = 256;
/// and about so many bytes.
const PAGE_BYTES: usize = 1 << 20;

/// The store's events, read beside the log.
pub(crate) fn page(events: &Events, session: &str, after: u64) -> Result<Vec<EventRow>, Fault> {
    events.page(session, after, PAGE_ROWS, PAGE_BYTES)
}

/// Returns whether the page is full, so that there may have been more rows.
pub(crate) fn is_full(page: &[EventRow]) -> bool {
    page.len() >= PAGE_ROWS || page.iter().map(|it| it.body.len()).sum::<usize>() >= PAGE_BYTES
}
