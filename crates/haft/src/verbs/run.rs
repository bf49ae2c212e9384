//! `haft run`: an agent does one task.

use std::{io::Read, process::ExitCode, sync::Arc};

use agent::{Agent, AgentError, Bounds, Ended, Event, Host, Outcome, model::Usage};
use clap::Args;
use kit::{Fault, Kind};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{FAULT, finish};
use crate::{
    Options, Place,
    agency::{Agency, AgentOptions},
    ask::{approver, asker},
    print,
    terminal::{
        interrupt::{self, STOPPED},
        plain::{Out, Plain},
        short,
    },
};

#[derive(Args)]
pub struct Run {
    #[command(flatten)]
    agent: AgentOptions,
    /// What to do; `-` reads it from standard input.
    task: Option<String>,
    /// Go on with the newest conversation of this workspace, or that of `--session`.
    #[arg(long)]
    resume: bool,
    /// Print what happens as lines of JSON: one event each, from `began` to `ended`.
    #[arg(long)]
    json: bool,
}

impl Run {
    /// # Errors
    /// When there is no agent to be had, or its model does not answer.
    pub async fn run(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let json = self.json;
        let done = self.work(options, place).await;
        if json && let Err(fault) = &done {
            let error = json!({"kind": fault.kind, "what": fault.what, "next": fault.next});
            print::out(&json!({"event": "ended", "ended": "error", "error": error}).to_string());
        }
        done
    }

    async fn work(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let task = task(self.task.as_deref(), self.resume)?;
        let cancel = CancellationToken::new();
        interrupt::watch(cancel.clone(), || ()).map_err(|error| unheard(&error))?;
        let agency = self.agent.open(options, place, approver()).await?;
        for line in &agency.opened.aside {
            print::err(&format!("haft: {line}"));
        }
        let name = agency.earlier(self.resume, options.session.as_deref())?;
        let session = agency.session(name.as_deref(), "run", approver());
        let heard: Arc<Heard> = Arc::new(Heard::new(self.json, cancel.clone()));
        let (mut agent, lines) = agency.agent(session, heard.clone(), asker())?;
        lines.iter().for_each(|it| print::err(&format!("haft: {it}")));
        let (name, model) = (agent.session().name().to_owned(), agent.steering().model());
        heard.line(&json!({"event": "began", "session": name, "model": model.name()}));
        let outcome = with_those_below(&mut agent, task, &cancel).await;
        heard.end();
        let left = agent.session().running_jobs();
        if !left.is_empty() {
            print::err(&format!("haft: ended with it: {}", left.join(", ")));
        }
        agency.keep(&agent)?;
        finish(agent.session()).await;
        let goes_on = Agency::goes_on("run", options, &agent);
        tell(&heard, &agent, outcome, &agency.bounds(), &goes_on)
    }
}

/// The tools by which one agent has another do something.
const BELOW: [&str; 4] = ["subagent", "spawn_agent", "explore", "critic"];

/// A turn; and as long as agents that it started in the background still work, another once one of them is done.
async fn with_those_below(
    agent: &mut Agent,
    task: Option<String>,
    cancel: &CancellationToken,
) -> Result<Outcome, AgentError> {
    let mut ends = agent.session().events();
    let mut all = agent.turn(task, cancel).await?;
    let mut worked = false;
    while all.ended == Ended::Done {
        let work = !agent.pending(&BELOW).is_empty();
        worked |= work;
        if worked && agent.session().has_news() {
            let more = agent.turn(None, cancel).await?;
            all.ended = more.ended;
            all.text = more.text;
            all.steps += more.steps;
            all.usage += more.usage;
            all.cost = all.cost.zip(more.cost).map(|(one, other)| one + other);
        } else if work {
            tokio::select! {
                // Whoever has missed an event asks what is pending all the same.
                _ = ends.recv() => {}
                () = cancel.cancelled() => all.ended = Ended::Cancelled,
            }
        } else {
            break;
        }
    }
    Ok(all)
}

/// Tells what came of it, and gives the exit code that says so too.
fn tell(
    heard: &Heard,
    agent: &Agent,
    outcome: Result<Outcome, AgentError>,
    bounds: &Bounds,
    goes_on: &str,
) -> Result<ExitCode, Fault> {
    let outcome = outcome.map_err(fault)?;
    let mut ended = json!({"event": "ended", "session": agent.session().name()});
    if let (Value::Object(all), Value::Object(more)) = (&mut ended, json!(outcome)) {
        all.extend(more);
    }
    heard.line(&ended);
    let (how, code) = match outcome.ended {
        Ended::Done => ("done", ExitCode::SUCCESS),
        Ended::Cancelled => ("stopped", ExitCode::from(STOPPED)),
        Ended::Limit => (limit(&outcome, bounds), ExitCode::from(FAULT)),
        Ended::Refused => ("the provider refused to go on", ExitCode::from(FAULT)),
    };
    print::err(&format!("haft: {how}: {}", bill(outcome.steps, &outcome.usage, outcome.cost)));
    if matches!(outcome.ended, Ended::Cancelled | Ended::Limit) {
        print::err(&format!("haft: `{goes_on}` goes on"));
    }
    Ok(code)
}

/// Which limit stopped a turn.
fn limit(outcome: &Outcome, bounds: &Bounds) -> &'static str {
    let tokens = outcome.usage.request() + outcome.usage.output;
    if outcome.steps >= bounds.steps {
        "stopped at as many steps as it may take (--max-steps)"
    } else if bounds.tokens.is_some_and(|most| tokens >= most) {
        "stopped at as many tokens as it may use (--max-tokens)"
    } else if bounds.time.is_some() {
        "stopped at as long as it may take (--max-seconds)"
    } else {
        "stopped, as its answers were cut off at their longest"
    }
}

/// What is to be done.
fn task(task: Option<&str>, resume: bool) -> Result<Option<String>, Fault> {
    let text = match task {
        Some("-") => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(|error| {
                Fault::new(Kind::Unavailable, format!("can't read the task from standard input: {error}"))
            })?;
            text
        }
        Some(text) => text.to_owned(),
        None if resume => return Ok(None),
        None => {
            return Err(Fault::bad_args("there is nothing to do")
                .next("Say what: `haft run \"fix the failing test\"`; `-` reads it from standard input, `--resume` goes on."));
        }
    };
    if text.trim().is_empty() {
        return Err(
            Fault::bad_args("the task is empty").next("Say what to do: `haft run \"fix the failing test\"`.")
        );
    }
    Ok(Some(text))
}

fn unheard(error: &std::io::Error) -> Fault {
    Fault::new(Kind::Unavailable, format!("signals can't be heard, so nothing could be stopped: {error}"))
}

/// What a turn took, in a line.
pub(crate) fn bill(steps: usize, usage: &Usage, cost: Option<f64>) -> String {
    let steps = format!("{steps} {}", if steps == 1 { "step" } else { "steps" });
    let tokens = format!("{} tokens in, {} out", short::count(usage.request()), short::count(usage.output));
    let cost = cost.map_or_else(String::new, |it| format!(", {}", short::dollars(it)));
    format!("{steps}, {tokens}{cost}")
}

/// Why a turn could not go on, as every verb tells it.
pub(crate) fn fault(error: AgentError) -> Fault {
    match error {
        AgentError::Kept(fault) => fault,
        AgentError::Model(error) => {
            let fault = Fault::new(Kind::Unavailable, error.what);
            match error.next {
                Some(next) => fault.next(next),
                None => fault,
            }
        }
    }
}

/// Whoever follows, in lines of text or of JSON.
struct Heard {
    plain: Option<Plain>,
    out: Out,
}

impl Heard {
    fn new(json: bool, gone: CancellationToken) -> Self {
        let plain = (!json).then(|| Plain::new(Out::new(gone.clone())));
        Self { plain, out: Out::new(gone) }
    }

    /// A line for a program.
    fn line(&self, value: &Value) {
        if self.plain.is_none() {
            self.out.write(&format!("{value}\n"));
        }
    }

    fn end(&self) {
        if let Some(plain) = &self.plain {
            plain.end();
        }
    }
}

impl Host for Heard {
    fn hear(&self, event: Event) {
        match &self.plain {
            Some(plain) => plain.hear(event),
            None => self.line(&json!(event)),
        }
    }
}
