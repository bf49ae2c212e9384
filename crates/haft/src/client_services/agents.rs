//! Agent tools over MCP: the models and profiles of sub-agents that a client's agent starts.

use std::sync::{Arc, OnceLock};

use agent::{Choose, Crew, Setup};
use kit::{
    Cx, Fault, Kind,
    services::{Agents, Profiles, Question, Report, Soon, Task},
};
use runtime::Session;

use super::{
    ClientSlots, asker,
    model::{Borrowed, Named},
};
use crate::{Opened, Place, agent_factory};

/// Sub-agents of a client's agent: with the client's model if it lends it, else with the configured one.
pub(super) struct OverClient {
    crew: Crew,
    slots: Arc<ClientSlots>,
    has_own: bool,
}

impl OverClient {
    pub(super) fn new(session: &Session, opened: &Opened, place: &Place, slots: Arc<ClientSlots>) -> Self {
        let (agents, variables) = (opened.agents.clone(), place.variables.clone());
        let workspace = opened.runtime.roots().workspace().to_owned();
        let find: Choose = Arc::new(move |name| {
            // A script that a profile names is in its workspace, wherever haft was started.
            let name = match name.strip_prefix("script:") {
                Some(file) => format!("script:{}", workspace.join(file).display()),
                None => name.to_owned(),
            };
            agent_factory::chosen(&name, &agents, &variables, None)
        });
        let own = agent_factory::configured(&opened.agents, &place.variables).map(|name| {
            let find = find.clone();
            Named { find: Arc::new(move |name| find(name)), name }
        });
        let has_own = own.is_some();
        let max_calls = opened.agents.agent.max_calls;
        let model = Arc::new(Borrowed::new(slots.clone(), None, own, max_calls));
        let lending = slots.clone();
        let choose: Choose = Arc::new(move |name| {
            if lending.lends().is_none() {
                return find(name);
            }
            let otherwise = Named { find: find.clone(), name: name.to_owned() };
            Ok(Arc::new(Borrowed::new(lending.clone(), Some(name.to_owned()), Some(otherwise), max_calls)))
        });
        let (runtime, toolset) = (opened.runtime.clone(), opened.toolset.clone());
        let profiles = opened.profiles.clone();
        // Computed for the first agent, not for each client that connects.
        let makings = OnceLock::new();
        let setup = Setup {
            profiles: opened.profiles.clone(),
            skills: None,
            choose,
            compose: Arc::new(move |session, profile| {
                let makings = makings.get_or_init(|| agent_factory::makings(&runtime, &toolset, &profiles));
                (&makings.prompt(session, profile)).into()
            }),
            section: opened.agents.subagent.clone(),
            person: Arc::new(asker::AtClient(slots.clone())),
            elsewhere: None,
        };
        Self { crew: Crew::alone(session, model, setup), slots, has_own }
    }

    /// Returns whether there is a model. A profile may name one of its own.
    async fn has_model(&self, profile: Option<&str>) -> bool {
        if self.has_own || self.slots.has_lent().is_some() {
            return true;
        }
        let Some(profile) = profile.map(str::to_owned) else { return false };
        let crew = self.crew.clone();
        // An error of the profile is reported when it is used.
        let named = move || crew.known().find(&profile).map_or(true, |it| it.model.is_some());
        tokio::task::spawn_blocking(named).await.unwrap_or(true)
    }
}

impl Agents for OverClient {
    fn profiles(&self) -> Profiles {
        self.crew.profiles()
    }

    fn switch(&self, _: &str) -> Result<String, Fault> {
        let what = "the agent that calls here is the client's own: haft can't switch its profile";
        Err(Fault::new(Kind::Unavailable, what).next("`subagent` does a task with a profile."))
    }

    fn delegate<'a>(&'a self, task: Task, cx: &'a Cx) -> Soon<'a, Result<Report, Fault>> {
        Box::pin(async move {
            if self.has_model(task.profile.as_deref()).await {
                self.crew.delegate(task, cx).await
            } else {
                Err(no_model())
            }
        })
    }

    fn ask<'a>(&'a self, question: Question, cx: &'a Cx) -> Soon<'a, Result<String, Fault>> {
        self.crew.ask(question, cx)
    }

    fn show<'a>(&'a self, text: String, cx: &'a Cx) -> Soon<'a, Result<(), Fault>> {
        self.crew.show(text, cx)
    }

    fn think<'a>(&'a self, system: &'a str, prompt: &'a str) -> Soon<'a, Result<String, Fault>> {
        Box::pin(async move {
            if self.has_model(None).await { self.crew.think(system, prompt).await } else { Err(no_model()) }
        })
    }
}

fn no_model() -> Fault {
    let what = "no model for a sub-agent: this client offers none (sampling), and none is configured";
    Fault::new(Kind::Unavailable, what).next(
        "Do it yourself. A person names a model with `model` of `[agent]` in haft.toml or with HAFT_MODEL, or uses a \
         client that offers `sampling`.",
    )
}
