//! Agents for programs that use haft as a library: workspace, model, tools and events from one builder.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use agent::{Agent, Asker, Event, NobodyToAsk, Observer, Outcome, Silent};
use kit::{AnyTool, Fault, Tool, erase};
use runtime::{Approver, Unattended};
use tokio_util::sync::CancellationToken;

use crate::{
    Options, Place,
    agent_factory::{AgentFactory, AgentOptions},
    decoders, verbs,
};

/// Runs haft's keeper or one of its decoders if this process was started as one, and returns its exit code.
///
/// haft starts the commands of a session by running the current program again, as a keeper inside the sandbox; and it
/// decodes pictures, documents and pages in workers, which are the current program as well. A program that embeds haft
/// calls this first in `main`, before it starts a thread, and returns what it gives.
pub fn keeper() -> Option<ExitCode> {
    let first = std::env::args_os().nth(1)?;
    if first == sandbox::KEEPER {
        return Some(sandbox::keep());
    }
    (first == kit::decoders::WORKER).then(decoders::decode)
}

/// Builds an agent with all of haft's tools, as `haft run` has it.
///
/// Nobody is asked unless [`approver`](Self::approver) says who: what needs approval is denied. The configuration and the
/// keys are those of the person who runs the program, unless [`place`](Self::place) says otherwise.
pub struct AgentBuilder {
    options: Options,
    agent: AgentOptions,
    place: Option<Place>,
    tools: Vec<Arc<dyn AnyTool>>,
    host: Arc<dyn Observer>,
    approver: Arc<dyn Approver>,
    asker: Arc<dyn Asker>,
    resumed: Option<String>,
}

impl AgentBuilder {
    /// Creates a builder of an agent that works in this folder.
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        Self {
            options: Options { dir: Some(workspace.into()), ..Options::default() },
            agent: AgentOptions::default(),
            place: None,
            tools: Vec::new(),
            host: Arc::new(Silent),
            approver: Arc::new(Unattended),
            asker: Arc::new(NobodyToAsk),
            resumed: None,
        }
    }

    /// Sets the model, as `--model` names it: `anthropic:…`, `ollama:…`, `script:FILE`, a name of `[models.NAME]`.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.agent.model = Some(name.into());
        self
    }

    /// Sets the profile to work under.
    #[must_use]
    pub fn profile(mut self, name: impl Into<String>) -> Self {
        self.agent.profile = Some(name.into());
        self
    }

    /// Sets the maximum number of model responses per turn.
    #[must_use]
    pub fn max_steps(mut self, steps: usize) -> Self {
        self.agent.max_steps = Some(steps);
        self
    }

    /// Sets the options that every command of haft takes: sandbox, approval, roots and the like. The folder of
    /// [`new`](Self::new) stays where they name none.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        let dir = options.dir.clone().or(self.options.dir.take());
        self.options = Options { dir, ..options };
        self
    }

    /// Sets where state and configuration are, and what the environment says. Default: [`Place::from_env`].
    #[must_use]
    pub fn place(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Adds a tool that is written in Rust.
    #[must_use]
    pub fn tool<T: Tool>(mut self) -> Self {
        self.tools.push(erase::<T>());
        self
    }

    /// Calls `observe` with each event as it happens. It must not block.
    #[must_use]
    pub fn on_event(mut self, observe: impl Fn(Event) + Send + Sync + 'static) -> Self {
        self.host = Arc::new(Observes(observe));
        self
    }

    /// Sets who decides about calls that need approval.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = approver;
        self
    }

    /// Sets who answers the model's questions.
    #[must_use]
    pub fn asker(mut self, asker: Arc<dyn Asker>) -> Self {
        self.asker = asker;
        self
    }

    /// Resumes the conversation of this session.
    #[must_use]
    pub fn resume(mut self, session: impl Into<String>) -> Self {
        self.resumed = Some(session.into());
        self
    }

    /// Opens the workspace and loads the tools. Needs a tokio runtime with I/O and time enabled.
    ///
    /// # Errors
    /// When the workspace, the configuration or the model can't be used, or the conversation is not there.
    pub async fn open(self) -> Result<EmbeddedAgent, Fault> {
        let place = self.place.map_or_else(Place::from_env, Ok)?;
        let factory = self.agent.open_with(&self.options, &place, self.approver.clone(), self.tools).await?;
        let name = factory.earlier(self.resumed.is_some(), self.resumed.as_deref())?;
        let session = factory.session(name.as_deref(), "library", self.approver);
        let (agent, more) = factory.agent(session, self.host, self.asker)?;
        let notes = factory.opened.aside.iter().cloned().chain(more).collect();
        Ok(EmbeddedAgent { agent, factory, notes })
    }
}

/// An agent of a program that embeds haft.
pub struct EmbeddedAgent {
    agent: Agent,
    factory: AgentFactory,
    notes: Vec<String>,
}

impl EmbeddedAgent {
    /// Has the agent do a task, until its model calls nothing more or a limit is reached.
    ///
    /// # Errors
    /// When the model does not answer. The conversation is kept, and the next task goes on from there.
    pub async fn run(&mut self, task: impl Into<String>) -> Result<Outcome, Fault> {
        self.run_until(task, &CancellationToken::new()).await
    }

    /// Does the same, and stops model, tools and sub-agents when `cancel` is cancelled.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub async fn run_until(
        &mut self,
        task: impl Into<String>,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Fault> {
        let outcome = self.agent.turn(Some(task.into()), cancel).await.map_err(verbs::run::fault)?;
        self.factory.keep(&self.agent)?;
        Ok(outcome)
    }

    /// Returns the name of its session, with which [`AgentBuilder::resume`] continues.
    pub fn session(&self) -> &str {
        self.agent.session().name()
    }

    /// Returns what was ignored at opening, such as tools of an untrusted workspace; one line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the agent itself, for everything else: its transcript, its steering, its limits.
    pub fn agent(&mut self) -> &mut Agent {
        &mut self.agent
    }

    /// Ends its jobs and writes queued data to disk.
    ///
    /// # Errors
    /// When the state of the conversation can't be saved.
    pub async fn close(self) -> Result<(), Fault> {
        self.factory.keep(&self.agent)?;
        verbs::finish(self.agent.session()).await;
        Ok(())
    }
}

/// Passes events on to a function.
struct Observes<F>(F);

impl<F: Fn(Event) + Send + Sync> Observer for Observes<F> {
    fn observe(&self, event: Event) {
        (self.0)(event);
    }
}
