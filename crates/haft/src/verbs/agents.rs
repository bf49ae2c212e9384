//! `haft agents`: a daemon that runs the sessions of this workspace which have triggers or messages, without a terminal.

use std::{collections::BTreeMap, process::ExitCode, sync::Arc, time::Duration};

use clap::{Args, Subcommand};
use kit::{Fault, Kind};
use serde_json::json;
use sessions::{Handle, Operation};
use store::{Store, TriggerState, corpse};
use tokio::signal::unix::{SignalKind, signal};

use super::{close, report_ignored};
use crate::{
    Options, Place,
    agent_factory::{AgentFactory, AgentOptions},
    ask::approver,
    print,
    session_service::{Agents as AgentsOf, Service},
    terminal::interrupt::STOPPED,
    triggers::{plain, time},
    workspace_check::{self, Asking},
};

/// How often haft looks for sessions that have triggers or messages since.
const LOOK: Duration = Duration::from_secs(2);

/// Time that sessions have to end.
const LAST: Duration = Duration::from_secs(10);

#[derive(Args)]
pub struct Agents {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Run every session of this workspace that has an armed trigger or a message, until Ctrl-C
    ///
    /// Sessions of `[[trigger]]` in haft.toml are started as well. Nobody is asked during a turn that a trigger began: what it
    /// is not granted fails, and `haft triggers` shows it.
    Up(Box<AgentOptions>),
    /// Show which sessions have triggers or messages, and which process runs them
    Status {
        /// Print one line of JSON per session
        #[arg(long)]
        json: bool,
    },
}

impl Agents {
    /// # Errors
    /// When no agent can be created, or the store can't be used.
    pub async fn run(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        match self.what {
            What::Up(agent) => up(*agent, options, place).await,
            What::Status { json } => {
                let runtime = options.open(place)?.runtime;
                let lines = status(runtime.store(), json);
                close(&runtime);
                lines?.iter().for_each(|it| print::out(it));
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

async fn up(agent: AgentOptions, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
    workspace_check::check(options, place, Asking::No)?;
    if options.session.is_some() {
        return Err(Fault::bad_args("`--session` has no effect here: all sessions with triggers run")
            .next("`haft run --session NAME --wait` runs one."));
    }
    let unhandled = |error: std::io::Error| {
        Fault::new(
            Kind::Unavailable,
            format!("signals can't be handled, so nothing could be stopped: {error}"),
        )
    };
    let mut end = signal(SignalKind::terminate()).map_err(unhandled)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unhandled)?;
    let factory = Arc::new(agent.open(options, place, approver()).await?);
    report_ignored(&factory.opened, false);
    factory.opened.agents.triggers.iter().try_for_each(|it| it.spec().map(drop))?;
    let store = factory.opened.runtime.store().clone();
    let service =
        Service::with_opener(&factory.opened.runtime, "agents", Some(Arc::new(AgentsOf(factory.clone()))));
    let mut daemon = Daemon { factory, store, service, running: BTreeMap::new(), failed: BTreeMap::new() };
    print::err(&format!("haft: agents of {}; Ctrl-C ends them", daemon.store.workspace().display()));
    let mut look = tokio::time::interval(LOOK);
    let code = loop {
        tokio::select! {
            _ = look.tick() => daemon.look().await?,
            _ = end.recv() => break ExitCode::SUCCESS,
            _ = interrupt.recv() => break ExitCode::from(STOPPED),
        }
    };
    daemon.end().await;
    Ok(code)
}

/// The sessions that this process runs, or watches another process run.
struct Daemon {
    factory: Arc<AgentFactory>,
    store: Store,
    service: Service,
    running: BTreeMap<String, Handle>,
    /// The sessions that could not be opened, with the reason that was printed.
    failed: BTreeMap<String, String>,
}

impl Daemon {
    /// Opens the sessions that have something to do, and takes over those whose process ended.
    async fn look(&mut self) -> Result<(), Fault> {
        let mut wanted = self.store.triggers().sessions_to_run()?;
        wanted.extend(self.factory.opened.agents.triggers.iter().map(|it| it.session().to_owned()));
        wanted.extend(self.running.keys().cloned());
        wanted.sort();
        wanted.dedup();
        for session in wanted {
            // The session of a sub-agent belongs to the agent that started it.
            if session.contains('/') {
                continue;
            }
            match self.service.sessions.open(Some(&session), "agents").await {
                Ok(handle) => {
                    self.failed.remove(&session);
                    if self.running.insert(session.clone(), handle).is_none() {
                        print::err(&format!("haft: session {}", plain(&session)));
                    }
                }
                Err(fault) => {
                    let why = fault.as_text();
                    if self.failed.get(&session) != Some(&why) {
                        print::err(&format!("haft: the session {} is not run: {why}", plain(&session)));
                        self.failed.insert(session, why);
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends the sessions that this process runs; those of others go on.
    async fn end(self) {
        let pid = std::process::id();
        for (session, handle) in self.running {
            let is_own = self.store.owners().get(&session).ok().flatten().is_some_and(|it| it.pid == pid);
            if !is_own {
                continue;
            }
            let key = self.store.call_id();
            let closing = async {
                handle.act(&self.store.call_id(), Operation::Cancel { prompt: None }).await?;
                handle.act(&key, Operation::Close).await
            };
            match tokio::time::timeout(LAST, closing).await {
                Ok(Ok(_)) => {}
                Ok(Err(fault)) => print::err(&format!("haft: {}: {}", plain(&session), fault.as_text())),
                Err(_) => print::err(&format!("haft: {} did not end in time", plain(&session))),
            }
        }
        drop(self.service);
        close(&self.factory.opened.runtime);
    }
}

/// Returns a line for each session with a trigger or a message. Blocks.
fn status(store: &Store, is_json: bool) -> Result<Vec<String>, Fault> {
    let rows = store.triggers().list(None)?;
    let mut names = store.triggers().sessions_to_run()?;
    names.extend(rows.iter().map(|it| it.session.clone()));
    names.sort();
    names.dedup();
    let mut lines = Vec::new();
    for session in names {
        let armed: Vec<_> =
            rows.iter().filter(|it| it.session == session && it.state == TriggerState::Armed).collect();
        let messages = store.inbox().queued(&session)?.len();
        let owner = store.owners().get(&session)?;
        let is_alive = |instance: &String| corpse(&store.live_folder(), instance).is_none();
        let pid = owner.filter(|it| it.instance.as_ref().is_some_and(is_alive)).map(|it| it.pid);
        let next = armed.iter().filter_map(|it| it.next_fire_ms).min();
        if is_json {
            let line = json!({
                "session": session, "pid": pid, "armed": armed.len(), "queued": messages, "next_fire_ms": next,
            });
            lines.push(line.to_string());
            continue;
        }
        let runs = pid.map_or_else(|| "not running".to_owned(), |it| format!("process {it}"));
        let next = next.map_or_else(String::new, |it| format!(", next {}", time(it)));
        let count = |count: usize, what: &str| kit::counted(count, what);
        lines.push(format!(
            "{}  {runs}  {} armed{next}, {} queued",
            plain(&session),
            count(armed.len(), "trigger"),
            count(messages, "message")
        ));
    }
    if lines.is_empty() && !is_json {
        lines.push("no session has a trigger or a message".to_owned());
    }
    Ok(lines)
}
