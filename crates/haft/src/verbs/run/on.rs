//! `haft run --on`: the task runs on another machine, and its changes land here.

use std::{collections::BTreeSet, process::ExitCode, sync::Arc};

use agent::{Event, Observer as _};
use clap::Args;
use engine::{Key, Outcome};
use kit::{Fault, Kind, counted};
use parking_lot::Mutex;
use runtime::Session;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Run,
    stdin::{self, Came},
    tasks::Batch,
};
use crate::{
    Opened, Options, Place,
    agent_factory::AgentOptions,
    ask::approver,
    print,
    remote::{self, Followed, Landed, Sender, SessionResult, Task, Travel, labels},
    session_service::report::bill,
    terminal::{
        interrupt::{self, STOPPED},
        plain::{Out, Plain},
    },
    verbs::{FAULT, close, report_ignored},
    workspace_check::{self, Asking},
};

/// The heading of these options in the help.
const MACHINES: &str = "Other machines";

/// Options that send a task to other machines.
#[derive(Debug, Default, Args)]
pub(super) struct On {
    /// Run it on a worker with these labels: `gpu,linux`, `any`; what it changes lands here
    #[arg(help_heading = MACHINES, long, value_name = "LABELS", value_parser = labels, conflicts_with_all = ["images", "resume", "wait"])]
    on: Option<BTreeSet<String>>,
    /// Run many tasks on workers: lines of {"task": …} from this file; the same command again continues
    #[arg(help_heading = MACHINES, long, value_name = "FILE", conflicts_with_all = ["task", "images", "resume", "wait"])]
    tasks: Option<std::path::PathBuf>,
    /// Let the changes of the tasks land here, one task after the other
    #[arg(help_heading = MACHINES, long, requires = "tasks")]
    land: bool,
    /// Run tasks again that failed or were interrupted
    #[arg(help_heading = MACHINES, long, requires = "tasks")]
    retry: bool,
    /// Engine: `nats://HOST:PORT`, or `sqlite` for this machine [default: `engine` in haft.toml, else sqlite]
    #[arg(help_heading = MACHINES, long, value_name = "URL")]
    engine: Option<String>,
}

impl On {
    /// Returns whether an engine is named, and nothing to send to it.
    pub(super) fn is_alone(&self) -> bool {
        self.engine.is_some() && !self.is_asked()
    }

    /// Returns whether the task goes to another machine.
    pub(super) fn is_asked(&self) -> bool {
        self.on.is_some() || self.tasks.is_some()
    }
}

/// The sender of a workspace whose content the engine has.
pub(super) struct Ready {
    pub(super) opened: Opened,
    pub(super) sender: Sender,
    /// Cancelled by a signal.
    pub(super) cancel: CancellationToken,
}

impl Run {
    /// Runs the task, or the file of tasks, on other machines.
    pub(super) async fn elsewhere(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        workspace_check::check(options, place, Asking::Possible)?;
        let cancel = CancellationToken::new();
        interrupt::watch(cancel.clone(), || ()).map_err(|error| {
            Fault::new(
                Kind::Unavailable,
                format!("signals can't be handled, so nothing could be stopped: {error}"),
            )
        })?;
        if let Some(file) = &self.remote.tasks {
            let tasks = super::tasks::read(file)?;
            let ready = self.ready(options, place, &cancel).await?;
            let batch = Batch {
                ready: &ready,
                agent: &self.agent,
                schema: self.schema()?,
                toolset: options.toolset.clone(),
                name: options.session.clone().unwrap_or_default(),
                no_wait: self.no_wait,
                land: self.remote.land,
                records: store::folder_of(&place.state, ready.opened.runtime.roots().workspace()),
                retry: self.remote.retry,
                json: self.json,
            };
            let done = batch.run(tasks).await;
            close(&ready.opened.runtime);
            return done;
        }
        if options.session.is_some() {
            return Err(Fault::bad_args("a session on another machine has a name of its own")
                .next("Leave out `--session`."));
        }
        let Some((words, piped)) = words(self.task.as_deref(), &cancel).await? else {
            return Ok(ExitCode::from(STOPPED));
        };
        let task = Task {
            piped,
            schema: self.schema()?,
            toolset: options.toolset.clone(),
            no_wait: self.no_wait,
            ..Task::new(words, &self.agent)
        };
        task.check()?;
        let ready = self.ready(options, place, &cancel).await?;
        let done = self.one(&ready, &task).await;
        close(&ready.opened.runtime);
        done
    }

    /// Returns the JSON Schema of `--output-schema`.
    fn schema(&self) -> Result<Option<Value>, Fault> {
        let schema = self.output_schema.as_deref().map(super::output::read).transpose()?;
        Ok(schema.map(|it| (**it.schema()).clone()))
    }

    /// Opens the engine and the workspace, and stores the workspace's content.
    async fn ready(
        &self,
        options: &Options,
        place: &Place,
        cancel: &CancellationToken,
    ) -> Result<Ready, Fault> {
        let engine = remote::open(self.remote.engine.as_deref(), place).await?;
        let limits = remote::limits(&options.config(place)?)?;
        let opened = options.open(place)?;
        opened.runtime.load_tools().await;
        self.strict.require(&opened, place).await?;
        report_ignored(&opened, self.strict.strict);
        let needs = remote::needs(&opened, self.agent.profile.as_deref());
        let labels = self.remote.on.clone().unwrap_or_default();
        let snapshot = Travel { engine: &engine }.take(&opened.runtime, place).await?;
        let sender = Sender { engine, labels, needs, snapshot, limits };
        Ok(Ready { opened, sender, cancel: cancel.clone() })
    }

    async fn one(&self, ready: &Ready, task: &Task) -> Result<ExitCode, Fault> {
        let name = ready.opened.runtime.store().call_id().replacen("c_", "s_", 1);
        let work = ready.sender.work(Key { session: name, step: 0, call: 0, attempt: 0 }, task, false)?;
        let shows = Arc::new(Shows::new(self.json, task.schema.is_some(), ready.cancel.clone()));
        ready.sender.offer(&work).await?;
        let (outcome, status) =
            ready.sender.follow(&work, &ready.cancel, |followed| shows.see(followed)).await?;
        shows.end();
        let (result, patch) = match outcome {
            Outcome::Done { result, patch } => (remote::result_of::<SessionResult>(result)?, patch),
            Outcome::Cancelled => return Ok(self.stopped()),
            Outcome::Failed { error } => {
                return Err(Fault::new(Kind::Failed, error).next("Nothing was changed here."));
            }
            Outcome::Interrupted => return Err(interrupted()),
        };
        let landed = match &patch {
            Some(patch) => {
                let session = session(&ready.opened);
                let landed = Travel { engine: &ready.sender.engine }
                    .land(patch, &session, &CancellationToken::new())
                    .await;
                super::finish(&session).await;
                landed?
            }
            None => Vec::new(),
        };
        if self.json {
            print::json(&with_landed(&result, &landed, status.retries));
        }
        tell(&result, &landed, task.schema.is_some() && !self.json)
    }

    fn stopped(&self) -> ExitCode {
        if self.json {
            print::json(&json!({"event": "ended", "ended": "cancelled"}));
        }
        print::err("haft: stopped; nothing was changed here");
        ExitCode::from(STOPPED)
    }
}

/// Returns the session in whose name changes land.
pub(super) fn session(opened: &Opened) -> Session {
    opened.runtime.session(None, "run", approver())
}

/// Returns the fault of a session whose worker was lost.
pub(super) fn interrupted() -> Fault {
    Fault::new(Kind::Failed, "the worker was lost after the task had begun: it may have happened, wholly or in part").next(
        "Its changes of files are lost with it. Look at what it may have done elsewhere before you run it again.",
    )
}

/// Returns the words of the task and the piped text; none if somebody stopped it.
async fn words(
    typed: Option<&str>,
    cancel: &CancellationToken,
) -> Result<Option<(String, Option<String>)>, Fault> {
    let came = match typed {
        Some("-") => stdin::whole(cancel).await?,
        _ => stdin::piped(cancel).await?,
    };
    let piped = match came {
        Came::Stopped => return Ok(None),
        Came::Bytes(bytes) => Some(String::from_utf8(bytes).map_err(|_| {
            Fault::bad_args("standard input is not UTF-8 text")
                .next("Put it into a file of the workspace, and name the file in the task.")
        })?),
        Came::Nothing | Came::Silent => None,
    };
    match (typed.filter(|it| *it != "-"), piped) {
        (Some(words), piped) if !words.trim().is_empty() => Ok(Some((words.to_owned(), piped))),
        (None, Some(piped)) if !piped.trim().is_empty() => Ok(Some((piped, None))),
        _ => Err(Fault::bad_args("there is no task")
            .next("Give one: `haft run --on LABELS \"fix the failing test\"`.")),
    }
}

/// Shows what happens on the other machine as `haft run` shows it here.
struct Shows {
    to: To,
    gone: CancellationToken,
    worker: Mutex<Option<String>>,
}

enum To {
    Lines(Plain),
    Json(Out),
}

impl Shows {
    fn new(as_json: bool, only_calls: bool, gone: CancellationToken) -> Self {
        let out = Out::new(gone.clone());
        let to = if as_json { To::Json(out) } else { To::Lines(Plain::of_another_machine(out, only_calls)) };
        Self { to, gone, worker: Mutex::default() }
    }

    fn see(&self, followed: Followed) {
        match followed {
            Followed::Event(event) => self.event(event),
            Followed::Taken { worker } => {
                let before = self.worker.lock().replace(worker.clone());
                let again = if before.is_some() { "; the worker before it was lost" } else { "" };
                print::err(&format!("haft: runs on {worker}{again}"));
            }
            Followed::Waits(why) => {
                let stop = if self.gone.is_cancelled() { "" } else { " (Ctrl-C stops the wait)" };
                print::err(&format!("haft: waiting: {why}{stop}"));
            }
            Followed::Unreachable(why) => print::err(&format!("haft: {why}; trying again")),
        }
    }

    fn event(&self, event: Value) {
        match &self.to {
            // The last event is printed once the changes have landed.
            To::Json(out) if event.get("event").is_none_or(|it| it != "ended") => {
                out.write(&(print::line_of_json(&event) + "\n"));
            }
            To::Json(_) => {}
            To::Lines(plain) => {
                if let Ok(event) = serde_json::from_value::<Event>(event) {
                    plain.observe(event);
                }
            }
        }
    }

    fn end(&self) {
        if let To::Lines(plain) = &self.to {
            plain.end();
        }
    }
}

/// Returns the last event of the session, with what landed.
pub(super) fn with_landed(result: &SessionResult, landed: &[Landed], retries: u32) -> Value {
    let mut ended = result.ended.clone();
    if let Value::Object(all) = &mut ended {
        all.insert("worker".to_owned(), json!(result.worker));
        all.insert("ms".to_owned(), json!(result.ms));
        if retries > 0 {
            all.insert("retries".to_owned(), json!(retries));
        }
        all.insert("landed".to_owned(), json!(landed));
    }
    ended
}

/// Prints the result of one task, and returns its exit code.
fn tell(result: &SessionResult, landed: &[Landed], answers: bool) -> Result<ExitCode, Fault> {
    let ended = &result.ended;
    let text = |name: &str| ended.get(name).and_then(Value::as_str).unwrap_or_default();
    let refused = tell_landed(landed);
    if answers && let Some(output) = ended.get("output") {
        print::json(output);
    }
    if let Some(error) = ended.get("error").filter(|it| !it.is_null()) {
        let part = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let fault = Fault::new(Kind::Failed, format!("on {}: {}", result.worker, part("what")));
        let next = part("next");
        return Err(if next.is_empty() { fault } else { fault.next(next) });
    }
    let usage =
        ended.get("usage").cloned().and_then(|it| serde_json::from_value(it).ok()).unwrap_or_default();
    let steps = ended.get("steps").and_then(Value::as_u64).unwrap_or_default();
    let bill =
        bill(usize::try_from(steps).unwrap_or_default(), &usage, ended.get("cost").and_then(Value::as_f64));
    let how = match text("ended") {
        "done" => "done",
        "cancelled" => "stopped",
        "limit" => "stopped: a limit was reached",
        "refused" => "the provider refused to go on",
        other => other,
    };
    print::err(&format!("haft: {how} on {}: {bill}", result.worker));
    Ok(if result.code == 0 && refused > 0 { ExitCode::from(FAULT) } else { ExitCode::from(result.code) })
}

/// Prints what landed and what was refused; returns the number of files that were refused.
pub(in crate::verbs) fn tell_landed(landed: &[Landed]) -> usize {
    let refused: Vec<&Landed> = landed.iter().filter(|it| it.refused.is_some()).collect();
    if let Some(files) = named(landed.iter().filter(|it| it.is_changed())) {
        print::err(&format!("haft: changed {files}; `haft undo` takes it back"));
    }
    if let Some(files) = named(landed.iter().filter(|it| it.already)) {
        print::err(&format!("haft: not written, as it was so already: {files}"));
    }
    for it in &refused {
        let why = it.refused.as_deref().unwrap_or_default();
        print::err(&format!("haft: not changed: {}: {why}", it.path));
    }
    refused.len()
}

/// Returns the number of these files and the first of their names; `None` if there are none.
fn named<'a>(files: impl Iterator<Item = &'a Landed>) -> Option<String> {
    const NAMED: usize = 8;
    let paths: Vec<&str> = files.map(|it| it.path.as_str()).collect();
    let first = paths.get(..NAMED.min(paths.len())).unwrap_or_default().join(", ");
    let more = if paths.len() > NAMED { ", …" } else { "" };
    (!paths.is_empty()).then(|| format!("{}: {first}{more}", counted(paths.len(), "file")))
}

/// Returns the options of an agent, with those of one task over them.
pub(super) fn over(agent: &AgentOptions, task: &super::tasks::Line) -> AgentOptions {
    AgentOptions {
        model: task.model.clone().or_else(|| agent.model.clone()),
        profile: task.profile.clone().or_else(|| agent.profile.clone()),
        max_steps: task.max_steps.or(agent.max_steps),
        ..agent.clone()
    }
}
