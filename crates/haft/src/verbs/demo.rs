//! `haft demo`: a scripted model fixes a failing test with the real tools, in a project of its own.
//!
//! It needs no key, no network and no program but `sh`. It changes nothing but its folder and the log of that folder. The
//! exit code is 0 only if the test passes at the end.

mod project;
mod texts;

use std::{process::ExitCode, sync::Arc};

use agent::{
    Agent, AgentError, Ended, Observer, Outcome,
    model::{script::Script, usual},
};
use clap::Args;
use kit::{Fault, Kind};
use runtime::{Call, Session, Unattended};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{FAULT, finish, run::fault};
use crate::{
    ApproveArg, Options, Place, SandboxArg,
    agent_factory::{AgentFactory, AgentOptions},
    print,
    terminal::{
        asking::InChat,
        chat::{Front, Settings},
        input::restore,
        interrupt::{self, STOPPED},
        plain::{Out, Plain},
        row::{Row, Style},
    },
};
use project::Project;
use texts::Ending;

/// The script of the model's answers.
const SCRIPT: &str = include_str!("demo/script.jsonl");

/// The task that the model gets.
const TASK: &str = "The test fails. Find out why and fix it.";

/// The parts of the sandbox that a machine may lack, such as a container without user namespaces.
const PARTS: [&str; 4] = ["namespaces", "landlock", "signals", "seccomp"];

#[derive(Args)]
pub struct Demo {
    /// Remove the project and its log at the end
    #[arg(long)]
    remove: bool,
}

/// How the demo's commands are confined.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Confined {
    /// In the full sandbox, as in every workspace.
    Fully,
    /// In the sandbox without the parts that this machine lacks, with the reason.
    Weaker(String),
    /// Outside the sandbox, with the reason.
    Not(String),
}

impl Demo {
    /// Plays the demo.
    ///
    /// # Errors
    /// When no project can be made, or no command can be run.
    pub async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        if let Some(dir) = &options.dir {
            return Err(Fault::bad_args(format!(
                "`haft demo` makes a project of its own, so `--dir {}` has no effect",
                dir.display()
            ))
            .next("Leave it out; for a task in that folder: `haft run \"…\"`."));
        }
        let project = Project::make(place)?;
        let has_key =
            options.agents(place).is_ok_and(|(agents, _)| usual(agents.choices(&place.variables)).is_some());
        let done = self.play(&project, options, has_key).await;
        // `--remove` also applies to a stopped or failed demo.
        if self.remove {
            project.remove();
        }
        done
    }

    async fn play(&self, project: &Project, options: &Options, has_key: bool) -> Result<ExitCode, Fault> {
        let stopped = CancellationToken::new();
        let screen = is_screen(&project.place);
        let put_back: fn() = if screen { restore } else { || () };
        interrupt::watch(stopped.clone(), put_back).map_err(|error| {
            Fault::new(
                Kind::Unavailable,
                format!("signals can't be handled, so nothing could be stopped: {error}"),
            )
        })?;
        let (factory, session, confined) = confined(project, options).await?;
        show(&texts::beginning(project, &confined), screen);
        let outcome = if screen {
            on_screen(&factory, &session, project, stopped.clone()).await
        } else {
            in_lines(&factory, &session, stopped.clone()).await
        };
        let works = outcome.is_ok() && passes(&session).await;
        finish(&session).await;
        let outcome = outcome?;
        if outcome.ended == Ended::Cancelled || stopped.is_cancelled() {
            print::err("haft: stopped");
            return Ok(ExitCode::from(STOPPED));
        }
        let ending = Ending { project, confined: &confined, works, has_key, removed: self.remove };
        show(&ending.text(), screen);
        Ok(if works { ExitCode::SUCCESS } else { ExitCode::from(FAULT) })
    }
}

/// Opens the project so that its commands run: in the full sandbox, else with the parts of the sandbox that this machine
/// has. Only the commands of the script run, and only in the project, so running them without the sandbox is safe here.
async fn confined(project: &Project, options: &Options) -> Result<(AgentFactory, Session, Confined), Fault> {
    let weaker = PARTS.map(str::to_owned).to_vec();
    let attempts = [
        (options.accept_weaker.clone(), None, None),
        (weaker.clone(), None, None),
        (weaker, Some(SandboxArg::Full), Some(ApproveArg::Auto)),
    ];
    let mut why = None;
    for (at, (accept_weaker, sandbox, approve)) in attempts.into_iter().enumerate() {
        let options = Options {
            dir: Some(project.folder.clone()),
            accept_weaker,
            sandbox,
            approve,
            ..Options::default()
        };
        let factory = AgentOptions::default().open(&options, &project.place, Arc::new(Unattended)).await?;
        let session = factory.session(None, "demo", Arc::new(Unattended));
        let tried =
            session.call(Call::new("shell", json!({ "command": "true  # does the sandbox start?" }))).await;
        match tried.result {
            Ok(_) => {
                let why = why.unwrap_or_default();
                let confined = match at {
                    0 => Confined::Fully,
                    1 => Confined::Weaker(why),
                    _ => Confined::Not(why),
                };
                return Ok((factory, session, confined));
            }
            Err(fault) => {
                session.end().await;
                why.get_or_insert(texts::short(&fault.what));
            }
        }
    }
    Err(Fault::new(Kind::Unavailable, format!("no command can be run here: {}", why.unwrap_or_default()))
        .next("`haft doctor` shows what is missing."))
}

/// Returns whether to draw as the chat does.
fn is_screen(place: &Place) -> bool {
    use std::io::IsTerminal;
    let is_dumb = matches!(place.variable("TERM"), None | Some("dumb"));
    !is_dumb && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Prints a text, wrapped at a terminal.
fn show(text: &str, screen: bool) {
    let columns = crossterm::terminal::size().map_or(80, |it| usize::from(it.0));
    // One column stays free, as some terminals need it.
    print::out(&if screen {
        texts::wrapped(text, columns.saturating_sub(1).max(20))
    } else {
        text.to_owned()
    });
}

fn agent(
    factory: &AgentFactory,
    session: &Session,
    script: Script,
    host: Arc<dyn Observer>,
) -> Result<Agent, Fault> {
    factory.simple(session.clone(), Arc::new(script), host)
}

fn script() -> Result<Script, Fault> {
    Script::parse("the script of `haft demo`", SCRIPT)
}

/// Shows the turn as `haft chat` does, at the pace of a model.
async fn on_screen(
    factory: &AgentFactory,
    session: &Session,
    project: &Project,
    stopped: CancellationToken,
) -> Result<Outcome, Fault> {
    let (_asks, asked) = InChat::new();
    let place = &project.place;
    let settings = Settings::of(place, &factory.opened, false);
    let (mut front, passes) = Front::new(settings, asked, &place.variables, stopped)
        .map_err(|error| Fault::new(Kind::Unavailable, format!("the terminal can't be used: {error}")))?;
    let mut agent = agent(factory, session, script()?, Arc::new(passes))?;
    front.follow(&agent);
    front.tell(&format!("> {TASK}"), Style::BOLD);
    front.show(&[Row::default()]);
    let cancel = CancellationToken::new();
    let turn = agent.turn(Some(TASK.to_owned()), &cancel);
    let outcome = front.attend(turn, &cancel).await;
    // The view has no running lines any more.
    front.show(&[]);
    drop(front);
    outcome.map_err(unexpected)
}

/// Prints the turn in lines, without pauses.
async fn in_lines(
    factory: &AgentFactory,
    session: &Session,
    stopped: CancellationToken,
) -> Result<Outcome, Fault> {
    print::out(&format!("> {TASK}"));
    let plain = Arc::new(Plain::together(Out::new(stopped.clone())));
    let mut agent = agent(factory, session, script()?.without_pauses(), plain.clone())?;
    let outcome = agent.turn(Some(TASK.to_owned()), &stopped).await;
    plain.end();
    outcome.map_err(unexpected)
}

/// Returns the fault for a script that stopped because a result was unexpected.
fn unexpected(error: AgentError) -> Fault {
    fault(error).next("Run `haft doctor`, and report this: the demo plays the same everywhere.")
}

/// Returns whether the test passes now: haft runs it itself, whatever the model claimed.
async fn passes(session: &Session) -> bool {
    let answer = session.call(Call::new("shell", json!({ "command": "sh test.sh" }))).await;
    answer.result.is_ok_and(|it| it.exit == Some(0))
}
