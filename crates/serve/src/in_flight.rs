//! In-flight requests: keeps their order, and limits their number.

use std::{
    collections::{HashMap, hash_map::Entry},
    pin::pin,
    sync::Arc,
};

// Notifying nobody is a system call with the condition variable of the standard library.
use parking_lot::{Condvar, Mutex};
use rmcp::model::RequestId;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::batch::Batch;

/// Limit of requests in flight: at this many, haft reads no more until one is answered.
const REQUESTS: usize = 256;

/// Limit of unsent output, in bytes: at this much, haft reads no more until the client takes some.
const UNSENT: usize = 8 * 1024 * 1024;

/// The requests of one client.
#[derive(Default)]
pub(crate) struct InFlight {
    state: Mutex<State>,
    /// Notified when a request ends, and when the client takes something.
    capacity: Condvar,
    /// Notified then, too, for tasks.
    changed: Notify,
}

#[derive(Default)]
struct State {
    under_way: HashMap<RequestId, OpenRequest>,
    next_number: u64,
    last_call: Option<CancellationToken>,
    unsent: usize,
    batches: bool,
    closed: bool,
}

struct OpenRequest {
    number: u64,
    stage: Stage,
    batch: Option<Arc<Batch>>,
}

enum Stage {
    /// The request is being handled.
    Running,
    /// The answer is on its way to the client.
    Done,
    /// The request is still being handled, and will not be answered.
    Cancelled,
}

/// The handle of a request in flight, held for as long as the request is handled.
pub(crate) struct Ticket {
    in_flight: Arc<InFlight>,
    id: RequestId,
    number: u64,
    before: Option<CancellationToken>,
    entered: CancellationToken,
}

impl InFlight {
    /// Waits until another request may be read. Returns false if no more will be read.
    pub(crate) async fn capacity(&self) -> bool {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let state = self.state.lock();
                if state.closed || (state.under_way.len() < REQUESTS && state.unsent < UNSENT) {
                    return !state.closed;
                }
            }
            changed.await;
        }
    }

    /// Returns whether the maximum number of requests is under way.
    pub(crate) fn is_full(&self) -> bool {
        self.state.lock().under_way.len() >= REQUESTS
    }

    /// Waits until the client has taken what waits for it. False: it never will.
    pub(crate) fn wait_until_read(&self) -> bool {
        let mut state = self.state.lock();
        self.capacity.wait_while(&mut state, |state| !state.closed && state.unsent >= UNSENT);
        !state.closed
    }

    /// Admits a request, unless its id is in use: a client can't distinguish two answers with one id.
    pub(crate) fn admit(self: &Arc<Self>, id: &RequestId, batch: Option<&Arc<Batch>>) -> Option<Ticket> {
        let mut state = self.state.lock();
        let number = state.next_number;
        let Entry::Vacant(vacant) = state.under_way.entry(id.clone()) else { return None };
        vacant.insert(OpenRequest { number, stage: Stage::Running, batch: batch.cloned() });
        state.next_number += 1;
        Some(Ticket {
            in_flight: Arc::clone(self),
            id: id.clone(),
            number,
            before: None,
            entered: CancellationToken::new(),
        })
    }

    /// Marks a request as cancelled by the client. Called when rmcp is notified, so that both agree on
    /// whether there will be an answer. Returns the batch that the request leaves.
    pub(crate) fn cancelled(&self, id: &RequestId) -> Option<Arc<Batch>> {
        let mut state = self.state.lock();
        let request = state.under_way.get_mut(id)?;
        let batch = request.batch.take();
        match request.stage {
            Stage::Running => request.stage = Stage::Cancelled,
            Stage::Done => drop(state.under_way.remove(id)),
            Stage::Cancelled => {}
        }
        self.has_changed();
        batch
    }

    /// Removes an answered request, so that its id is free again. Returns the batch that the request leaves.
    pub(crate) fn answered(&self, id: &RequestId) -> Option<Arc<Batch>> {
        let request = self.state.lock().under_way.remove(id);
        self.has_changed();
        request?.batch
    }

    /// Sets whether the agreed protocol revision has batches.
    pub(crate) fn allow_batches(&self, allowed: bool) {
        self.state.lock().batches = allowed;
    }

    /// Returns whether the agreed protocol revision has batches.
    pub(crate) fn are_batches_allowed(&self) -> bool {
        self.state.lock().batches
    }

    /// Counts `bytes` more that wait for the client to take them.
    pub(crate) fn queued(&self, bytes: usize) {
        self.state.lock().unsent += bytes;
    }

    /// Returns the bytes that wait for the client to take them.
    pub(crate) fn unsent(&self) -> usize {
        self.state.lock().unsent
    }

    /// Counts `bytes` as taken by the client.
    pub(crate) fn sent(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.unsent = state.unsent.saturating_sub(bytes);
        self.has_changed();
    }

    /// Refuses further requests.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.has_changed();
    }

    fn done(&self, id: &RequestId, number: u64) {
        let mut state = self.state.lock();
        let Some(request) = state.under_way.get_mut(id) else { return };
        if request.number != number {
            return;
        }
        match request.stage {
            Stage::Running => request.stage = Stage::Done,
            Stage::Done => {}
            Stage::Cancelled => {
                state.under_way.remove(id);
                self.has_changed();
            }
        }
    }

    fn has_changed(&self) {
        self.capacity.notify_all();
        self.changed.notify_waiters();
    }
}

impl Ticket {
    /// Returns the ticket, ordered after the calls that came earlier.
    pub(crate) fn in_order(mut self) -> Self {
        self.before = self.in_flight.state.lock().last_call.replace(self.entered.clone());
        self
    }

    /// Waits until every earlier call has entered the runtime.
    pub(crate) async fn turn(&self) {
        if let Some(before) = &self.before {
            before.cancelled().await;
        }
    }

    /// Marks this call as entered into the runtime, which admits the next one.
    pub(crate) fn enter(&self) {
        self.entered.cancel();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.entered.cancel();
        self.in_flight.done(&self.id, self.number);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn an_id_is_free_once_it_is_answered() {
        let in_flight = Arc::new(InFlight::default());
        let id = RequestId::Number(1);
        let first = in_flight.admit(&id, None).unwrap();
        assert!(in_flight.admit(&id, None).is_none());
        drop(first);
        assert!(in_flight.admit(&id, None).is_none(), "its answer is not out yet");
        in_flight.answered(&id);
        assert!(in_flight.admit(&id, None).is_some());
    }

    #[test]
    fn a_cancelled_id_is_free_once_nobody_works_on_it() {
        let in_flight = Arc::new(InFlight::default());
        let id = RequestId::Number(1);
        let first = in_flight.admit(&id, None).unwrap();
        in_flight.cancelled(&id);
        assert!(in_flight.admit(&id, None).is_none());
        drop(first);
        let second = in_flight.admit(&id, None).unwrap();
        drop(second);
        in_flight.cancelled(&id);
        assert!(in_flight.admit(&id, None).is_some(), "cancelled between its work and its answer");
    }

    #[tokio::test]
    async fn reading_waits_at_the_limit_until_a_request_is_answered() {
        let in_flight = Arc::new(InFlight::default());
        let tickets: Vec<_> =
            (0..256).map(|number| in_flight.admit(&RequestId::Number(number), None).unwrap()).collect();
        let mut waiting = pin!(in_flight.capacity());
        drop(tickets);
        assert!(waiting.as_mut().now_or_never().is_none(), "no answer is out yet");
        in_flight.answered(&RequestId::Number(7));
        assert_eq!(waiting.now_or_never(), Some(true));
        in_flight.close();
        assert!(!in_flight.capacity().await);
    }
}
