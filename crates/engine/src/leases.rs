//! The rules of leases, the same for every engine: the fence, takeovers by observation, cancellation.

mod observe;

use std::{
    future::Future,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, future::BoxFuture, stream::BoxStream};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    BlobId, Control, Engine, Error, Event, Key, Lease, Listed, Outcome, Result, Source, State, Status, Stop,
    Update, Work, Worker,
    record::{Holding, Record},
    storage::{Followed, Notified, Storage, pack, unpack},
    work::Route,
};
use observe::Observed;

/// The pause before something is tried again that could not be reached.
const RETRY: Duration = Duration::from_millis(100);

/// An engine on a storage.
pub(crate) struct Leases<S>(Arc<Shared<S>>);

struct Shared<S> {
    storage: Arc<S>,
    lease: Duration,
    observing: AtomicBool,
    /// Whether the fence is checked. Only tests leave it out, to show that they then fail.
    fenced: bool,
}

impl<S: Storage> Leases<S> {
    pub(crate) fn new(storage: S, lease: Duration) -> Self {
        Self::on(storage, lease, true)
    }

    #[cfg(test)]
    pub(crate) fn without_fence(storage: S, lease: Duration) -> Self {
        Self::on(storage, lease, false)
    }

    fn on(storage: S, lease: Duration, fenced: bool) -> Self {
        let shared = Shared { storage: Arc::new(storage), lease, observing: AtomicBool::new(false), fenced };
        Self(Arc::new(shared))
    }

    /// Takes one piece of work, or `None` if it is not to be had.
    #[cfg(test)]
    pub(crate) async fn take_now(&self, key: &Key, worker: &Worker) -> Result<Option<(Work, Lease)>> {
        self.0.take(&key.text(), worker, &random()?).await
    }

    /// Takes work over as if its holder had been observed to be lost.
    #[cfg(test)]
    pub(crate) async fn take_over_now(&self, key: &Key) -> Result<()> {
        let id = key.text();
        match self.0.storage.load(&id).await? {
            Some((record, revision)) => self.0.take_over(&id, &record, revision).await,
            None => Ok(()),
        }
    }

    /// Starts the observer of other workers' leases, once per process.
    fn observe(&self) {
        if !self.0.observing.swap(true, Ordering::Relaxed) {
            tokio::spawn(observe::run(Arc::downgrade(&self.0)));
        }
    }
}

impl<S: Storage> Shared<S> {
    /// Repeats what could not be reached, for the length of a lease.
    async fn patiently<T, F: Future<Output = Result<T>>>(&self, attempt: impl Fn() -> F) -> Result<T> {
        let end = Instant::now() + self.lease;
        loop {
            match attempt().await {
                Err(Error::Unreachable(_)) if Instant::now() < end => sleep(RETRY).await,
                done => return done,
            }
        }
    }

    fn fence(&self, record: &Record, lease: &Lease) -> Result<()> {
        match record.held_by(&lease.claim) {
            Err(why) if self.fenced => Err(Error::Lost { key: lease.key.text(), why }),
            _ => Ok(()),
        }
    }

    /// Returns the record and its revision if the lease still holds it.
    async fn fenced_record(&self, lease: &Lease) -> Result<(Record, u64)> {
        let id = lease.key.text();
        let Some((record, revision)) = self.storage.load(&id).await? else {
            return Err(Error::Lost { key: id, why: "its record was removed".to_owned() });
        };
        self.fence(&record, lease)?;
        Ok((record, revision))
    }

    /// Changes the record through a lease. The change applies to the very revision on which the fence was checked; another's
    /// change in between, such as a request to cancel, leads to another look.
    async fn change(&self, lease: &Lease, change: impl Fn(&Record) -> Record) -> Result<(Record, u64)> {
        if let Some(changed) = self.change_own(lease, &change).await? {
            return Ok(changed);
        }
        loop {
            let (record, revision) = self.fenced_record(lease).await?;
            let next = change(&record);
            if let Some(revision) = self.storage.replace(&lease.key.text(), &next, revision).await? {
                return Ok((next, revision));
            }
        }
    }

    /// Changes the record as this holder wrote it last, without a look: the storage compares the revision. Returns `None` if it is
    /// another one by now.
    async fn change_own(
        &self,
        lease: &Lease,
        change: impl Fn(&Record) -> Record,
    ) -> Result<Option<(Record, u64)>> {
        if lease.record.held_by(&lease.claim).is_err() {
            return Ok(None);
        }
        let next = change(&lease.record);
        let revision = self.storage.replace(&lease.key.text(), &next, lease.revision).await?;
        Ok(revision.map(|revision| (next, revision)))
    }

    async fn finish(&self, lease: &Lease, outcome: &Outcome) -> Result<(Record, u64)> {
        let id = lease.key.text();
        let end = |record: &Record| record.ended(outcome.clone(), Some(&lease.claim));
        if let Some(ended) = self.change_own(lease, end).await? {
            return Ok(ended);
        }
        loop {
            if let Some((record, revision)) = self.storage.load(&id).await?
                && record.ended_by(&lease.claim)
            {
                return Ok((record, revision));
            }
            let (record, revision) = self.fenced_record(lease).await?;
            let next = end(&record);
            if let Some(revision) = self.storage.replace(&id, &next, revision).await? {
                return Ok((next, revision));
            }
        }
    }

    async fn append(&self, lease: &Lease, event: &Event) -> Result<(Record, u64)> {
        let id = lease.key.text();
        let (mut record, mut revision) = (lease.record.clone(), lease.revision);
        if lease.ended {
            return Err(Error::Lost { key: id, why: "it has ended".to_owned() });
        }
        loop {
            if self.storage.append(&id, event, revision).await? {
                return Ok((record, revision));
            }
            (record, revision) = self.fenced_record(lease).await?;
        }
    }

    /// Takes one piece of work by this claim, or returns `None` if it is not to be had. Repeating it is safe.
    async fn take(&self, id: &str, worker: &Worker, claim: &str) -> Result<Option<(Work, Lease)>> {
        let (found, work) = tokio::join!(self.storage.load(id), self.storage.work(id));
        let Some((record, revision)) = found? else { return Ok(None) };
        if !record.route.fits(worker) {
            return Ok(None);
        }
        // The sender stores both at once: the task may come a moment later, or never if the sender dies.
        let Some(mut work) = work? else { return Ok(None) };
        let (next, revision) = match record.claimed(&worker.id, claim, self.lease) {
            Some(next) => match self.storage.replace(id, &next, revision).await? {
                Some(revision) => (next, revision),
                None => return Ok(None),
            },
            // The answer to an earlier attempt was lost.
            None if record.held_by(claim).is_ok() => (record, revision),
            None => return Ok(None),
        };
        work.task = unpack(&*self.storage, work.task).await?;
        // Work that nobody lost was never taken before, and has no events.
        let last_event = if next.retries == 0 { 0 } else { self.storage.last_event(id).await? };
        let lease = Lease {
            key: next.key.clone(),
            worker: worker.id.clone(),
            revision,
            retries: next.retries,
            claim: claim.to_owned(),
            record: next,
            next_event: last_event + 1,
            ended: false,
        };
        Ok(Some((work, lease)))
    }

    /// Goes on with a record that stayed at one revision for the length of a lease: its holder is lost, or its offer.
    async fn go_on(&self, id: &str, record: &Record, revision: u64) -> Result<()> {
        match record.holding {
            // Its sender died before it delivered it, or a worker after the delivery.
            Holding::Offered => self.storage.deliver(id, record).await,
            _ => self.take_over(id, record, revision).await,
        }
    }

    /// Takes a record over whose holder was observed to be lost.
    async fn take_over(&self, id: &str, record: &Record, revision: u64) -> Result<()> {
        let Some(next) = record.taken_over() else { return Ok(()) };
        if self.storage.replace(id, &next, revision).await?.is_some() {
            tracing::info!(work = id, state = ?next.holding, "a lease was taken over");
            self.notify(id).await;
            if next.holding == Holding::Offered {
                self.storage.deliver(id, &next).await?;
            }
        }
        Ok(())
    }

    async fn status(&self, record: &Record, revision: u64) -> Result<Status> {
        let mut status = record.status(revision);
        if let State::Ended(Outcome::Done { result, .. }) = &mut status.state {
            *result = unpack(&*self.storage, result.take()).await?;
        }
        Ok(status)
    }

    async fn offer(&self, work: &Work) -> Result<Status> {
        let id = work.key.text();
        let record = Record {
            key: work.key.clone(),
            grain: work.grain,
            route: Route::of(work),
            idempotent: work.idempotent,
            holding: Holding::Offered,
            cancel_requested: false,
            retries: 0,
        };
        let inserted = self.storage.insert(&id, work, &record).await?;
        let (record, revision) = match inserted {
            Some(revision) => (record, revision),
            None => self.storage.load(&id).await?.ok_or_else(|| unknown(&id))?,
        };
        if record.holding == Holding::Offered {
            self.storage.deliver(&id, &record).await?;
        }
        self.status(&record, revision).await
    }

    async fn cancel(&self, key: &Key) -> Result<Status> {
        let id = key.text();
        loop {
            let (record, revision) = self.storage.load(&id).await?.ok_or_else(|| unknown(&id))?;
            let Some(next) = record.cancelled() else { return self.status(&record, revision).await };
            if let Some(revision) = self.storage.replace(&id, &next, revision).await? {
                self.notify(&id).await;
                return self.status(&next, revision).await;
            }
        }
    }

    /// Notifies the holder of a record. A notification that is lost comes late: the holder also loads its record now and then.
    async fn notify(&self, id: &str) {
        if let Err(error) = self.storage.notify(id).await {
            tracing::debug!(work = id, %error, "its holder was not notified");
        }
    }

    /// Waits until the claim must stop. `revision` is the one at which it was the holder: an older record does not count.
    async fn stopped(&self, id: &str, claim: &str, revision: u64) -> Result<Stop> {
        let mut changes = self.storage.changes().await?;
        let pause = self.lease / 4;
        let mut due = Instant::now() + pause;
        let mut is_due = false;
        loop {
            changes.borrow_and_update();
            let found = match is_due {
                true => self.storage.load(id).await.map(Notified::from),
                false => self.storage.notified(id).await,
            };
            match found? {
                Notified::Record(_, seen) if seen < revision => {}
                Notified::Record(record, _) if record.held_by(claim).is_err() => return Ok(Stop::Lost),
                Notified::Record(record, _) if record.cancel_requested => return Ok(Stop::Cancelled),
                Notified::Record(..) => {}
                #[cfg(feature = "nats")]
                Notified::Unchanged => {}
                Notified::Removed => return Ok(Stop::Lost),
            }
            is_due = tokio::select! {
                changed = changes.changed() => match changed {
                    Ok(()) => false,
                    Err(_) => return Err(Error::Unreachable("the engine was closed".to_owned())),
                },
                () = tokio::time::sleep_until(due) => {
                    due = Instant::now() + pause;
                    true
                }
            };
        }
    }
}

fn unknown(id: &str) -> Error {
    Error::Unknown(format!("no work has the key {id}"))
}

pub(crate) fn random() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|it| Error::Refused(format!("no random bytes: {it}")))?;
    Ok(bytes.iter().map(|it| format!("{it:02x}")).collect())
}

#[async_trait::async_trait]
impl<S: Storage> Engine for Leases<S> {
    async fn offer(&self, mut work: Work) -> Result<Status> {
        let task = work.task.take();
        work.task = self.0.patiently(|| pack(&*self.0.storage, task.clone())).await?;
        self.0.patiently(|| self.0.offer(&work)).await
    }

    async fn claim(&self, worker: &Worker) -> Result<Option<(Work, Lease)>> {
        self.observe();
        if self.0.storage.requested(&worker.id).await?.is_some() {
            return Ok(None);
        }
        // Notifications of what it takes are received from now on.
        self.0.storage.changes().await?;
        loop {
            let id = tokio::select! {
                biased;
                control = self.0.storage.controlled(&worker.id) => {
                    control?;
                    return Ok(None);
                }
                id = self.0.storage.next(worker) => id?,
            };
            let claim = random()?;
            if let Some(taken) = self.0.patiently(|| self.0.take(&id, worker, &claim)).await? {
                return Ok(Some(taken));
            }
        }
    }

    async fn begin(&self, lease: &mut Lease) -> Result<()> {
        (lease.record, lease.revision) = self.0.patiently(|| self.0.change(lease, Record::begun)).await?;
        Ok(())
    }

    async fn renew(&self, lease: &mut Lease) -> Result<()> {
        (lease.record, lease.revision) = self.0.change(lease, Record::clone).await?;
        Ok(())
    }

    async fn finish(&self, lease: &mut Lease, mut outcome: Outcome) -> Result<()> {
        if let Outcome::Done { result, .. } = &mut outcome {
            let whole = result.take();
            *result = self.0.patiently(|| pack(&*self.0.storage, whole.clone())).await?;
        }
        (lease.record, lease.revision) = self.0.patiently(|| self.0.finish(lease, &outcome)).await?;
        lease.ended = true;
        Ok(())
    }

    async fn append(&self, lease: &mut Lease, value: Value) -> Result<u64> {
        let value = self.0.patiently(|| pack(&*self.0.storage, value.clone())).await?;
        let event = Event { number: lease.next_event, value };
        (lease.record, lease.revision) = self.0.patiently(|| self.0.append(lease, &event)).await?;
        lease.next_event += 1;
        Ok(event.number)
    }

    async fn status(&self, key: &Key) -> Result<Option<Status>> {
        match self.0.storage.load(&key.text()).await? {
            Some((record, revision)) => self.0.status(&record, revision).await.map(Some),
            None => Ok(None),
        }
    }

    async fn watch(&self, key: &Key, after: u64) -> Result<BoxStream<'static, Result<Update>>> {
        let id = key.text();
        let shared = Arc::clone(&self.0);
        let rows = Arc::clone(&shared.storage).follow(id.clone(), after).await?;
        let rows = rows.ok_or_else(|| unknown(&id))?;
        Ok(watch(shared, id, after, rows).boxed())
    }

    async fn cancel(&self, key: &Key) -> Result<Status> {
        self.0.patiently(|| self.0.cancel(key)).await
    }

    fn cancelled(&self, lease: &Lease) -> BoxFuture<'static, Result<Stop>> {
        if lease.record.cancel_requested {
            return Box::pin(std::future::ready(Ok(Stop::Cancelled)));
        }
        let shared = Arc::clone(&self.0);
        let (id, claim, revision) = (lease.key.text(), lease.claim.clone(), lease.revision);
        Box::pin(async move { shared.stopped(&id, &claim, revision).await })
    }

    async fn put(&self, source: Source) -> Result<BlobId> {
        self.0.patiently(|| self.0.storage.put(source.clone())).await
    }

    async fn has(&self, id: &BlobId) -> Result<bool> {
        self.0.storage.has(id).await
    }

    async fn get(&self, id: &BlobId) -> Result<Vec<u8>> {
        self.0.storage.get(id).await
    }

    async fn fetch(&self, id: &BlobId, to: &Path) -> Result<()> {
        self.0.storage.fetch(id, to).await
    }

    async fn announce(&self, worker: &Worker) -> Result<()> {
        self.observe();
        self.0.storage.announce(worker, self.0.lease).await
    }

    async fn leave(&self, worker: &str) -> Result<()> {
        self.0.storage.leave(worker).await
    }

    async fn workers(&self) -> Result<Vec<Worker>> {
        self.0.storage.workers().await
    }

    async fn control(&self, worker: &str, control: Control) -> Result<()> {
        self.0.storage.control(worker, control).await
    }

    async fn controlled(&self, worker: &str) -> Result<Control> {
        self.0.storage.controlled(worker).await
    }

    async fn list(&self) -> Result<Vec<Listed>> {
        let rows = self.0.storage.open_records().await?;
        let listed = |(_, record, revision): (String, Record, u64)| Listed {
            status: record.status(revision),
            key: record.key,
            grain: record.grain,
            labels: record.route.labels,
        };
        Ok(rows.into_iter().map(listed).collect())
    }

    async fn sweep(&self, age: Duration) -> Result<()> {
        self.0.storage.sweep(age).await
    }

    fn lease_length(&self) -> Duration {
        self.0.lease
    }
}

/// Streams the states and events of one piece of work from its rows, and takes it over once its holder is lost.
fn watch<S: Storage>(
    shared: Arc<Shared<S>>,
    id: String,
    mut after: u64,
    mut followed: BoxStream<'static, Result<Followed>>,
) -> impl futures_util::Stream<Item = Result<Update>> + Send {
    async_stream::stream! {
        let mut observed: Option<(Observed, Record)> = None;
        let mut shown: Option<Status> = None;
        loop {
            let due = observed.as_ref().and_then(|(it, record)| it.due(record, shared.lease));
            let item = tokio::select! {
                item = followed.next() => item,
                () = until(due) => {
                    if let Some((seen, record)) = &mut observed {
                        if let Err(error) = shared.go_on(&id, record, seen.revision).await {
                            tracing::warn!(work = id, %error, "a takeover failed");
                        }
                        seen.restart();
                    }
                    continue;
                }
            };
            match item {
                None => {
                    yield Err(Error::Unreachable(format!("the rows of {id} ended early")));
                    return;
                }
                Some(Err(error)) => {
                    yield Err(error);
                    return;
                }
                Some(Ok(Followed::Event(event))) => {
                    if event.number <= after {
                        continue;
                    }
                    after = event.number;
                    let value = unpack(&*shared.storage, event.value).await;
                    yield value.map(|value| Update::Event(Event { number: after, value }));
                }
                Some(Ok(Followed::Record(record, revision))) => {
                    let status = shared.status(&record, revision).await;
                    let ended = record.has_ended();
                    observed = Some((Observed::now(revision), *record));
                    match status {
                        // A renewal alone is of no interest to who watches.
                        Ok(status) if shown.as_ref().is_some_and(|it| it.is_like(&status)) => {}
                        Ok(status) => {
                            shown = Some(status.clone());
                            yield Ok(Update::State(status));
                        }
                        Err(error) => yield Err(error),
                    }
                    if ended {
                        return;
                    }
                }
            }
        }
    }
}

/// Waits for an instant, or for ever.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
