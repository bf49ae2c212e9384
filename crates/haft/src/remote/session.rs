//! One session or call on a worker: makes the workspace, runs it, sends its events, and sends back what it changed.
//!
//! The lease is renewed all the time. Work whose lease is lost, or which is cancelled, is stopped at once.

use std::{
    borrow::Cow,
    future::Future,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use engine::{Engine, Error, Grain, Key, Lease, Outcome, Stop, Work};
use kit::{Fault, Kind};
use runtime::Runtime;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    CallResult, RemoteCall, Task, Travel,
    child::{Child, Start},
    folders::{WorkFolder, WorkerFolder},
};
use crate::{agent_options::AgentOptions, print};

/// Pause before a request that did not reach the engine is repeated.
const AGAIN: Duration = Duration::from_millis(200);

/// The parts that all sessions of a worker share.
pub(super) struct Shared {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) folder: WorkerFolder,
    /// Knows the worker's secrets, which do not travel.
    pub(super) runtime: Runtime,
    /// The worker's id, for the sender.
    pub(super) id: String,
    /// The worker's global options, as arguments.
    pub(super) arguments: Vec<String>,
    /// The worker's own options of agents.
    pub(super) agent: AgentOptions,
    /// `max_steps` of the worker's configuration.
    pub(super) steps: Option<usize>,
    /// Cancelled when the worker is to end at once.
    pub(super) stop: CancellationToken,
}

/// The result of a session that came to its end, as the sender gets it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionResult {
    /// The last event of the session, `ended`.
    pub(crate) ended: Value,
    /// The exit code of `haft run`.
    pub(crate) code: u8,
    /// The id of the worker that ran it.
    pub(crate) worker: String,
    /// Its duration in milliseconds.
    pub(crate) ms: u64,
}

impl SessionResult {
    /// Returns whether the session ended as it was meant to; false if it ended at a limit.
    ///
    /// # Errors
    /// The reason why it failed.
    pub(super) fn is_complete(&self) -> Result<bool, Fault> {
        match self.ended.get("ended").and_then(Value::as_str) {
            Some("done") => Ok(true),
            Some("limit") => Ok(false),
            _ => {
                let why = self.ended.get("error").and_then(|it| it.get("what")).and_then(Value::as_str);
                let why = why.unwrap_or("it did not end");
                Err(Fault::new(Kind::Failed, format!("on {}: {why}", self.worker)))
            }
        }
    }

    /// Returns its last words.
    pub(super) fn text(&self) -> &str {
        self.ended.get("text").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns a number of its usage: `input`, `output`.
    pub(super) fn tokens(&self, kind: &str) -> u64 {
        self.ended.get("usage").and_then(|it| it.get(kind)).and_then(Value::as_u64).unwrap_or_default()
    }

    /// Returns its cost in dollars, if that is known.
    pub(super) fn cost(&self) -> Option<f64> {
        self.ended.get("cost").and_then(Value::as_f64)
    }
}

/// Why a session was stopped.
enum Gone {
    /// The lease is lost: nothing of it is accepted any more.
    Lost(String),
    Cancelled,
    /// The worker ends.
    Stopped,
    Failed(String),
}

/// A lease that is renewed.
struct Leased<'a> {
    engine: &'a dyn Engine,
    stop: &'a CancellationToken,
    lease: Lease,
    /// When the engine accepted a change last.
    renewed: Instant,
}

impl Shared {
    /// Runs this work to its end. Everything that goes wrong is the outcome of the work; a lost lease has none.
    pub(super) async fn run(self: Arc<Self>, work: Work, lease: Lease) {
        let key = work.key.clone();
        let began = Instant::now();
        let mut leased = Leased { engine: &*self.engine, stop: &self.stop, lease, renewed: Instant::now() };
        let mut begun = false;
        let outcome = match self.session(&work, &mut leased, &mut begun).await {
            Ok(outcome) => outcome,
            Err(Gone::Cancelled) => Outcome::Cancelled,
            Err(Gone::Failed(error)) => Outcome::Failed { error },
            Err(Gone::Stopped) if begun => Outcome::Interrupted,
            // It never began: another worker takes it when the lease is over.
            Err(Gone::Stopped) => return print::err(&format!("haft: {key} is left to another worker")),
            Err(Gone::Lost(why)) => return lost(&key, &why),
        };
        let how = how(&outcome);
        match leased.finish(outcome).await {
            Ok(()) => print::err(&format!("haft: {key}: {how}, {:.1} s", began.elapsed().as_secs_f64())),
            Err(Gone::Lost(why) | Gone::Failed(why)) => lost(&key, &why),
            Err(Gone::Cancelled | Gone::Stopped) => {}
        }
    }

    async fn session(&self, work: &Work, leased: &mut Leased<'_>, begun: &mut bool) -> Result<Outcome, Gone> {
        let job = Job::of(work)
            .map_err(|error| Gone::Failed(format!("this worker can't read the task: {error}")))?;
        let folder = self.folder.of_work(&format!("{}-{}", work.key.text(), leased.lease.revision));
        let folder = folder.map_err(|error| Gone::Failed(unwritable(&error)))?;
        let travel = Travel { engine: &self.engine };
        let workspace = folder.workspace();
        let made = match &work.snapshot {
            Some(id) => {
                let made = travel.materialize(id, self.folder.contents(), &workspace);
                Some(leased.during(made).await?.map_err(|it| Gone::Failed(it.as_text()))?)
            }
            None => None,
        };
        let options = self.prepare(work, &job, &folder)?;
        leased.again(async |engine, lease| engine.begin(lease).await).await?;
        *begun = true;
        let limits = folder.beside("limits.json");
        let (command, arguments, input) = job.process();
        let start = Start {
            workspace: &workspace,
            limits: &limits,
            command,
            options: &options,
            arguments: &arguments,
            input: &input,
        };
        let began = Instant::now();
        let mut child =
            Child::start(&start).map_err(|error| Gone::Failed(format!("haft can't be started: {error}")))?;
        let ended = match leased.pass_on(&mut child, &job).await {
            Ok(ended) => ended,
            Err(gone) => {
                child.stop().await;
                return Err(gone);
            }
        };
        let end = leased.during(child.end()).await?.map_err(|error| Gone::Failed(error.to_string()))?;
        let Some(ended) = ended else { return Err(Gone::Failed(no_end(end.code, &end.errors))) };
        let patch = match &made {
            Some(made) => {
                let patch = travel.difference(made, &workspace, &self.runtime);
                leased.during(patch).await?.map_err(|it| Gone::Failed(it.as_text()))?
            }
            None => None,
        };
        let code = end.code.and_then(|it| u8::try_from(it).ok()).unwrap_or(1);
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let worker = self.id.clone();
        let result = match job {
            Job::Session(_) => serde_json::to_value(SessionResult { ended, code, worker, ms }),
            Job::Call(_) => serde_json::to_value(CallResult { answer: ended, code, worker, ms }),
        };
        Ok(Outcome::Done { result: result.unwrap_or_default(), patch })
    }

    /// Writes the files beside the workspace; returns the options of the process.
    fn prepare(&self, work: &Work, job: &Job, folder: &WorkFolder) -> Result<Vec<String>, Gone> {
        let written = |name: &str, value: &Value| {
            let path = folder.beside(name);
            std::fs::write(&path, value.to_string()).map_err(|error| Gone::Failed(unwritable(&error)))?;
            Ok(path)
        };
        written("limits.json", &work.limits)?;
        // Options of the work come later: `--toolset` of the worker is a default only.
        let mut options = self.arguments.clone();
        if job.toolset().is_some() {
            without(&mut options, "--toolset");
        }
        match job {
            Job::Session(task) => {
                options.extend(
                    task.arguments(&self.agent, self.steps).map_err(|it| Gone::Failed(it.as_text()))?,
                );
                if let Some(schema) = &task.schema {
                    let path = written("schema.json", schema)?;
                    options.extend(["--output-schema".to_owned(), path.display().to_string()]);
                }
            }
            Job::Call(call) => {
                options.extend(call.toolset.iter().flat_map(|it| ["--toolset".to_owned(), it.clone()]));
            }
        }
        Ok(options)
    }
}

/// The content of a piece of work.
enum Job {
    Session(Box<Task>),
    Call(RemoteCall),
}

impl Job {
    fn of(work: &Work) -> serde_json::Result<Self> {
        let task = work.task.clone();
        match work.grain {
            Grain::Session => serde_json::from_value(task).map(Self::Session),
            Grain::Call => serde_json::from_value(task).map(Self::Call),
        }
    }

    fn toolset(&self) -> Option<&String> {
        match self {
            Self::Session(task) => task.toolset.as_ref(),
            Self::Call(call) => call.toolset.as_ref(),
        }
    }

    /// Returns the command, its arguments and its standard input.
    fn process(&self) -> (&'static str, Vec<&str>, Cow<'_, str>) {
        match self {
            Self::Session(task) => match &task.piped {
                Some(piped) => ("run", vec![&task.words], Cow::Borrowed(piped.as_str())),
                None => ("run", vec!["-"], Cow::Borrowed(task.words.as_str())),
            },
            Self::Call(call) => ("call", vec![&call.tool, "-"], Cow::Owned(call.arguments.to_string())),
        }
    }
}

impl Leased<'_> {
    /// Renews the lease while this work is done.
    ///
    /// # Errors
    /// When the work must stop.
    async fn during<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Gone> {
        tokio::pin!(work);
        loop {
            let due = (self.engine.lease_length() / 3).saturating_sub(self.renewed.elapsed());
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                () = self.stop.cancelled() => return Err(Gone::Stopped),
                stop = self.engine.cancelled(&self.lease) => match stop {
                    Ok(Stop::Cancelled) => return Err(Gone::Cancelled),
                    Ok(Stop::Lost) => return Err(Gone::Lost("another worker has it".to_owned())),
                    Err(error) => self.unreached(error).await?,
                },
                () = sleep(due) => {
                    if let Err(error) = self.engine.renew(&mut self.lease).await {
                        self.unreached(error).await?;
                    } else {
                        self.renewed = Instant::now();
                    }
                }
            }
        }
    }

    /// Makes a request to the engine, again and again as long as the engine does not answer and the lease may be ours.
    async fn again<T>(
        &mut self,
        request: impl AsyncFn(&dyn Engine, &mut Lease) -> engine::Result<T>,
    ) -> Result<T, Gone> {
        loop {
            match request(self.engine, &mut self.lease).await {
                Ok(done) => {
                    self.renewed = Instant::now();
                    return Ok(done);
                }
                Err(error) => self.unreached(error).await?,
            }
        }
    }

    /// Waits a moment after an error of the engine.
    ///
    /// # Errors
    /// When the lease is over, or repeating it does not help.
    async fn unreached(&self, error: Error) -> Result<(), Gone> {
        match error {
            Error::Unreachable(_) if self.renewed.elapsed() < self.engine.lease_length() => {
                sleep(AGAIN.min(self.engine.lease_length() / 10)).await;
                Ok(())
            }
            Error::Unreachable(why) | Error::Lost { why, .. } => Err(Gone::Lost(why)),
            error => Err(Gone::Failed(error.to_string())),
        }
    }

    /// Sends the events of a session as they come; returns the last one, `ended`. The answer of a call is its only line.
    async fn pass_on(&mut self, child: &mut Child, job: &Job) -> Result<Option<Value>, Gone> {
        let mut ended = None;
        loop {
            let events = self.during(child.events()).await?;
            if events.is_empty() {
                return Ok(ended);
            }
            if matches!(job, Job::Call(_)) {
                ended = events.into_iter().next_back().or(ended);
                continue;
            }
            ended =
                events.iter().rfind(|it| it.get("event").is_some_and(|it| it == "ended")).cloned().or(ended);
            let value = Value::Array(events);
            self.again(async |engine, lease| engine.append(lease, value.clone()).await.map(drop)).await?;
        }
    }

    /// Ends the work.
    async fn finish(&mut self, outcome: Outcome) -> Result<(), Gone> {
        self.again(async |engine, lease| engine.finish(lease, outcome.clone()).await).await
    }
}

fn lost(key: &Key, why: &str) {
    print::err(&format!("haft: {key}: the lease is lost ({why}); its result is not accepted"));
}

/// Removes an option and its value.
fn without(arguments: &mut Vec<String>, option: &str) {
    if let Some(at) = arguments.iter().position(|it| it == option) {
        arguments.drain(at..(at + 2).min(arguments.len()));
    }
}

fn how(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done { result, .. } => {
            let ended = result.get("ended").and_then(|it| it.get("ended")).and_then(Value::as_str);
            let fault =
                result.get("answer").and_then(|it| it.get("fault")).and_then(|it| it.get("kind")?.as_str());
            ended.or(fault).unwrap_or("done").to_owned()
        }
        Outcome::Failed { error } => format!("failed: {error}"),
        Outcome::Interrupted => "interrupted".to_owned(),
        Outcome::Cancelled => "cancelled".to_owned(),
    }
}

fn unwritable(error: &io::Error) -> String {
    format!("the worker's state folder can't be written: {error}")
}

/// Returns the error of a process that printed no last event.
fn no_end(code: Option<i32>, errors: &str) -> String {
    let how = code.map_or_else(|| "was killed".to_owned(), |code| format!("ended with exit code {code}"));
    let last: Vec<&str> = errors.lines().rev().take(5).collect();
    let last = last.into_iter().rev().collect::<Vec<_>>().join("\n");
    if last.is_empty() {
        format!("the session's process {how}")
    } else {
        format!("the session's process {how}:\n{last}")
    }
}
