//! Session service of this program: shares the session of a terminal with those that attach to it, and creates an agent
//! for a session that no terminal runs.

mod here;
mod pieces;
pub(crate) mod report;
pub(crate) mod terminals;
mod viewer;

use std::sync::Arc;

use agent::{Agent, Message, fork, lines};
use kit::{Fault, Kind, services::Soon};
use runtime::{Runtime, Session};
use sessions::{Opened, Opener, Owner, Prepared, Prompt, Records, Report, Sessions};

use crate::{agent_factory::AgentFactory, print};
use here::Here;
pub(crate) use viewer::{Answers, Reply, View, Viewer};

/// The session service of a workspace, for one terminal.
pub(crate) struct Service {
    pub(crate) sessions: Sessions,
    /// The command that this process runs: `chat`, `run`.
    by: &'static str,
    /// The name of this terminal, which others see: `pts/3`.
    who: String,
}

/// The person at this terminal.
pub(crate) struct Person {
    /// Shows the session, and asks.
    pub(crate) viewer: Arc<dyn Viewer>,
    /// Whether a person can answer.
    pub(crate) is_there: bool,
    /// Whether texts are shown even if nobody can answer.
    pub(crate) shows_texts: bool,
}

/// A session that this process runs.
pub(crate) struct Running {
    pub(crate) agent: Agent,
    pub(crate) owner: Owner,
    /// Shows the log at this terminal.
    pub(crate) view: View,
    /// Notes for the person, one line each.
    pub(crate) notes: Vec<String>,
}

impl Service {
    /// Creates the service of this workspace; `by` is the command that this process runs.
    pub(crate) fn new(runtime: &Runtime, by: &'static str) -> Self {
        Self::with_opener(runtime, by, None)
    }

    /// Does the same; sessions whose process ended run here, with agents that `opener` makes.
    pub(crate) fn with_opener(runtime: &Runtime, by: &'static str, opener: Option<Arc<dyn Opener>>) -> Self {
        let store = runtime.store().clone();
        let records = Some(records(runtime));
        Self { sessions: Sessions::with_records(store, by, opener, records), by, who: who() }
    }

    /// Returns the name of this terminal.
    pub(crate) fn who(&self) -> &str {
        &self.who
    }

    /// Runs the session of this name, or a new one, for the person here and for those that attach.
    ///
    /// # Errors
    /// When the agent can't be opened, or another process runs the session.
    pub(crate) async fn run(
        &self,
        factory: &AgentFactory,
        name: Option<&str>,
        person: &Arc<Person>,
    ) -> Result<Running, Fault> {
        let name = name.map_or_else(|| self.sessions.new_name(), str::to_owned);
        let prepared = self.sessions.prepare(&name);
        let hub = prepared.hub().clone();
        let attends = person.is_there.then(|| hub.attend());
        let here = Here { hub, is_attended: person.is_there, shows_texts: person.shows_texts };
        let here = Arc::new(here);
        let session = factory.session(Some(&name), self.by, here.clone());
        let (mut agent, notes) = factory.agent(session, prepared.observer(), here)?;
        let mut notes = notes;
        if person.is_there {
            notes.extend(crate::triggers::news(factory.opened.runtime.store(), None).await?);
        }
        let owner = prepared.own(&mut agent).await?;
        let view = View::of_owner(&owner, &person.viewer, &self.who, attends);
        Ok(Running { agent, owner, view, notes })
    }
}

/// Releases a session that this process ran. An error is only printed.
pub(crate) async fn close(owner: Owner, by: &str) {
    if let Err(fault) = owner.close(by).await {
        print::err(&format!("haft: the end of the session is not in its log: {}", fault.as_text()));
    }
}

/// Returns the name of this terminal, or of the process if there is none.
fn who() -> String {
    let name = rustix::termios::ttyname(std::io::stdin(), Vec::new())
        .or_else(|_| rustix::termios::ttyname(std::io::stderr(), Vec::new()));
    match name.ok().and_then(|it| it.into_string().ok()) {
        Some(name) => name.strip_prefix("/dev/").unwrap_or(&name).to_owned(),
        None => format!("process {}", std::process::id()),
    }
}

/// Returns the titles, archives and forks of a workspace.
pub(crate) fn records(runtime: &Runtime) -> Arc<dyn Records> {
    Arc::new(RecordsOf(runtime.clone()))
}

/// Titles, archives and forks, in the store.
struct RecordsOf(Runtime);

impl Records for RecordsOf {
    fn rename(&self, session: &str, title: &str) -> Result<(), Fault> {
        self.0.store().conversations().rename(session, &agent::title(title))
    }

    fn archive(&self, session: &str, archived: bool) -> Result<(), Fault> {
        self.0.store().conversations().archive(session, archived).map(drop)
    }

    fn fork(&self, session: &str, without: usize, to: &str) -> Result<(), Fault> {
        let said = lines(&self.0, session)?;
        let turns = said.iter().filter(|it| matches!(it.message, Message::Person { .. })).count();
        let left = turns.checked_sub(without).filter(|it| *it > 0).ok_or_else(|| {
            Fault::bad_args(format!("{without} of {turns} messages can't be left out: nothing would be left"))
        })?;
        let at = if without == 0 { None } else { Some(left as u64) };
        fork(self.0.store(), session, at, Some(to)).map(drop)
    }

    fn is_fork(&self, session: &str, to: &str) -> Result<bool, Fault> {
        let known = self.0.store().conversations().about(to)?;
        Ok(known.is_some_and(|it| it.forked_from.as_deref() == Some(session)))
    }

    fn delete(&self, session: &str) -> Result<(), Fault> {
        self.0.store().conversations().delete_held(session).map(drop)
    }
}

/// Makes agents for sessions that no terminal runs.
pub(crate) struct Agents(pub(crate) Arc<AgentFactory>);

impl Opener for Agents {
    fn open(&self, prepared: &Prepared) -> Result<Opened, Fault> {
        let session = self.0.session(Some(prepared.session()), "chat", prepared.approver());
        let (agent, notes) = self.0.agent(session, prepared.observer(), prepared.asker())?;
        Ok(Opened { agent, driver: self.0.driver(false), notes })
    }

    fn set_model(&self, agent: &Agent, name: &str) -> Result<(), Fault> {
        agent.steering().set_model(self.0.model(name)?);
        Ok(())
    }

    fn report(&self, agent: &Agent, report: &Report) -> Result<String, Fault> {
        report::of(agent, report)
    }

    fn keep(&self, agent: &Agent) -> Result<(), Fault> {
        self.0.keep(agent)?;
        // The process may be killed before the session ends.
        agent.session().keep()
    }
}

/// The opener of a loop that has its agent, and changes its model by itself.
pub(crate) struct Inputs;

impl Opener for Inputs {
    fn open(&self, _: &Prepared) -> Result<Opened, Fault> {
        Err(Fault::new(Kind::Unavailable, "this process makes no agents"))
    }

    fn set_model(&self, _: &Agent, _: &str) -> Result<(), Fault> {
        Err(Fault::new(Kind::Unavailable, "this process makes no agents"))
    }

    fn report(&self, agent: &Agent, report: &Report) -> Result<String, Fault> {
        report::of(agent, report)
    }
}

/// Returns the agent's input for a prompt, in a session that a terminal runs.
pub(crate) fn input(session: Session, prompt: Prompt) -> Soon<'static, Result<agent::Input, Fault>> {
    Box::pin(async move { Inputs.input(session, prompt).await })
}
