//! The session service in this program: a session that a terminal runs is shared with whoever attaches to it, and one that no
//! terminal runs gets an agent of its own.

mod together;

use std::sync::Arc;

use agent::{Agent, Asker, Event, Message, Observer, fork, lines};
use kit::{Fault, Kind, services::Soon};
use runtime::{Approver, Runtime, Session};
use sessions::{Attendance, Opened, Opener, Owner, Prepared, Prompt, Records, Sessions};

use crate::{agent_factory::AgentFactory, print};
use together::Together;

/// The sessions of a workspace, for one terminal.
pub(crate) struct Service {
    pub(crate) sessions: Sessions,
    /// What this process is: `chat`, `run`.
    by: &'static str,
    /// The name of the terminal, which others are told: `pts/3`.
    who: String,
}

/// The person at this terminal.
pub(crate) struct Person {
    /// Asks what a call may do.
    pub(crate) approver: Arc<dyn Approver>,
    /// Asks what the model wants to know.
    pub(crate) asker: Arc<dyn Asker>,
    /// Shows what happens.
    pub(crate) observer: Arc<dyn Observer>,
    /// There is somebody to ask.
    pub(crate) is_there: bool,
}

/// A session that this process runs.
pub(crate) struct Running {
    pub(crate) agent: Agent,
    pub(crate) owner: Owner,
    /// Somebody at this terminal can be asked.
    pub(crate) attends: Option<Attendance>,
    /// What the person should know, one line each.
    pub(crate) notes: Vec<String>,
}

impl Service {
    /// The sessions of this workspace; `by` says what this process is.
    pub(crate) fn new(runtime: &Runtime, by: &'static str) -> Self {
        Self::with_opener(runtime, by, None)
    }

    /// The same; the sessions of processes that end are run here, with agents that `opener` makes.
    pub(crate) fn with_opener(runtime: &Runtime, by: &'static str, opener: Option<Arc<dyn Opener>>) -> Self {
        let records: Arc<dyn Records> = Arc::new(RecordsOf(runtime.clone()));
        let store = runtime.store().clone();
        Self { sessions: Sessions::with_records(store, by, opener, Some(records)), by, who: who() }
    }

    /// The name of this terminal.
    pub(crate) fn who(&self) -> &str {
        &self.who
    }

    /// Runs the session of this name, or a new one, for the person here and for whoever attaches.
    ///
    /// # Errors
    /// When there is no agent to be had, or another process runs the session.
    pub(crate) async fn run(
        &self,
        factory: &AgentFactory,
        name: Option<&str>,
        person: &Arc<Person>,
    ) -> Result<Running, Fault> {
        let name = name.map_or_else(|| self.sessions.new_name(), str::to_owned);
        let prepared = self.sessions.prepare(&name);
        let together = Arc::new(Together::new(prepared.hub(), person, &self.who));
        let observer = Arc::new(Both { log: prepared.observer(), shown: person.observer.clone() });
        let session = factory.session(Some(&name), self.by, together.clone());
        let (agent, notes) = factory.agent(session, observer, together)?;
        let attends = person.is_there.then(|| prepared.hub().attend());
        let owner = prepared.own(&agent).await?;
        Ok(Running { agent, owner, attends, notes })
    }
}

/// Gives a session up that this process ran. What fails is told, and keeps nothing else from being put away.
pub(crate) async fn close(owner: Owner, by: &str) {
    if let Err(fault) = owner.close(by).await {
        print::err(&format!("haft: the end of the session is not in its log: {}", fault.as_text()));
    }
}

/// Writes what happens to the log, and shows it here.
struct Both {
    log: Arc<dyn Observer>,
    shown: Arc<dyn Observer>,
}

impl Observer for Both {
    fn hear(&self, event: Event) {
        self.log.hear(event.clone());
        self.shown.hear(event);
    }
}

/// The name of this terminal, or of the process where there is none.
fn who() -> String {
    let name = rustix::termios::ttyname(std::io::stdin(), Vec::new())
        .or_else(|_| rustix::termios::ttyname(std::io::stderr(), Vec::new()));
    match name.ok().and_then(|it| it.into_string().ok()) {
        Some(name) => name.strip_prefix("/dev/").unwrap_or(&name).to_owned(),
        None => format!("process {}", std::process::id()),
    }
}

/// Titles, archives and forks, as the store keeps them.
struct RecordsOf(Runtime);

impl Records for RecordsOf {
    fn rename(&self, session: &str, title: &str) -> Result<(), Fault> {
        self.0.store().conversations().rename(session, &agent::title(title))
    }

    fn archive(&self, session: &str, archived: bool) -> Result<(), Fault> {
        self.0.store().conversations().archive(session, archived).map(drop)
    }

    fn fork(&self, session: &str, without: usize) -> Result<String, Fault> {
        let said = lines(&self.0, session)?;
        let turns = said.iter().filter(|it| matches!(it.message, Message::Person { .. })).count();
        let left = turns.checked_sub(without).filter(|it| *it > 0).ok_or_else(|| {
            Fault::bad_args(format!("{without} of {turns} messages can't be left out: nothing would be left"))
        })?;
        let at = if without == 0 { None } else { Some(left as u64) };
        fork(self.0.store(), session, at, None).map(|it| it.session)
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

    fn keep(&self, agent: &Agent) -> Result<(), Fault> {
        self.0.keep(agent)?;
        // The process may be killed before the session ends.
        agent.session().keep()
    }
}

/// What a prompt gives an agent that a terminal runs.
pub(crate) fn input(session: Session, prompt: Prompt) -> Soon<'static, Result<agent::Input, Fault>> {
    struct Inputs;
    impl Opener for Inputs {
        fn open(&self, _: &Prepared) -> Result<Opened, Fault> {
            Err(Fault::new(Kind::Unavailable, "this process makes no agents"))
        }

        fn set_model(&self, _: &Agent, _: &str) -> Result<(), Fault> {
            Err(Fault::new(Kind::Unavailable, "this process makes no agents"))
        }
    }
    Box::pin(async move { Inputs.input(session, prompt).await })
}
