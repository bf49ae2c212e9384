//! `haft run --tasks`: many tasks on workers, with progress, a table of results, and continuation.
//!
//! The key of a task is made from its content, so the same command offers the same work again: what is done is read, what
//! runs is followed, and nothing runs twice.

mod file;
mod landings;
mod table;

use std::{
    collections::BTreeSet,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use engine::{Key, Outcome, State, Status, Work};
use futures_util::{StreamExt as _, stream};
use kit::{Fault, counted};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::on::{Ready, over, session, tell_landed};
use crate::{
    agent_factory::AgentOptions,
    print,
    remote::{Followed, Landed, Sender, SessionResult, Task, Travel},
    terminal::interrupt::STOPPED,
    verbs::FAULT,
};
pub(super) use file::{Line, read};
use landings::{Landing, Landings};
use table::{How, Row};

/// Tasks that are offered at once. More would only wait in the engine.
const AT_ONCE: usize = 64;

/// How often the progress is printed while no task ends.
const PROGRESS: Duration = Duration::from_secs(30);

/// A file of tasks, and how they run.
pub(super) struct Batch<'a> {
    pub(super) ready: &'a Ready,
    pub(super) agent: &'a AgentOptions,
    pub(super) schema: Option<Value>,
    pub(super) toolset: Option<String>,
    /// The name of the batch: another name runs the same tasks again.
    pub(super) name: String,
    pub(super) no_wait: bool,
    pub(super) land: bool,
    /// The folder with the records of the workspace.
    pub(super) records: PathBuf,
    pub(super) retry: bool,
    pub(super) json: bool,
}

/// One task of the batch.
struct Job {
    number: usize,
    id: String,
    /// The sender, with the labels of this task.
    sender: Sender,
    task: Task,
    session: String,
    idempotent: bool,
}

impl Job {
    fn key(&self, attempt: u32) -> Key {
        Key { session: self.session.clone(), step: 0, call: 0, attempt }
    }
}

/// The end of a task.
struct Ended {
    outcome: Outcome,
    retries: u32,
    attempt: u32,
    /// It had ended before this command began.
    is_old: bool,
}

impl Batch<'_> {
    /// Runs the tasks, prints each result as it comes and the table at the end.
    ///
    /// # Errors
    /// When the engine can't be used.
    pub(super) async fn run(&self, lines: Vec<Line>) -> Result<ExitCode, Fault> {
        let jobs = self.jobs(lines)?;
        let all = jobs.len();
        let began = Instant::now();
        let session = self.land.then(|| session(&self.ready.opened));
        let landings = Landings::read(&self.records);
        let work = stream::iter(jobs).map(|job| async {
            let ended = self.one(&job).await;
            (job, ended)
        });
        let mut results = std::pin::pin!(work.buffer_unordered(AT_ONCE));
        let (mut rows, mut failure): (Vec<Row>, Option<Fault>) = (Vec::new(), None);
        loop {
            let next = tokio::time::timeout(PROGRESS, results.next()).await;
            let (job, ended) = match next {
                Ok(None) => break,
                Ok(Some(it)) => it,
                Err(_) => {
                    print::err(&format!(
                        "haft: {} of {all} done, {:.0} s",
                        rows.len(),
                        began.elapsed().as_secs_f64()
                    ));
                    continue;
                }
            };
            let ended = match ended {
                Ok(ended) => ended,
                Err(fault) => {
                    // The other tasks still have results.
                    print::err(&format!("haft: {}: {}", job.id, fault.as_text()));
                    failure.get_or_insert(fault);
                    continue;
                }
            };
            let row = self.row(&job, ended, session.as_ref(), &landings).await?;
            print::err(&format!("haft: {}/{all} {}", rows.len() + 1, row.line()));
            tell_landed(&row.landed);
            if self.json {
                print::json(&row.as_json());
            }
            rows.push(row);
        }
        if let Some(session) = &session {
            super::finish(session).await;
        }
        rows.sort_by_key(|it| it.number);
        self.tell(&rows, all, began.elapsed());
        if let Some(fault) = failure {
            return Err(fault);
        }
        let is_good = rows.iter().all(|it| it.how == How::Done && it.refused() == 0);
        Ok(match is_good && rows.len() == all {
            _ if self.ready.cancel.is_cancelled() => ExitCode::from(STOPPED),
            true => ExitCode::SUCCESS,
            false => ExitCode::from(FAULT),
        })
    }

    /// Returns the work of each line. Equal lines are different tasks, numbered by their order.
    fn jobs(&self, lines: Vec<Line>) -> Result<Vec<Job>, Fault> {
        let workspace = self.ready.opened.runtime.roots().workspace().to_owned();
        let mut seen: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
        let mut jobs = Vec::new();
        for (at, line) in lines.into_iter().enumerate() {
            let task = Task {
                schema: self.schema.clone(),
                toolset: self.toolset.clone(),
                no_wait: self.no_wait,
                ..Task::new(line.task.clone(), &over(self.agent, &line))
            };
            task.check()
                .map_err(|fault| Fault { what: format!("task {}: {}", at + 1, fault.what), ..fault })?;
            let content = serde_json::json!([self.name, workspace, line.id, task, line.labels]).to_string();
            let count = seen.entry(content.clone()).or_default();
            let hash = blake3::hash(format!("{count}\n{content}").as_bytes()).to_hex();
            *count += 1;
            let session = format!("t_{}", hash.get(..32).unwrap_or_default());
            let Sender { engine, labels, needs, snapshot, limits } = &self.ready.sender;
            let labels: BTreeSet<String> = labels.iter().chain(&line.labels).cloned().collect();
            let sender = Sender {
                engine: engine.clone(),
                labels,
                needs: needs.clone(),
                snapshot: snapshot.clone(),
                limits: limits.clone(),
            };
            let id = line.id.clone().unwrap_or_else(|| (at + 1).to_string());
            jobs.push(Job { number: at + 1, id, sender, task, session, idempotent: line.idempotent });
        }
        Ok(jobs)
    }

    /// Runs one task to its end, or reads how it ended before.
    async fn one(&self, job: &Job) -> Result<Ended, Fault> {
        let cancel = &self.ready.cancel;
        for attempt in 0.. {
            let work = job.sender.work(job.key(attempt), &job.task, job.idempotent)?;
            if cancel.is_cancelled() {
                return self.unsent(job, &work).await;
            }
            let Status { state, cancel_requested, retries, .. } = job.sender.offer(&work).await?;
            let ended = match state {
                State::Ended(outcome) => Ended { outcome, retries, attempt, is_old: true },
                _ => {
                    let (outcome, status) =
                        job.sender.follow(&work, cancel, |followed| self.see(job, followed)).await?;
                    // An earlier command cancelled it, and this one continues.
                    let is_old = cancel_requested;
                    Ended { outcome, retries: status.retries, attempt, is_old }
                }
            };
            let runs_again = match &ended.outcome {
                Outcome::Cancelled => !cancel.is_cancelled(),
                Outcome::Failed { .. } | Outcome::Interrupted => self.retry,
                Outcome::Done { result, .. } => self.retry && How::of_result(result) != How::Done,
            };
            if !(ended.is_old && runs_again) {
                return Ok(ended);
            }
        }
        Err(Fault::bug("a task was offered too often"))
    }

    /// Returns the end of a task that is not sent any more, as the command is stopped.
    async fn unsent(&self, job: &Job, work: &Work) -> Result<Ended, Fault> {
        let attempt = work.key.attempt;
        let status = job.sender.engine.status(&work.key).await.ok().flatten();
        if let Some(Status { state: State::Ended(outcome), retries, .. }) = status {
            return Ok(Ended { outcome, retries, attempt, is_old: true });
        }
        Ok(Ended { outcome: Outcome::Cancelled, retries: 0, attempt, is_old: false })
    }

    fn see(&self, job: &Job, followed: Followed) {
        match followed {
            Followed::Waits(why) if !why.contains("are busy") => {
                print::err(&format!("haft: {} waits: {why}", job.id));
            }
            Followed::Unreachable(why) if job.number == 1 => {
                print::err(&format!("haft: {why}; trying again"));
            }
            _ => {}
        }
    }

    async fn row(
        &self,
        job: &Job,
        ended: Ended,
        session: Option<&runtime::Session>,
        landings: &Landings,
    ) -> Result<Row, Fault> {
        let Ended { outcome, retries, attempt, is_old } = ended;
        let travel = Travel { engine: &self.ready.sender.engine };
        let (mut landed, mut changed): (Vec<Landed>, usize) = (Vec::new(), 0);
        let key = job.key(attempt);
        let mut landed_before = None;
        if let Outcome::Done { patch: Some(patch), .. } = &outcome {
            match session {
                Some(session) => {
                    landed = travel.land(patch, session, &CancellationToken::new()).await?;
                    landings.add(&key, &landed)?;
                }
                None => {
                    landed_before = landings.of(&key, self.ready.opened.runtime.store())?;
                    changed = travel.files(patch).await?;
                }
            }
        }
        let (number, id) = (job.number, job.id.clone());
        let (how, result, error) = match outcome {
            Outcome::Done { result, .. } => {
                let how = How::of_result(&result);
                (how, serde_json::from_value::<SessionResult>(result).ok(), None)
            }
            Outcome::Failed { error } => (How::Failed, None, Some(error)),
            Outcome::Interrupted => (How::Interrupted, None, None),
            Outcome::Cancelled => (How::Cancelled, None, None),
        };
        Ok(Row { number, id, how, result, error, landed, changed, landed_before, retries, attempt, is_old })
    }

    /// Prints the table, or the last line of JSON.
    fn tell(&self, rows: &[Row], all: usize, took: Duration) {
        if self.json {
            print::json(&table::summary(rows, all, took));
        } else {
            print::out(&table::table(rows));
        }
        let done = rows.iter().filter(|it| it.how == How::Done).count();
        print::err(&format!("haft: {done} of {} done, {:.1} s", counted(all, "task"), took.as_secs_f64()));
        let has = |how: How| rows.iter().any(|it| it.how == how);
        if has(How::Cancelled) {
            print::err("haft: the same command again continues");
        }
        if has(How::Interrupted) {
            let again = if self.retry { "" } else { "; `--retry` runs it, and those that failed, again" };
            print::err(&format!("haft: an interrupted task may have happened, wholly or in part{again}"));
        } else if has(How::Failed) && !self.retry {
            print::err("haft: `--retry` runs those again that failed");
        }
        let changed = rows.iter().filter(|it| it.changed > 0 && it.landed_before.is_none()).count();
        if changed > 0 {
            let what = counted(changed, "task");
            print::err(&format!(
                "haft: {what} changed files, which stay with the results; the same command with `--land` lets them land here"
            ));
        }
        let before = |is: fn(&Landing) -> bool| {
            rows.iter().filter_map(|it| it.landed_before.as_ref()).filter(|it| is(it)).count()
        };
        let undone = before(|it| it.is_undone);
        if undone > 0 {
            let what = counted(undone, "task");
            print::err(&format!(
                "haft: the changes of {what} were undone here; the same command with `--land` lets them land again"
            ));
        }
        let refused = before(|it| it.refused > 0 && !it.is_undone);
        if refused > 0 {
            let what = counted(refused, "task");
            print::err(&format!(
                "haft: files of {what} were refused here before; the same command with `--land` shows why, and tries again"
            ));
        }
    }
}
