//! The engine of a session's triggers: sleeps until the next one is due, and fires it.
//!
//! It runs in the process that runs the session. Nothing is polled: it wakes at the next due time, when a trigger changes, and
//! when something that is watched changes. A fire is a claim in the store, so two engines of one session fire once.

mod elsewhere;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use kit::{
    Fault,
    services::{Jobs, Until, Waited},
};
use store::{Expected, Fired, HistoryEvent, Store, Then, TriggerRow, TriggerState};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    Changes, Clock, FileChanges, Missed, Service, Spec, What,
    service::{Cause, blocking, count},
    spec::{instant, millis},
};
use elsewhere::Elsewhere;

/// A fire that comes later than this counts as missed: the machine was suspended.
const LATE_MS: u64 = 60_000;

/// Time until the engine looks again after the store failed.
const AGAIN_MS: u64 = 1_000;

/// How long one wait for a job lasts at most.
const A_WAIT: Duration = Duration::from_secs(24 * 3_600);

/// Bytes of a job's output that its message shows.
const TAIL: usize = 2_000;

/// Sources that an engine watches beside the clock.
pub trait Sources: Send + Sync {
    /// Begins to watch files.
    ///
    /// # Errors
    /// When they can't be watched.
    fn files(&self, spec: &Spec) -> Result<Box<dyn FileChanges>, Fault>;

    /// Returns the jobs of the session.
    fn jobs(&self) -> Option<Arc<dyn Jobs>>;
}

/// The engine of one session.
pub struct Engine {
    session: String,
    store: Store,
    service: Service,
    clock: Arc<dyn Clock>,
    sources: Arc<dyn Sources>,
    /// The watchers of armed triggers, with the body for which they were begun.
    watchers: HashMap<String, (serde_json::Value, Option<AbortOnDropHandle<()>>)>,
    /// Changes of files that wait until the turn of the fire before is over.
    changed: BTreeMap<String, Changes>,
    seen: mpsc::UnboundedReceiver<Sight>,
    sees: mpsc::UnboundedSender<Sight>,
}

/// The observation of a trigger's watcher, with the trigger's id.
type Sight = (String, Seen);

/// The observation of a watcher.
enum Seen {
    Files(Changes),
    /// The outcome of a wait for a job, and how its message describes it.
    Job(Result<Waited, Fault>),
    Failed(Fault),
}

impl Engine {
    /// Creates the engine of a session, which this process runs.
    pub fn new(store: &Store, session: &str, clock: Arc<dyn Clock>, sources: Arc<dyn Sources>) -> Self {
        let (sees, seen) = mpsc::unbounded_channel();
        Self {
            session: session.to_owned(),
            store: store.clone(),
            service: Service::new(store.clone()),
            clock,
            sources,
            watchers: HashMap::new(),
            changed: BTreeMap::new(),
            seen,
            sees,
        }
    }

    /// Runs until it is dropped. What was due before is settled by each trigger's policy first.
    pub async fn run(mut self) {
        let mut changes = self.store.triggers().changes(&self.session);
        let mut elsewhere = Elsewhere::watch(self.store.folder());
        while let Err(fault) = self.begin().await {
            self.failed(&fault).await;
        }
        loop {
            changes.borrow_and_update();
            elsewhere.seen();
            let next = match self.look(false).await {
                Ok(next) => next,
                Err(fault) => {
                    self.failed(&fault).await;
                    continue;
                }
            };
            let seen = tokio::select! {
                biased;
                seen = self.seen.recv() => seen,
                _ = changes.changed() => None,
                () = elsewhere.changed() => None,
                () = self.clock.sleep_until(next) => None,
            };
            if let Some((id, seen)) = seen
                && let Err(fault) = self.take(&id, seen).await
            {
                self.failed(&fault).await;
            }
        }
    }

    /// Frees what a dead process held, and settles what was missed.
    ///
    /// # Errors
    /// When the store can't be read or written.
    pub async fn begin(&mut self) -> Result<(), Fault> {
        self.store.triggers().recover(&self.session).await?;
        self.look(true).await.map(drop)
    }

    /// Fires what is due, begins to watch what is armed, and returns when something is due next.
    async fn look(&mut self, begins: bool) -> Result<Option<u64>, Fault> {
        let rows = self.service.list(Some(&self.session)).await?;
        self.watchers.retain(|id, (body, _)| {
            rows.iter().any(|it| it.id == *id && it.state == TriggerState::Armed && it.body == *body)
        });
        self.changed.retain(|id, _| rows.iter().any(|it| it.id == *id && it.state == TriggerState::Armed));
        let (mut next, mut fired) = (None, false);
        for row in rows.iter().filter(|it| it.state == TriggerState::Armed) {
            let spec = match Spec::of_body(&row.body) {
                Ok(spec) => spec,
                Err(fault) => {
                    self.unusable(row, &fault).await?;
                    continue;
                }
            };
            match row.next_fire_ms {
                Some(at) if at <= self.clock.now_ms() => {
                    self.due(row, &spec, begins).await?;
                    fired = true;
                }
                Some(at) => next = Some(next.map_or(at, |it: u64| it.min(at))),
                None => self.watch(row, &spec).await?,
            }
            if row.busy.is_none()
                && let Some(changes) = self.changed.remove(&row.id)
            {
                self.fire_files(row, &spec, changes).await?;
            }
        }
        // What fired is due again: its row says when.
        Ok(if fired { Some(self.clock.now_ms()) } else { next })
    }

    /// Fires a trigger that is due, or lets it pass if it was missed.
    async fn due(&self, row: &TriggerRow, spec: &Spec, begins: bool) -> Result<(), Fault> {
        let now = self.clock.now_ms();
        let (zone, next) = (spec.zone()?, row.next_fire_ms.unwrap_or(now));
        let due = row.due_ms.unwrap_or(next);
        let Some(schedule) = spec.schedule(&zone)? else { return Ok(()) };
        let then = match schedule.next_of(instant(due), instant(now), &zone).map(millis) {
            Some(due_ms) => {
                Then::Due { due_ms, next_fire_ms: spec.with_jitter(due_ms, &row.id, row.fires + 2) }
            }
            None => Then::Done,
        };
        let expected = Expected { fires: row.fires, next_fire_ms: row.next_fire_ms };
        let is_immediate = matches!(spec.what, What::AddTimer { immediate: true, .. }) && row.fires == 0;
        let is_missed = !is_immediate && (begins && next < now || now - next > LATE_MS);
        let was = instant(due).to_string();
        if !is_missed {
            let cause = Cause { note: format!("due at {was}"), ..Cause::default() };
            self.service.fire(row, spec, Some(expected), then, now, cause).await?;
            return Ok(());
        }
        let times = count(&schedule, due, now, &zone);
        let more = if times > 1 { format!(", and {} more", times - 1) } else { String::new() };
        let text = format!("due at {was}{more}");
        let event = match spec.missed() {
            Missed::Once => {
                let cause = Cause {
                    text: format!(
                        "(This trigger was {text}, while nothing ran here. It fires one time for all.)"
                    ),
                    note: format!("missed, {text}"),
                    ..Cause::default()
                };
                self.service.fire(row, spec, Some(expected), then, now, cause).await?;
                return Ok(());
            }
            Missed::Skip => HistoryEvent::Missed,
            Missed::Ask => HistoryEvent::Asks,
        };
        self.store.triggers().pass(&self.session, &row.id, expected, then, event, &text).await?;
        Ok(())
    }

    /// Begins to watch what an armed trigger waits for, unless it is watched.
    async fn watch(&mut self, row: &TriggerRow, spec: &Spec) -> Result<(), Fault> {
        if self.watchers.contains_key(&row.id) {
            return Ok(());
        }
        let (id, seen) = (row.id.clone(), self.sees.clone());
        let task = match &spec.what {
            What::WatchFiles { .. } => {
                let (sources, spec) = (self.sources.clone(), spec.clone());
                match blocking(move || sources.files(&spec)).await {
                    Ok(mut files) => Some(tokio::spawn(async move {
                        while let Some(changes) = files.next().await {
                            if seen.send((id.clone(), Seen::Files(changes))).is_err() {
                                return;
                            }
                        }
                    })),
                    Err(fault) => {
                        // The receiver is this engine.
                        drop(seen.send((id, Seen::Failed(fault))));
                        None
                    }
                }
            }
            What::WatchJob { job, pattern } => {
                let until = pattern.clone().map_or(Until::Exit, Until::Pattern);
                let (job, jobs) = (job.clone(), self.sources.jobs());
                Some(tokio::spawn(async move {
                    let outcome = match jobs {
                        Some(jobs) => wait_for(&*jobs, &job, until).await,
                        None => Err(Fault::not_found(format!("there is no job `{job}` here"))),
                    };
                    drop(seen.send((id, Seen::Job(outcome))));
                }))
            }
            _ => None,
        };
        self.watchers.insert(row.id.clone(), (row.body.clone(), task.map(AbortOnDropHandle::new)));
        Ok(())
    }

    /// Takes what a watcher saw.
    async fn take(&mut self, id: &str, seen: Seen) -> Result<(), Fault> {
        let (rows, session, owned) = (self.store.triggers(), self.session.clone(), id.to_owned());
        let Some(row) = blocking(move || rows.get(&session, &owned)).await? else { return Ok(()) };
        if row.state != TriggerState::Armed {
            return Ok(());
        }
        let spec = Spec::of_body(&row.body)?;
        match seen {
            Seen::Files(changes) => self.fire_files(&row, &spec, changes).await,
            Seen::Job(Ok(waited)) if waited.met => {
                let text = of_job(&waited);
                let cause = Cause {
                    note: text.lines().next().unwrap_or_default().to_owned(),
                    text,
                    ..Cause::default()
                };
                self.service
                    .fire(&row, &spec, Some(expected(&row)), Then::Done, self.clock.now_ms(), cause)
                    .await?;
                Ok(())
            }
            Seen::Job(Ok(waited)) => {
                let text =
                    format!("{} ended without such a line: {}", waited.job.id, waited.job.state.name());
                self.over(&row, HistoryEvent::Error, &text).await
            }
            Seen::Job(Err(fault)) | Seen::Failed(fault) => {
                self.over(&row, HistoryEvent::Error, &fault.what).await
            }
        }
    }

    /// Fires for changed files; if the turn of the fire before is not over, they wait for its end.
    async fn fire_files(&mut self, row: &TriggerRow, spec: &Spec, changes: Changes) -> Result<(), Fault> {
        if row.busy.is_some() && !spec.overlaps() {
            self.changed.entry(row.id.clone()).or_default().add(changes);
            return Ok(());
        }
        let text = changes.to_string();
        let note = text.lines().nth(1).unwrap_or_default().to_owned();
        let cause = Cause { text, note, ..Cause::default() };
        let fired =
            self.service.fire(row, spec, Some(expected(row)), Then::Same, self.clock.now_ms(), cause).await?;
        if matches!(fired, Fired::Lost) {
            // Its row changed since it was read.
            self.changed.entry(row.id.clone()).or_default().add(changes);
            self.store.triggers().notify(&self.session);
        }
        Ok(())
    }

    /// Ends a trigger that can't fire any more.
    async fn over(&self, row: &TriggerRow, event: HistoryEvent, text: &str) -> Result<(), Fault> {
        self.store.triggers().pass(&self.session, &row.id, expected(row), Then::Done, event, text).await?;
        Ok(())
    }

    async fn unusable(&self, row: &TriggerRow, fault: &Fault) -> Result<(), Fault> {
        self.over(row, HistoryEvent::Error, &fault.what).await
    }

    async fn failed(&self, fault: &Fault) {
        tracing::warn!(session = %self.session, %fault, "the triggers of this session wait for the store");
        self.clock.sleep_until(Some(self.clock.now_ms() + AGAIN_MS)).await;
    }
}

fn expected(row: &TriggerRow) -> Expected {
    Expected { fires: row.fires, next_fire_ms: row.next_fire_ms }
}

/// Waits for a job however long it takes.
async fn wait_for(jobs: &dyn Jobs, job: &str, until: Until) -> Result<Waited, Fault> {
    loop {
        let waited = jobs.wait(job, until.clone(), A_WAIT).await?;
        if waited.met || waited.job.state.is_over() {
            return Ok(waited);
        }
    }
}

/// Describes a job for the message about it.
fn of_job(waited: &Waited) -> String {
    let job = &waited.job;
    let title = if job.title.is_empty() { &job.tool } else { &job.title };
    let mut text = match &waited.line {
        Some(line) => format!("{} ({title}) wrote: {line}", job.id),
        None => format!("{} ({title}) ended: {}", job.id, job.state.name()),
    };
    let tail = job.live.output.as_ref().map(|it| it.tail(TAIL).text).filter(|it| !it.trim().is_empty());
    if let (None, Some(tail)) = (&waited.line, tail) {
        text = format!("{text}\nThe end of its output:\n{}", tail.trim_end());
    }
    text
}

#[cfg(test)]
mod tests;
