//! Jobs: calls that outlive their turn, and their results.

mod agent_inbox;
mod notifications;
mod persisted;
mod running_call;
mod wait;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use kit::{
    Fault, Kind, Output, Part,
    services::{Job, Soon, State, Transcript, Until, Waited},
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{
    sync::{mpsc::UnboundedSender, watch},
    time::timeout,
};

pub(crate) use agent_inbox::AgentInbox;
pub use notifications::Event;
pub(crate) use notifications::JobNotification;
pub(crate) use persisted::PersistedJobs;
pub use persisted::is_of_a_job;
use running_call::End;
pub(crate) use running_call::{ThisCall, Wish};

/// Limit of finished jobs that stay readable.
const KEPT: usize = 100;

/// Polling interval for the end of another session's job.
const LOOK: Duration = Duration::from_millis(500);

/// Limit of ids in a fault.
const NAMED: usize = 20;

/// A job whose result the model expects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwedJob {
    /// Its id: `job_3`.
    pub id: String,
    /// Its title for a person: the command, or the tool.
    pub name: String,
}

/// The jobs of one session.
#[derive(Default)]
pub(crate) struct Jobs {
    last: AtomicU64,
    table: Mutex<Table>,
    /// The number of jobs that are not over.
    running: AtomicUsize,
    /// The number of unreported notifications in the table: most answers need not lock it.
    unreported: AtomicUsize,
    /// The receivers of events.
    events: Mutex<Vec<UnboundedSender<Event>>>,
    /// Their records, if a later session can read them.
    kept: OnceLock<Arc<PersistedJobs>>,
    /// The inbox to which the ends of jobs go, if the session has an agent.
    agent: OnceLock<AgentInbox>,
    /// Changes whenever a job begins, waits or is over.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Table {
    jobs: BTreeMap<u64, Arc<ThisCall>>,
    /// Finished jobs, in the order of their ends.
    over: VecDeque<u64>,
    unreported: VecDeque<JobNotification>,
    /// Keys of the messages in the agent's inbox that it was shown, or that were taken back.
    settled: HashSet<String>,
    /// Calls that are not jobs yet, and that a client can move to the background.
    calls: HashMap<String, Weak<ThisCall>>,
    /// The ids of the calls that are jobs now, and the jobs by these ids.
    became: BTreeMap<u64, String>,
    by_call: HashMap<String, u64>,
    is_closed: bool,
}

impl Jobs {
    /// Sets the store of their records. The first one stays.
    pub(crate) fn keep(&self, kept: Arc<PersistedJobs>) {
        let _ = self.kept.set(kept);
    }

    pub(super) fn next_number(&self) -> u64 {
        if let Some(kept) = self.kept.get() {
            match kept.next_number() {
                Ok(number) => return number,
                Err(fault) => tracing::warn!("the number of a job can't be kept: {fault}"),
            }
        }
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Makes the call a job.
    pub(crate) fn add(&self, call: &Arc<ThisCall>) {
        let number = call.number();
        let mut table = self.table.lock();
        if table.jobs.insert(number, call.clone()).is_none() {
            self.running.fetch_add(1, Ordering::AcqRel);
        }
        if table.is_closed {
            call.stop.cancel();
        }
        drop(table);
        if let Some(kept) = self.kept.get() {
            kept.put(call);
            tokio::spawn(persisted::follow(kept.clone(), call.clone()));
        }
        self.changed();
    }

    /// Returns whether a job runs.
    pub(crate) fn are_running(&self) -> bool {
        self.running.load(Ordering::Acquire) > 0
    }

    /// Refuses one more job if there are as many as the limit.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] at the limit.
    pub(crate) fn room(&self, limit: u64) -> Result<(), Fault> {
        let running = self.running.load(Ordering::Acquire) as u64;
        let by_files = kit::procs::most_commands();
        if running < limit.min(by_files) {
            return Ok(());
        }
        let allows = if limit <= by_files {
            format!("`limits.jobs` allows {limit}")
        } else {
            format!("haft may open files for {by_files} (`ulimit -n`)")
        };
        let what = format!("{running} jobs run in this session, and {allows}; nothing was started");
        Err(Fault::new(Kind::Unavailable, what)
            .hint("Stop one that is not needed[?, with `tool:stop_task`?], or wait until one has ended[?: `tool:wait`?]."))
    }

    /// Returns a counter that changes whenever a job begins, waits for input or is over.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Records that the job gave an output and waits for input. `answered` says whether a caller got that
    /// output.
    pub(crate) fn waits(&self, call: &Arc<ThisCall>, said: Output, answered: bool) {
        let mut table = self.table.lock();
        let is_unreported = call.change(|now| {
            ThisCall::waits(now, said);
            now.is_unreported = !answered;
            now.is_unreported && now.watchers == 0
        });
        let sends = is_unreported && self.put_notification(&mut table, JobNotification::of(call), true);
        drop(table);
        self.written_down(call);
        self.announce(call, sends);
    }

    /// Records the end of the job. Only the first end counts.
    pub(crate) fn end(&self, call: &Arc<ThisCall>, state: State, result: Result<Output, Fault>) {
        let number = call.number();
        let took = call.took();
        let mut table = self.table.lock();
        if !table.jobs.contains_key(&number) {
            return;
        }
        let ended = call.change(|now| {
            if now.end.is_some() {
                return None;
            }
            now.end = Some(End { state, result: Arc::new(result), took });
            now.said = None;
            now.is_unreported = true;
            // The process must not outlive its job.
            now.live.listens = None;
            Some((now.live.process.take(), now.watchers == 0))
        });
        let Some((process, is_unreported)) = ended else { return };
        self.running.fetch_sub(1, Ordering::AcqRel);
        let sends = is_unreported && self.put_notification(&mut table, JobNotification::of(call), true);
        table.over.push_back(number);
        if table.over.len() > KEPT
            && let Some(oldest) = table.over.pop_front()
        {
            table.jobs.remove(&oldest);
            if let Some(call) = table.became.remove(&oldest) {
                table.by_call.remove(&call);
            }
        }
        drop(table);
        drop(process);
        self.written_down(call);
        self.announce(call, sends);
    }

    /// Ends a job whose task is gone.
    pub(crate) fn lost(&self, call: &Arc<ThisCall>) {
        // Nearly all calls return here.
        if !call.has_number() {
            return;
        }
        self.end(call, State::Error, Err(Fault::bug(format!("`{}` was lost before it was over", call.tool))));
    }

    /// Lets a client move a call to the background by this id, until the call is over.
    pub(crate) fn offer(&self, id: &str, call: &Arc<ThisCall>) {
        self.table.lock().calls.insert(id.to_owned(), Arc::downgrade(call));
    }

    /// Ends the offer: the call is over or has become a job.
    pub(crate) fn withdraw(&self, id: &str) {
        let mut table = self.table.lock();
        let call = table.calls.remove(id).and_then(|call| call.upgrade());
        if let Some(call) = call.filter(|call| call.has_number())
            && table.jobs.contains_key(&call.number())
        {
            table.became.insert(call.number(), id.to_owned());
            table.by_call.insert(id.to_owned(), call.number());
        }
    }

    /// Returns the job that the call of this id has become.
    pub(crate) fn of_call(&self, id: &str) -> Option<String> {
        self.table.lock().by_call.get(id).map(|number| format!("job_{number}"))
    }

    /// Returns the output so far of the running call of this id.
    pub(crate) fn written(&self, id: &str) -> Option<Arc<dyn Transcript>> {
        let call = self.table.lock().calls.get(id).and_then(Weak::upgrade)?;
        let now = call.now.lock();
        now.live.output.clone()
    }

    /// Moves a running call to the background; returns its id as a job.
    pub(crate) fn promote(&self, id: &str) -> Result<String, Fault> {
        let call = self.table.lock().calls.get(id).and_then(Weak::upgrade);
        let Some(call) = call else {
            return Err(Fault::not_found(format!("no call `{id}` runs that could go to the background")));
        };
        call.wish(Wish::Background);
        Ok(call.id())
    }

    /// Stops every job, and those that begin later.
    pub(crate) fn close(&self) {
        let mut table = self.table.lock();
        table.is_closed = true;
        for call in table.jobs.values() {
            call.stop.cancel();
        }
    }

    /// Stops every job and waits until all are over, or the time is up.
    pub(crate) async fn end_all(&self, at_most: Duration) {
        self.close();
        let jobs: Vec<Arc<ThisCall>> = self.table.lock().jobs.values().cloned().collect();
        let all = async {
            for call in jobs {
                call.until(|now| now.end.as_ref().map(drop)).await;
            }
        };
        if timeout(at_most, all).await.is_err() {
            tracing::warn!("jobs did not stop in time; they are left to be dropped");
        }
    }

    /// Returns the running jobs whose results the model expects. Leaves out jobs that wait for input, and
    /// servers: a job that listens on a port is not expected to end.
    pub(crate) async fn owed(&self) -> Vec<OwedJob> {
        let jobs: Vec<Arc<ThisCall>> = self.table.lock().jobs.values().cloned().collect();
        let works = |call: &&Arc<ThisCall>| {
            let now = call.now.lock();
            // Until the message about its end is on the disk, the agent has to wait for it.
            let is_posting = now.row.as_ref().is_some_and(|it| !it.is_committed());
            now.is_owed && (!now.is_settled() || is_posting)
        };
        for call in jobs.iter().filter(|it| works(it) && !it.now.lock().is_settled()) {
            let live = call.now.lock().live.clone();
            let ports = match (live.listens, live.process) {
                (Some(listens), _) => listens.ports().await,
                (None, Some(process)) => process.left().await.ports,
                (None, None) => Vec::new(),
            };
            if !ports.is_empty() {
                call.now.lock().is_owed = false;
            }
        }
        let owed = jobs.iter().filter(works);
        owed.map(|call| OwedJob { id: call.id(), name: call.name().to_owned() }).collect()
    }

    fn find(&self, id: &str) -> Result<Arc<ThisCall>, Fault> {
        let id = id.trim();
        let number = number(id);
        let table = self.table.lock();
        if let Some(call) = number.and_then(|number| table.jobs.get(&number)) {
            return Ok(call.clone());
        }
        let next = if table.jobs.is_empty() {
            "There are no jobs in this session.".to_owned()
        } else {
            let newest: Vec<String> =
                table.jobs.keys().rev().take(NAMED).map(|number| format!("job_{number}")).collect();
            let older = table.jobs.len() - newest.len();
            let older = if older > 0 { format!(", and {older} older ones") } else { String::new() };
            format!("The jobs are: {}{older}.", newest.join(", "))
        };
        Err(Fault::not_found(format!("there is no job `{id}` in this session")).next(next))
    }

    /// Returns a job of the owner that belongs to another session.
    fn of_another(&self, id: &str) -> Option<Job> {
        let (kept, number) = (self.kept.get()?, number(id.trim())?);
        if self.table.lock().jobs.contains_key(&number) {
            return None;
        }
        kept.get(number)
    }

    fn written_down(&self, call: &ThisCall) {
        if let Some(kept) = self.kept.get() {
            kept.put(call);
        }
    }

    /// Waits for the end of another session's job.
    async fn wait_for_another(&self, job: Job, until: &Until, at_most: Duration) -> Result<Waited, Fault> {
        if *until != Until::Exit && !job.state.is_over() {
            return Err(elsewhere(&job));
        }
        let mut now = job;
        let end = async {
            while !now.state.is_over() {
                tokio::time::sleep(LOOK).await;
                now = self.of_another(&now.id).unwrap_or(now.clone());
            }
        };
        let met = timeout(at_most, end).await.is_ok();
        Ok(Waited { met: met && *until == Until::Exit, job: now, line: None })
    }

    /// Returns the present state of the job for the model.
    fn look(&self, call: &Arc<ThisCall>) -> Job {
        let job = call.job();
        if job.state.is_over() || job.state == State::Waiting {
            self.mark_reported(call);
        }
        job
    }
}

impl kit::services::Jobs for Jobs {
    fn list(&self) -> Vec<Job> {
        let jobs: Vec<Arc<ThisCall>> = self.table.lock().jobs.values().cloned().collect();
        let own: Vec<(u64, Job)> = jobs.iter().map(|call| (call.number(), call.job())).collect();
        let kept = self.kept.get().map(|kept| kept.list()).unwrap_or_default();
        let mut all: BTreeMap<u64, Job> = kept.into_iter().collect();
        // The present jobs are newer than their records.
        all.extend(own);
        all.into_values().collect()
    }

    fn get(&self, id: &str) -> Result<Job, Fault> {
        if let Some(job) = self.of_another(id) {
            return Ok(job);
        }
        let call = self.find(id)?;
        Ok(self.look(&call))
    }

    fn wait<'a>(&'a self, id: &'a str, until: Until, at_most: Duration) -> Soon<'a, Result<Waited, Fault>> {
        Box::pin(async move {
            if let Some(job) = self.of_another(id) {
                return self.wait_for_another(job, &until, at_most).await;
            }
            let call = self.find(id)?;
            let _watch = self.watch(&call);
            let (met, line) = wait::wait(&call, &until, at_most).await?;
            Ok(Waited { job: self.look(&call), met, line })
        })
    }

    fn stop<'a>(&'a self, id: &'a str) -> Soon<'a, Result<Job, Fault>> {
        Box::pin(async move {
            if let Some(job) = self.of_another(id) {
                return if job.state.is_over() { Ok(job) } else { Err(elsewhere(&job)) };
            }
            let call = self.find(id)?;
            let _watch = self.watch(&call);
            call.stop.cancel();
            call.until(|now| now.end.as_ref().map(drop)).await;
            Ok(self.look(&call))
        })
    }

    fn go_on<'a>(&'a self, id: &'a str, input: Value, at_most: Duration) -> Soon<'a, Result<Output, Fault>> {
        Box::pin(async move {
            if let Some(job) = self.of_another(id) {
                return Err(if job.state.is_over() { refused(&job) } else { elsewhere(&job) });
            }
            let call = self.find(id)?;
            let watch = self.watch(&call);
            if !call.put(input) {
                return Err(refused(&self.look(&call)));
            }
            self.mark_reported(&call);
            let settled = timeout(at_most, call.settled()).await;
            let job = self.look(&call);
            drop(watch);
            if settled.is_err() {
                return Ok(Output::text(format!(
                    "{} has its input and still works on it after {} s; wait for it, or read it later",
                    job.id,
                    at_most.as_secs()
                )));
            }
            answer(&job)
        })
    }
}

fn number(id: &str) -> Option<u64> {
    id.strip_prefix("job_").unwrap_or(id).parse().ok()
}

/// Returns the fault for a job of another session, which can't be changed from this one.
fn elsewhere(job: &Job) -> Fault {
    let what = format!("{} runs in another session; it can only be looked at from this one", job.id);
    Fault::new(Kind::Unavailable, what)
        .hint("[?`tool:read_job` shows how it stands.?][? `tool:wait` waits for its end.?]")
}

/// Returns the fault for a job that accepts no input now.
fn refused(job: &Job) -> Fault {
    let state = job.state.name();
    if job.state.is_over() {
        let what = format!("{} is over ({state}); it takes no more input", job.id);
        return Fault::new(Kind::Stale, what).hint("[?`tool:read_job` shows its result.?]");
    }
    let what = format!("{} is {state}; it waits for no input now", job.id);
    Fault::new(Kind::Stale, what).hint("[?`tool:wait` says when it does.?]")
}

/// Returns a job's answer to its input.
fn answer(job: &Job) -> Result<Output, Fault> {
    let over = || Part::Text { text: format!("{} is over: {}", job.id, job.state.name()) };
    match job.result.as_deref() {
        Some(Ok(output)) => {
            let mut output = output.clone();
            output.parts.push(over());
            Ok(output)
        }
        Some(Err(fault)) => Err(Fault { what: format!("{}: {}", job.id, fault.what), ..fault.copied() }),
        None => Ok(job.said.as_deref().cloned().unwrap_or_default()),
    }
}
