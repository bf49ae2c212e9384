//! The sender's side: offers work, follows it to its end, and explains what it waits for.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use engine::{Engine, Error, Grain, Key, Need, Outcome, PROTOCOL, State, Status, Update, Work, Worker};
use futures_util::StreamExt as _;
use kit::Fault;
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{Task, fault, needs, shown};

/// Time that work waits before haft says why.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often haft looks again why work waits.
const LOOK: Duration = Duration::from_secs(2);

/// Pause before the engine is asked again after it could not be reached.
const AGAIN: Duration = Duration::from_millis(500);

/// Time in which a worker has to end cancelled work; then the sender stops waiting.
const CANCEL: Duration = Duration::from_secs(10);

/// How many workers are named that lack a label.
const NAMED: usize = 3;

/// Work of one workspace, on its way to workers.
pub(crate) struct Sender {
    pub(crate) engine: Arc<dyn Engine>,
    /// The labels that a worker must have.
    pub(crate) labels: BTreeSet<String>,
    /// Tools, servers, secrets and profiles that a worker must have.
    pub(crate) needs: BTreeSet<Need>,
    /// The manifest of the workspace.
    pub(crate) snapshot: engine::BlobId,
    /// The sender's limits.
    pub(crate) limits: Value,
}

/// An event of work that is followed.
pub(crate) enum Followed {
    /// An event of the session, as `haft run --json` prints it.
    Event(Value),
    /// A worker has taken it.
    Taken { worker: String },
    /// It waits, and why.
    Waits(String),
    /// The engine can't be reached, and is asked again.
    Unreachable(String),
}

impl Sender {
    /// Returns the work for this task.
    ///
    /// # Errors
    /// When the task can't be written as JSON.
    pub(crate) fn work(&self, key: Key, task: &Task, idempotent: bool) -> Result<Work, Fault> {
        let task = serde_json::to_value(task).map_err(|error| Fault::bug(format!("task: {error}")))?;
        Ok(self.work_of(key, Grain::Session, task, idempotent))
    }

    pub(super) fn work_of(&self, key: Key, grain: Grain, task: Value, idempotent: bool) -> Work {
        Work {
            key,
            grain,
            labels: self.labels.clone(),
            needs: self.needs.iter().cloned().collect(),
            protocol: PROTOCOL,
            haft: env!("CARGO_PKG_VERSION").to_owned(),
            task,
            snapshot: Some(self.snapshot.clone()),
            limits: self.limits.clone(),
            idempotent,
        }
    }

    /// Offers the work. The engine may not answer at first: offering it again changes nothing.
    ///
    /// # Errors
    /// When the engine refuses it, or can't be reached.
    pub(crate) async fn offer(&self, work: &Work) -> Result<Status, Fault> {
        let until = Instant::now() + CANCEL;
        loop {
            match self.engine.offer(work.clone()).await {
                Err(Error::Unreachable(_)) if Instant::now() < until => sleep(AGAIN).await,
                offered => return offered.map_err(fault),
            }
        }
    }

    /// Follows this work to its end; the outcome with the last status. `cancel` cancels it.
    ///
    /// # Errors
    /// When the engine has no such work, or the worker does not stop.
    pub(crate) async fn follow(
        &self,
        work: &Work,
        cancel: &CancellationToken,
        mut see: impl FnMut(Followed),
    ) -> Result<(Outcome, Status), Fault> {
        let (mut after, mut waits) = (0, Waiting::default());
        let mut cancelled: Option<Instant> = None;
        loop {
            let mut updates = match self.engine.watch(&work.key, after).await {
                Ok(updates) => updates,
                Err(error) => {
                    unreached(error, &mut see).await?;
                    continue;
                }
            };
            loop {
                tokio::select! {
                    biased;
                    () = cancel.cancelled(), if cancelled.is_none() => {
                        cancelled = Some(Instant::now());
                        self.engine.cancel(&work.key).await.map_err(fault)?;
                    }
                    update = updates.next() => match update {
                        Some(Ok(Update::Event(event))) => {
                            after = event.number;
                            each(event.value, &mut see);
                        }
                        Some(Ok(Update::State(status))) => match status.state.clone() {
                            State::Ended(outcome) => return Ok((outcome, status)),
                            State::Leased { worker, .. } => {
                                if waits.taken(&worker) {
                                    see(Followed::Taken { worker });
                                }
                            }
                            State::Offered => waits.offered(),
                        },
                        Some(Err(error)) => {
                            unreached(error, &mut see).await?;
                            break;
                        }
                        None => break,
                    },
                    () = waits.due(), if cancelled.is_none() => {
                        if let Ok(workers) = self.engine.workers().await
                            && let Some(why) = waits.changed(why(&workers, work))
                            && !why.is_empty()
                        {
                            see(Followed::Waits(why));
                        }
                    }
                    () = over(cancelled) => {
                        return Err(Fault::new(kit::Kind::Timeout, "the worker did not stop in time")
                            .next("`haft workers` shows who has it; it stops when its lease is over."));
                    }
                }
            }
        }
    }
}

/// The wait for a worker.
#[derive(Default)]
struct Waiting {
    /// When haft looks next why nobody takes the work; none while a worker has it.
    look: Option<Instant>,
    worker: Option<String>,
    why: Option<String>,
}

impl Waiting {
    fn offered(&mut self) {
        self.worker = None;
        self.look.get_or_insert(Instant::now() + PATIENCE);
    }

    /// Returns whether this is another worker than before.
    fn taken(&mut self, worker: &str) -> bool {
        self.look = None;
        let is_new = self.worker.as_deref() != Some(worker);
        self.worker = Some(worker.to_owned());
        is_new
    }

    async fn due(&self) {
        match self.look {
            Some(look) => sleep_until(look).await,
            None => std::future::pending().await,
        }
    }

    /// Returns the reason, if it is another one than before.
    fn changed(&mut self, why: String) -> Option<String> {
        self.look = Some(Instant::now() + LOOK);
        let is_new = self.why.as_ref() != Some(&why);
        self.why = Some(why.clone());
        is_new.then_some(why)
    }
}

/// Passes on the events of one batch.
fn each(value: Value, see: &mut impl FnMut(Followed)) {
    match value {
        Value::Array(events) => events.into_iter().for_each(|it| see(Followed::Event(it))),
        event => see(Followed::Event(event)),
    }
}

/// Waits a moment after an error of the engine.
///
/// # Errors
/// When repeating it does not help.
async fn unreached(error: Error, see: &mut impl FnMut(Followed)) -> Result<(), Fault> {
    if !matches!(error, Error::Unreachable(_)) {
        return Err(fault(error));
    }
    see(Followed::Unreachable(error.to_string()));
    sleep(AGAIN).await;
    Ok(())
}

async fn over(cancelled: Option<Instant>) {
    match cancelled {
        Some(since) => sleep_until(since + CANCEL).await,
        None => std::future::pending().await,
    }
}

/// Returns why no worker takes this work yet; an empty text if nothing is in the way.
fn why(workers: &[Worker], work: &Work) -> String {
    let labels = shown(&work.labels);
    let there = |it: &&Worker| !it.draining;
    if !workers.iter().any(|it| there(&it)) {
        return format!("no worker is there; start one: `haft worker{}`", labels_option(&work.labels));
    }
    let fits: Vec<&Worker> =
        workers.iter().filter(there).filter(|it| work.labels.is_subset(&it.labels)).collect();
    if fits.is_empty() {
        let of_worker = |it: &Worker| format!("{} has {}", it.id, shown(&it.labels));
        let mut there: Vec<String> = workers.iter().filter(there).take(NAMED).map(of_worker).collect();
        let others = workers.iter().filter(|it| !it.draining).count() - there.len();
        there.extend((others > 0).then(|| format!("{others} more")));
        return format!(
            "no worker has the labels {labels} ({}); start one: `haft worker{}`",
            there.join("; "),
            labels_option(&work.labels)
        );
    }
    let able: Vec<&&Worker> = fits.iter().filter(|it| it.protocol == work.protocol).collect();
    if able.is_empty() {
        let versions: BTreeSet<String> =
            fits.iter().map(|it| format!("{} (protocol {})", it.version, it.protocol)).collect();
        let versions = versions.into_iter().collect::<Vec<_>>().join(", ");
        return format!(
            "the workers with the labels {labels} are of haft {versions}, and this is haft {} (protocol {}); install the same \
             version on both sides",
            work.haft, work.protocol
        );
    }
    let lacks =
        |it: &Worker| work.needs.iter().filter(|need| !it.has.contains(need)).cloned().collect::<Vec<_>>();
    let Some(least) = able.iter().min_by_key(|it| lacks(it).len()) else { return String::new() };
    let missing = lacks(least);
    if !missing.is_empty() {
        let missing: Vec<String> = missing.iter().take(4).map(needs::shown).collect();
        return format!("worker {} lacks {}", least.id, missing.join(", "));
    }
    if able.iter().any(|it| it.busy < it.slots) {
        // It is about to take it.
        return String::new();
    }
    let (slots, busy) = able.iter().fold((0, 0), |(slots, busy), it| (slots + it.slots, busy + it.busy));
    format!("the workers with the labels {labels} are busy: {busy} of {slots} slots")
}

/// Returns the option that gives a worker these labels, beside those that it has by itself.
fn labels_option(labels: &BTreeSet<String>) -> String {
    let own = |it: &&String| it.as_str() != super::ANY;
    let labels: Vec<&str> = labels.iter().filter(own).map(String::as_str).collect();
    if labels.is_empty() { String::new() } else { format!(" --labels {}", labels.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(labels: &[&str]) -> Worker {
        Worker {
            id: "box-1".to_owned(),
            host: "box".to_owned(),
            labels: labels.iter().map(|it| (*it).to_owned()).collect(),
            slots: 2,
            busy: 2,
            version: "0.1.0".to_owned(),
            protocol: PROTOCOL,
            draining: false,
            has: Vec::new(),
        }
    }

    fn work() -> Work {
        Work {
            key: Key { session: "s".to_owned(), step: 0, call: 0, attempt: 0 },
            grain: Grain::Session,
            labels: BTreeSet::from(["gpu".to_owned()]),
            needs: vec![Need::Secret { name: "github".to_owned() }],
            protocol: PROTOCOL,
            haft: "0.1.0".to_owned(),
            task: Value::Null,
            snapshot: None,
            limits: Value::Null,
            idempotent: false,
        }
    }

    #[test]
    fn reason_for_waiting_names_the_missing_part() {
        let mut able = worker(&["gpu"]);
        let other = Worker { protocol: PROTOCOL + 1, version: "0.9.0".to_owned(), ..able.clone() };
        let draining = Worker { draining: true, ..able.clone() };
        for (workers, says) in [
            (vec![], "no worker is there; start one: `haft worker --labels gpu`"),
            (vec![draining], "no worker is there"),
            (
                vec![worker(&["cpu"])],
                "no worker has the labels gpu (box-1 has cpu); start one: `haft worker --labels gpu`",
            ),
            (vec![other], "are of haft 0.9.0 (protocol 2), and this is haft 0.1.0 (protocol 1); install"),
            (vec![able.clone()], "worker box-1 lacks the secret `github`"),
        ] {
            let text = why(&workers, &work());
            assert!(text.contains(says), "{text}");
        }
        able.has = work().needs;
        assert_eq!(why(&[able], &work()), "the workers with the labels gpu are busy: 2 of 2 slots");
    }
}
