//! `haft run`: an agent does one task.
//!
//! At a terminal it looks like `haft chat`, without a prompt. Elsewhere the model's text goes to standard output and its
//! calls to standard error, or both as lines of JSON.

mod json;
mod on;
mod others;
mod output;
mod screen;
mod stdin;
mod task;
mod tasks;
mod wait;
mod watch;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use agent::{Agent, AgentError, Bounds, Driver, Ended, Input, Outcome, Settled};
use clap::Args;
use kit::{Fault, Kind};
use runtime::AnswerSchema;
use serde_json::{Value, json};
use sessions::{Began, Owner};
use tokio_util::sync::CancellationToken;

use super::{FAULT, finish, report_ignored, strict::Strict};
use crate::{
    Options, Place,
    agent_factory::{AgentFactory, AgentOptions},
    ask::{approver, somebody},
    print,
    remote::OfWorker,
    session_service::{self, Agents, Person, Running as Shared, Service, View, report::bill},
    terminal::{
        input::restore,
        interrupt::{self, STOPPED},
        plain::{Out, Plain},
        row::{Row, Style},
    },
    workspace_check::{self, Asking},
};
use on::On;
pub(super) use on::tell_landed;
use others::Others;
use output::Done;
use task::{Found, Task};
use watch::{To, Watch};

#[derive(Args)]
pub struct Run {
    #[command(flatten)]
    agent: AgentOptions,
    /// Task; `-` reads it from standard input, and text that is piped in is added to it as data
    task: Option<String>,
    /// Image to attach: png, jpeg, webp or gif; repeatable
    #[arg(short, long = "image", value_name = "FILE")]
    images: Vec<PathBuf>,
    /// Continue the newest conversation of this workspace, or that of `--session`
    #[arg(long)]
    resume: bool,
    /// Don't wait for results of background calls at the end; stop them [default: wait `wait_seconds` of `[agent]`, 600 s]
    #[arg(long)]
    no_wait: bool,
    /// Stay and run the turns that triggers and messages begin, until no trigger is armed or Ctrl-C; the task may be left out
    #[arg(long, conflicts_with_all = ["no_wait", "output_schema"])]
    wait: bool,
    /// Print events as lines of JSON, from `began` to `ended`
    #[arg(long)]
    json: bool,
    /// Require a final answer in JSON that fits the JSON Schema in this file, and print nothing else to standard output
    #[arg(long, value_name = "FILE")]
    output_schema: Option<PathBuf>,
    #[command(flatten)]
    strict: Strict,
    #[command(flatten)]
    remote: On,
    #[command(flatten)]
    of_worker: OfWorker,
}

/// The inputs of a run.
struct Running<'a> {
    options: &'a Options,
    place: &'a Place,
    agent: AgentOptions,
    /// `None` if the conversation continues where it stopped.
    task: Option<Task>,
    resume: bool,
    no_wait: bool,
    wait: bool,
    json: bool,
    schema: Option<AnswerSchema>,
    strict: Strict,
}

impl Run {
    /// # Errors
    /// When no agent can be created, or its model does not answer.
    pub async fn run(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let json = self.json;
        if self.remote.is_alone() {
            return Err(Fault::bad_args("`--engine` has no effect without `--on` or `--tasks`"));
        }
        let narrowed = self.of_worker.narrow(options)?;
        let options = narrowed.as_ref().unwrap_or(options);
        let done = if self.remote.is_asked() {
            self.elsewhere(options, place).await
        } else {
            self.work(options, place).await
        };
        if json && let Err(fault) = &done {
            print::json(&json!({"event": "ended", "ended": "error", "error": error(fault)}));
        }
        done
    }

    async fn work(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let Self { agent, task, images, resume, no_wait, wait, json, output_schema, strict, .. } = self;
        let schema = output_schema.as_deref().map(output::read).transpose()?;
        workspace_check::check(options, place, Asking::Possible)?;
        let at_terminal = !json && schema.is_none() && screen::is_possible(place);
        let stopped = CancellationToken::new();
        let put_back: fn() = if at_terminal { restore } else { || () };
        interrupt::watch(stopped.clone(), put_back).map_err(|error| {
            Fault::new(
                Kind::Unavailable,
                format!("signals can't be handled, so nothing could be stopped: {error}"),
            )
        })?;
        let task = match task::find(task.as_deref(), images, resume || wait, &stopped).await? {
            Found::Task(task) => Some(task),
            Found::Resume => None,
            Found::Stopped => return Ok(ExitCode::from(STOPPED)),
        };
        let running = Running { options, place, agent, task, resume, no_wait, wait, json, schema, strict };
        if at_terminal { running.on_screen(stopped).await } else { running.in_lines(stopped).await }
    }
}

impl Running<'_> {
    async fn in_lines(self, cancel: CancellationToken) -> Result<ExitCode, Fault> {
        let Self { options, place, agent, task, resume, no_wait, wait, json, schema, strict } = self;
        let stays = Stays { waits: wait, begins: task.is_some() || resume };
        let factory = Arc::new(agent.open(options, place, approver()).await?);
        strict.require(&factory.opened, place).await?;
        report_ignored(&factory.opened, strict.strict);
        let name = factory.earlier(resume, options.session.as_deref())?;
        let out = Out::new(cancel.clone());
        let watch = Arc::new(Watch::new(match (json, &schema) {
            (true, _) => To::Json(out, parking_lot::Mutex::default()),
            (false, None) => To::Lines(Plain::new(out)),
            // Standard output contains only the answer.
            (false, Some(_)) => To::Lines(Plain::of_calls(out)),
        }));
        let person = Arc::new(Person { viewer: watch.clone(), is_there: somebody(), shows_texts: false });
        let service = Service::new(&factory.opened.runtime, "run");
        let Shared { mut agent, mut owner, view, notes: lines } =
            service.run(&factory, name.as_deref(), &person).await?;
        lines.iter().for_each(|it| print::err(&format!("haft: {it}")));
        let (input, for_one_turn) = match task {
            Some(task) => {
                task.input(&factory, &agent, &cancel).await.map(|(input, turn)| (Some(input), turn))?
            }
            None => (None, None),
        };
        let mut began =
            json!({"event": "began", "session": agent.session().name(), "model": agent.model().name()});
        if let (Some(attached), Some(began)) = (input.as_ref().map(Input::attached), began.as_object_mut())
            && !attached.is_empty()
        {
            began.insert("attached".to_owned(), json!(attached));
        }
        watch.line(&began);
        let mut driver = factory.driver(no_wait);
        let work =
            of_owner(&owner, &service, &mut driver, &mut agent, input, (schema.as_ref(), stays), &cancel);
        let done = view.after(work).await;
        for_one_turn.map_or(Ok(()), |it| it.end(&agent))?;
        watch.end();
        if done.is_ok() && !cancel.is_cancelled() {
            watch.leaves_to_others();
            others(&factory, &mut owner, &mut agent, &mut driver, &view, &cancel).await?;
        }
        drop(view);
        session_service::close(owner, service.who()).await;
        close(&factory, &agent, &done).await?;
        let goes_on = AgentFactory::goes_on("run", options, &agent);
        tell(&watch, &agent, done, &factory.bounds(), &goes_on)
    }
}

/// Whether a run begins with a turn, and whether it stays after it.
#[derive(Clone, Copy)]
struct Stays {
    waits: bool,
    begins: bool,
}

/// Works on the task as the turn of a session that others can watch, and stop.
async fn of_owner(
    owner: &Owner,
    service: &Service,
    driver: &mut Driver,
    agent: &mut Agent,
    input: Option<Input>,
    (schema, stays): (Option<&AnswerSchema>, Stays),
    cancel: &CancellationToken,
) -> Result<Done, AgentError> {
    if !stays.begins {
        return wait::wait(owner, service, driver, agent, Done::nothing(), cancel).await;
    }
    let text = input.as_ref().map_or_else(String::new, |it| it.words().to_owned());
    let attached = input.as_ref().map(|it| it.attached().to_vec()).unwrap_or_default();
    let began = Began { by: service.who().to_owned(), text, attached, ..Began::default() };
    let turn = owner.begin_turn(agent, began);
    let stopped = turn.cancel().clone();
    let done = {
        let work = output::work(driver, agent, input, schema, cancel);
        tokio::pin!(work);
        tokio::select! {
            done = &mut work => done,
            () = stopped.cancelled() => {
                cancel.cancel();
                work.await
            }
        }
    };
    match &done {
        Ok(done) => turn.end(&Ok(done.settled.outcome.clone())),
        Err(error) => turn.failed(error),
    };
    match done {
        Ok(done) if stays.waits => wait::wait(owner, service, driver, agent, done, cancel).await,
        done => done,
    }
}

/// Does what attached people asked for meanwhile, and shows it.
async fn others(
    factory: &Arc<AgentFactory>,
    owner: &mut Owner,
    agent: &mut Agent,
    driver: &mut Driver,
    view: &View,
    cancel: &CancellationToken,
) -> Result<(), Fault> {
    let opener = Agents(factory.clone());
    let records = session_service::records(&factory.opened.runtime);
    let others = Others { owner, agent, driver, opener: &opener, records: &*records };
    view.after(others.work(cancel)).await
}

/// Ends the session, and reports which of its jobs end with it.
async fn close(factory: &AgentFactory, agent: &Agent, done: &Result<Done, AgentError>) -> Result<(), Fault> {
    let left = agent.session().running_jobs();
    if !left.is_empty() {
        let late = done.as_ref().is_ok_and(|it| !it.settled.late.is_empty());
        let why = if late { "not over in time" } else { "still running" };
        let were = if left.len() == 1 { "was" } else { "were" };
        print::err(&format!("haft: stopped with this run: {} ({were} {why})", left.join(", ")));
    }
    factory.keep(agent)?;
    finish(agent.session()).await;
    Ok(())
}

/// Prints the result, and returns the exit code for it.
fn tell(
    watch: &Watch,
    agent: &Agent,
    done: Result<Done, AgentError>,
    bounds: &Bounds,
    goes_on: &str,
) -> Result<ExitCode, Fault> {
    let Done { settled: Settled { outcome, late, .. }, output } = done.map_err(|error| {
        let fault = fault(error);
        let next = fault.next.as_deref().map_or_else(String::new, |it| format!("{it}\n"));
        fault.next(format!("{next}To continue: {goes_on}"))
    })?;
    let denied = watch.denied();
    let misfit = match &output {
        Some(Err(why)) => Some(output::misfit(why)),
        _ => None,
    };
    let mut ended = json!({"event": "ended", "session": agent.session().name()});
    if let (Value::Object(all), Value::Object(more)) = (&mut ended, json!(outcome)) {
        all.extend(more);
        all.insert("denied".to_owned(), json!(denied));
        if !late.is_empty() {
            all.insert("late".to_owned(), json!(late));
        }
        if let Some(Ok(value)) = &output {
            all.insert("output".to_owned(), value.clone());
        }
        if let Some(fault) = &misfit {
            all.insert("ended".to_owned(), json!("error"));
            all.insert("error".to_owned(), error(fault));
        }
    }
    watch.line(&ended);
    if let (Some(Ok(value)), false) = (&output, watch.is_json()) {
        print::json(value);
    }
    let bill = bill(outcome.steps, &outcome.usage, outcome.cost);
    // A terminal cuts its lines in the middle of a word.
    let columns = if watch.is_drawn() {
        crossterm::terminal::size().map_or(80, |it| usize::from(it.0))
    } else {
        usize::MAX
    };
    let say = |text: &str| {
        let rows = Row::new(text, Style::PLAIN).wrapped(columns, 2);
        rows.iter().for_each(|it| print::err(&it.text()));
    };
    if !denied.is_empty() {
        let (calls, were) = if denied.len() == 1 { ("call", "was") } else { ("calls", "were") };
        let tools: Vec<&str> = denied.iter().map(|it| it.tool.as_str()).collect();
        say(&format!("haft: {} {calls} {were} denied: {}", denied.len(), tools.join(", ")));
    }
    if let Some(fault) = &misfit {
        print::fault(fault);
    }
    let (how, code) = match outcome.ended {
        Ended::Done if misfit.is_some() => (format!("no answer that fits; {bill}"), ExitCode::from(FAULT)),
        Ended::Done if outcome.steps == 0 => {
            let what = "nothing to resume: the last turn of this conversation is complete";
            (format!("{what}. To go on with it: {goes_on} \"TASK\""), ExitCode::SUCCESS)
        }
        Ended::Done => (format!("done: {bill}"), ExitCode::SUCCESS),
        Ended::Cancelled => (format!("stopped; {bill}"), ExitCode::from(STOPPED)),
        Ended::Limit => (format!("{}; {bill}", limit(&outcome, bounds)), ExitCode::from(FAULT)),
        Ended::Refused => (format!("the provider refused to go on; {bill}"), ExitCode::from(FAULT)),
    };
    say(&format!("haft: {how}"));
    if misfit.is_some() || matches!(outcome.ended, Ended::Cancelled | Ended::Limit) {
        print::err(&format!("haft: to continue: {goes_on}"));
    }
    Ok(code)
}

/// Returns the limit that stopped a turn.
fn limit(outcome: &Outcome, bounds: &Bounds) -> &'static str {
    let tokens = outcome.usage.request() + outcome.usage.output;
    if outcome.steps >= bounds.steps {
        "stopped: --max-steps reached"
    } else if bounds.tokens.is_some_and(|most| tokens >= most) {
        "stopped: --max-tokens reached"
    } else if bounds.time.is_some() {
        "stopped: --max-seconds reached"
    } else {
        "stopped: three answers in a row were cut off at the model's longest"
    }
}

/// Returns a fault as JSON.
fn error(fault: &Fault) -> Value {
    json!({"kind": fault.kind, "what": fault.what, "next": fault.next})
}

/// Returns the fault for a turn that could not continue, as every command reports it.
pub(crate) fn fault(error: AgentError) -> Fault {
    match error {
        AgentError::Transcript(fault) => fault,
        AgentError::Model(error) => {
            let fault = Fault::new(Kind::Unavailable, error.what);
            match error.next {
                Some(next) => fault.next(next),
                None => fault,
            }
        }
    }
}
