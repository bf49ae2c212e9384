//! Agent factory: creates the agent that the options and the configuration describe.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agent::{
    Agent, Asker, Bounds, Crew, Driver, Driving, Elsewhere, InboxBounds, Makings, NobodyToAsk, Observer,
    Prompt, Settings, Setup, Silent,
    dialect::{Dialect, Spoken},
    model::{self, Choices, KeyFrom, Keys, Model, script::Script},
    profiles::{PLAN, Profile, Profiles},
    provider_tools,
};
use kit::{AnyTool, Fault, quote::quote};
use runtime::{
    Approver, Runtime, Session,
    config::{WAIT_SECONDS, WAKES},
};

pub(crate) use crate::agent_options::AgentOptions;
use crate::{
    Agents, Opened, Options, Place, remote::Subagents, session_state::SessionState, terminal::abbreviate,
    triggers,
};

/// The environment variable that names the model if no option and no configuration does.
pub(crate) const MODEL: &str = "HAFT_MODEL";

/// The parts from which agents are created in this workspace.
pub(crate) struct AgentFactory {
    pub(crate) opened: Opened,
    options: AgentOptions,
    makings: Makings,
    variables: Vec<(String, String)>,
    configured: Option<String>,
    /// The model that the person chose in this chat, for conversations that begin later.
    preferred: Option<String>,
    /// Other machines; none in a process of a worker, which sends nothing on.
    elsewhere: Option<Arc<Subagents>>,
}

impl AgentOptions {
    /// Opens the runtime and everything else that an agent needs.
    ///
    /// # Errors
    /// When the runtime can't be opened.
    pub(crate) async fn open(
        self,
        options: &Options,
        place: &Place,
        approver: Arc<dyn Approver>,
    ) -> Result<AgentFactory, Fault> {
        self.open_with(options, place, approver, Vec::new()).await
    }

    /// Does the same, with additional tools of the program that embeds haft.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub(crate) async fn open_with(
        self,
        options: &Options,
        place: &Place,
        approver: Arc<dyn Approver>,
        more: Vec<Arc<dyn AnyTool>>,
    ) -> Result<AgentFactory, Fault> {
        let mut opened = options.open_with(place, |toolset| [tools::of_agents(toolset), more].concat())?;
        // Without the file, haft might use another provider and send it the workspace's content.
        if self.model.is_none()
            && let Some(fault) = opened.broken.own.take()
        {
            return Err(fault);
        }
        opened.runtime.plugins().asks(approver);
        opened.runtime.load_tools().await;
        opened.aside.extend(opened.unknown_tools());
        let makings = makings(&opened.runtime, &opened.toolset, &opened.profiles);
        let makings = makings.with_skills(opened.skills.read());
        let variables = place.variables.clone();
        let configured = configured(&opened.agents, &variables);
        let elsewhere = options.narrowed_by.is_none().then(|| {
            let (place, options, profiles) = (place.clone(), options.clone(), opened.profiles.clone());
            Arc::new(Subagents { place, options, profiles })
        });
        Ok(AgentFactory { opened, options: self, makings, variables, configured, preferred: None, elsewhere })
    }
}

impl AgentFactory {
    /// Returns the model of this name.
    ///
    /// # Errors
    /// When there is no such model, or something that it needs is missing; the error says what to do.
    pub(crate) fn model(&self, name: &str) -> Result<Arc<dyn Model>, Fault> {
        chosen(name, &self.opened.agents, &self.variables, self.options.dialect.as_deref())
    }

    /// Returns the model of conversations that name none.
    ///
    /// # Errors
    /// Those of [`model`](Self::model), and when none is configured.
    #[cfg(feature = "web")]
    pub(crate) fn usual_model(&self) -> Result<Arc<dyn Model>, Fault> {
        let usual = || model::usual(self.choices()).map(|it| it.0);
        let name = self.named().map(str::to_owned).or_else(usual).ok_or_else(unnamed)?;
        self.model(&name)
    }

    /// Returns the model of a section `[models.NAME]` with this effort.
    ///
    /// # Errors
    /// Those of [`model`](Self::model).
    pub(crate) fn model_with_effort(&self, name: &str, effort: &str) -> Result<Arc<dyn Model>, Fault> {
        let mut agents = self.opened.agents.clone();
        if let Some(section) = agents.models.get_mut(name) {
            section.effort = Some(effort.to_owned());
        }
        chosen(name, &agents, &self.variables, self.options.dialect.as_deref())
    }

    /// Sets the model of new conversations.
    pub(crate) fn prefer(&mut self, name: &str) {
        self.preferred = Some(name.to_owned());
    }

    /// Returns the name of the model, if one was named.
    pub(crate) fn named(&self) -> Option<&str> {
        self.options.model.as_deref().or(self.configured.as_deref())
    }

    /// Returns notes for the person about the sources of prompts, one line each.
    pub(crate) fn notes(&self) -> impl Iterator<Item = &str> {
        self.makings.notes()
    }

    /// Returns the configuration and environment from which a model is chosen.
    pub(crate) fn choices(&self) -> Choices<'_> {
        self.opened.agents.choices(&self.variables)
    }

    /// Returns the models that a person can switch to here, each with a description: those of `[models.NAME]`, and the
    /// known ones of each provider that has a key.
    pub(crate) fn model_names(&self) -> Vec<(String, String)> {
        let choices = self.choices();
        let own =
            choices.models.iter().map(|(name, it)| (name.clone(), it.model.clone().unwrap_or_default()));
        let with_key: Vec<String> = model::sources(choices)
            .iter()
            .filter(|it| it.key().is_some())
            .map(|it| it.name().to_owned())
            .collect();
        let known = model::models().filter(|it| with_key.iter().any(|name| name == it.provider)).map(|it| {
            let about = it.known.map_or_else(String::new, |known| {
                let window = format!("{} tokens", abbreviate::count(known.window));
                let price =
                    known.price.map(|it| format!(", ${} in, ${} out per million", it.input, it.output));
                format!("{window}{}", price.unwrap_or_default())
            });
            (format!("{}:{}", it.provider, it.name), about)
        });
        own.chain(known).collect()
    }

    /// Returns the system prompt of a model in this session, under this profile.
    pub(crate) fn prompt(&self, session: &Session, profile: Option<&Profile>) -> Prompt {
        self.makings.prompt(session, profile)
    }

    /// Returns the conversation to continue, if it is an earlier one: the newest, or the one of this name.
    ///
    /// # Errors
    /// When there is none, or it can't be read.
    pub(crate) fn earlier(&self, resume: bool, name: Option<&str>) -> Result<Option<String>, Fault> {
        let transcripts = self.opened.runtime.store().transcripts();
        match name {
            None if resume => {
                let newest = transcripts.newest()?.ok_or_else(|| {
                    Fault::not_found("this workspace has no conversation yet")
                        .next("Begin one with `haft run \"TASK\"`.")
                })?;
                Ok(Some(newest))
            }
            Some(name) if resume && SessionState::of(&self.opened.runtime, name)?.is_none() => {
                let fault = Fault::not_found(format!("this workspace has no conversation `{name}`"));
                Err(match transcripts.newest()? {
                    Some(newest) => {
                        fault.next(format!("The newest is `{newest}`; `haft sessions` lists all."))
                    }
                    None => fault.next("Begin one with `haft run \"TASK\"`."),
                })
            }
            name => Ok(name.map(str::to_owned)),
        }
    }

    /// Opens the session of this name, or a new one.
    pub(crate) fn session(
        &self,
        name: Option<&str>,
        front_end: &str,
        approver: Arc<dyn Approver>,
    ) -> Session {
        let runtime = &self.opened.runtime;
        // The session has a name from the start, so that the record of files it has read is saved.
        let own = || runtime.store().call_id().replacen("c_", "s_", 1);
        runtime.session(Some(&name.map_or_else(own, str::to_owned)), front_end, approver)
    }

    /// Creates an agent that resumes this conversation; also returns notes for the person, one line each.
    ///
    /// # Errors
    /// When the conversation can't be read, another process runs it, or there is no such model or profile.
    pub(crate) fn agent(
        &self,
        session: Session,
        host: Arc<dyn Observer>,
        person: Arc<dyn Asker>,
    ) -> Result<(Agent, Vec<String>), Fault> {
        let (agent, lines) = self.agent_or(session, host, person, || Err(unnamed()))?;
        self.keep(&agent)?;
        Ok((agent, lines))
    }

    /// The same for a conversation that gets its model, or a profile with a model, before its first turn: no model need be
    /// configured.
    ///
    /// # Errors
    /// Those of [`agent`](Self::agent).
    #[cfg(feature = "web")]
    pub(crate) fn agent_without_model(
        &self,
        session: Session,
        host: Arc<dyn Observer>,
        person: Arc<dyn Asker>,
    ) -> Result<(Agent, Vec<String>), Fault> {
        self.agent_or(session, host, person, || Ok(blank()))
    }

    fn agent_or(
        &self,
        session: Session,
        host: Arc<dyn Observer>,
        person: Arc<dyn Asker>,
        unconfigured: impl FnOnce() -> Result<Arc<dyn Model>, Fault>,
    ) -> Result<(Agent, Vec<String>), Fault> {
        let before = SessionState::of(&self.opened.runtime, session.name())?.unwrap_or_default();
        let asked = if self.options.plan { Some(PLAN) } else { self.options.profile.as_deref() };
        let configured = self.opened.agents.agent.profile.as_deref();
        let profile = match asked {
            Some("none") => None,
            Some(profile) => Some(profile),
            None if before.model.is_empty() => configured,
            None => before.chosen.as_deref(),
        };
        // The command line overrides the profile, and the profile overrides the configuration.
        let preferred = self.preferred.as_deref().filter(|_| before.model.is_empty());
        let typed = preferred.or(self.options.model.as_deref());
        let earlier = Some(before.model.as_str()).filter(|it| !it.is_empty());
        let is_asked = asked.is_some_and(|it| it != "none");
        let its_own = typed.is_none() && (is_asked || earlier.is_none());
        let its_own = its_own
            && profile.is_some_and(|name| {
                self.opened.profiles.read().find(name).is_ok_and(|it| it.model.is_some())
            });
        let dialect =
            self.options.dialect.as_deref().or(before.dialect.as_deref().filter(|_| typed.is_none()));
        let named = typed.or(earlier).or_else(|| self.named());
        let mut lines: Vec<String> = self.notes().map(str::to_owned).collect();
        let model = match (named, model::usual(self.choices())) {
            (Some(name), _) => {
                lines.extend(model::doubt(name, self.choices()));
                chosen(name, &self.opened.agents, &self.variables, dialect)?
            }
            // The profile's own model is found when the agent starts to use it.
            (None, _) if its_own => blank(),
            (None, Some((name, key))) => {
                lines.push(usual(&name, &key));
                chosen(&name, &self.opened.agents, &self.variables, dialect)?
            }
            (None, None) => unconfigured()?,
        };
        let mut agent = self.blank_agent(session, model, host)?;
        agent.set_crew(self.setup(person));
        if let (Some(crew), Some(profile)) = (agent.crew(), profile) {
            let said = crew.begin(Some(profile), its_own)?;
            lines.push(format!("using profile `{profile}`"));
            lines.extend(notes(&said));
            if let Some(other) = before.profile.as_deref().filter(|it| asked.is_none() && *it != profile) {
                lines.extend(notes(&crew.resume(other)?));
            }
        } else if let (Some(crew), Some(profile), None) = (agent.crew(), &before.profile, asked) {
            lines.extend(notes(&crew.resume(profile)?));
        }
        let name = agent.crew().and_then(Crew::chosen);
        let profile = name.map(|name| self.opened.profiles.read().find(&name)).transpose()?;
        let engine = triggers::begin(agent.session(), &self.opened.agents.triggers, profile.as_deref())?;
        agent.keep_with(engine);
        Ok((agent, lines))
    }

    /// Creates an agent that gets no request, to show its prompt.
    ///
    /// # Errors
    /// Those of [`agent`](Self::agent).
    pub(crate) fn unasked(&self, session: Session) -> Result<Agent, Fault> {
        let usual = || model::usual(self.choices()).map(|it| it.0);
        let named = self.named().map(str::to_owned).or_else(usual);
        let model = named.map(|it| self.model(&it)).transpose()?.unwrap_or_else(blank);
        let mut agent = self.blank_agent(session, model, Arc::new(Silent))?;
        agent.set_crew(self.setup(Arc::new(NobodyToAsk)));
        let profile = if self.options.plan { Some(PLAN) } else { self.options.profile.as_deref() };
        let profile = profile.or(self.opened.agents.agent.profile.as_deref()).filter(|it| *it != "none");
        if let (Some(crew), Some(profile)) = (agent.crew(), profile) {
            crew.begin(Some(profile), self.options.model.is_none())?;
        }
        Ok(agent)
    }

    /// Creates an agent with this model and without profiles: that of a demonstration, or of a group's member, which gets them
    /// by [`lead`](Self::lead).
    ///
    /// # Errors
    /// When the conversation can't be saved.
    pub(crate) fn simple(
        &self,
        session: Session,
        model: Arc<dyn Model>,
        host: Arc<dyn Observer>,
    ) -> Result<Agent, Fault> {
        self.blank_agent(session, model, host)
    }

    /// Lets an agent switch profiles and start other agents, by a setup that `change` changes.
    pub(crate) fn lead(
        &self,
        agent: &mut Agent,
        person: Arc<dyn Asker>,
        change: impl FnOnce(Setup) -> Setup,
    ) {
        agent.set_crew(change(self.setup(person)));
    }

    /// Returns the way to other machines; `None` where tasks stay on this one.
    pub(crate) fn elsewhere(&self) -> Option<&Arc<Subagents>> {
        self.elsewhere.as_ref()
    }

    /// Returns the variables of the environment.
    pub(crate) fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    fn blank_agent(
        &self,
        session: Session,
        model: Arc<dyn Model>,
        host: Arc<dyn Observer>,
    ) -> Result<Agent, Fault> {
        provider_tools::offer(&session, model.abilities());
        session.list_within(self.opened.listing_of_agent());
        let system = (&self.prompt(&session, None)).into();
        let visible = self.opened.agents.agent.visible.unwrap_or_default();
        let mut agent =
            Agent::open(Settings { session, model, system, bounds: self.bounds(), visible, host })?;
        agent.set_inbox_bounds(self.inbox_bounds());
        Ok(agent)
    }

    /// Returns how much of the inbox one request shows in full.
    fn inbox_bounds(&self) -> InboxBounds {
        let (section, default) = (&self.opened.agents.agent, InboxBounds::default());
        InboxBounds {
            messages: section.inbox_messages.unwrap_or(default.messages),
            bytes: section.inbox_bytes.unwrap_or(default.bytes),
        }
    }

    /// Returns the limits of a turn.
    pub(crate) fn bounds(&self) -> Bounds {
        let steps = self.options.max_steps.or(self.opened.agents.agent.max_steps);
        Bounds {
            steps: steps.unwrap_or(Bounds::default().steps),
            tokens: self.options.max_tokens,
            time: self.options.max_seconds.map(Duration::from_secs),
        }
    }

    /// Returns the driver of an agent's turns. With `no_wait`, it does not wait for background calls at the end.
    pub(crate) fn driver(&self, no_wait: bool) -> Driver {
        let section = &self.opened.agents.agent;
        let wait = if no_wait { 0 } else { section.wait_seconds.unwrap_or(WAIT_SECONDS) };
        Driver::new(Driving { wait: Duration::from_secs(wait), wakes: section.wakes.unwrap_or(WAKES) })
    }

    /// Saves the state of the agent's conversation.
    ///
    /// # Errors
    /// When the store can't be written.
    pub(crate) fn keep(&self, agent: &Agent) -> Result<(), Fault> {
        let before = SessionState::of(&self.opened.runtime, agent.session().name())?.unwrap_or_default();
        // If the model is the same as before, it keeps its dialect.
        let is_same = before.model == agent.steering().model().name();
        let dialect = self.options.dialect.as_deref().or(before.dialect.as_deref().filter(|_| is_same));
        SessionState::keep(agent, dialect)
    }

    /// Returns the command that resumes this conversation.
    pub(crate) fn goes_on(verb: &str, options: &Options, agent: &Agent) -> String {
        let dir = options.dir.as_ref().map(|it| format!(" --dir {}", quote(&it.display().to_string())));
        format!("haft{} {verb} --resume --session {}", dir.unwrap_or_default(), agent.session().name())
    }

    /// Returns the setup with which the agent switches profiles and starts sub-agents.
    fn setup(&self, person: Arc<dyn Asker>) -> Setup {
        let (agents, variables) = (self.opened.agents.clone(), self.variables.clone());
        let (dialect, makings) = (self.options.dialect.clone(), self.makings.clone());
        let workspace = self.opened.runtime.roots().workspace().to_owned();
        Setup {
            profiles: self.opened.profiles.clone(),
            skills: Some(self.opened.skills.clone()),
            choose: Arc::new(move |name| {
                // A script that a profile names is in its workspace, wherever haft was started.
                let name = match name.strip_prefix("script:") {
                    Some(file) => format!("script:{}", workspace.join(file).display()),
                    None => name.to_owned(),
                };
                chosen(&name, &agents, &variables, dialect.as_deref())
            }),
            compose: Arc::new(move |session, profile| (&makings.prompt(session, profile)).into()),
            section: self.opened.agents.subagent.clone(),
            person,
            elsewhere: self.elsewhere.clone().map(|it| it as Arc<dyn Elsewhere>),
        }
    }
}

/// Returns the sources of prompts for agents with this toolset. Blocks.
pub(crate) fn makings(runtime: &Runtime, toolset: &str, profiles: &Profiles) -> Makings {
    let makings = Makings::of(runtime, tools::hints_of(toolset));
    // The other toolsets list sub-agents with a tool, or have one tool for each.
    if toolset == tools::NAV { makings.with_subagents(&profiles.read()) } else { makings }
}

/// Returns a model without answers, for an agent whose model is not named.
fn blank() -> Arc<dyn Model> {
    Arc::new(Script::empty())
}

/// Returns the notes in the message of a profile switch: its settings that do not apply.
fn notes(said: &str) -> Vec<String> {
    said.lines().filter_map(|it| it.strip_prefix("note: ")).map(str::to_owned).collect()
}

/// Returns the name of the configured model, if there is one.
pub(crate) fn configured(agents: &Agents, variables: &[(String, String)]) -> Option<String> {
    let variable = || variables.iter().find(|it| it.0 == MODEL && !it.1.is_empty()).map(|it| it.1.clone());
    agents.agent.model.clone().or_else(variable)
}

/// Returns the model of this name, in the given dialect.
pub(crate) fn chosen(
    name: &str,
    agents: &Agents,
    variables: &[(String, String)],
    dialect: Option<&str>,
) -> Result<Arc<dyn Model>, Fault> {
    let model = model::choose(name, agents.choices(variables))?;
    Ok(match dialect {
        None | Some("native") => model,
        Some(dialect) => {
            let spoken = Spoken::new(model, dialect.parse::<Dialect>()?);
            Arc::new(spoken.max_calls(agents.agent.max_calls))
        }
    })
}

/// Returns the note that a default model is used, with the reason.
fn usual(name: &str, key: &KeyFrom) -> String {
    let why = match key {
        KeyFrom::Variable(name) => format!("{name} is set"),
        KeyFrom::Login(_) => format!("it has a key of `{key}`"),
    };
    format!("using {name}, since {why}; `--model` or `model` in haft.toml chooses another")
}

/// Returns the error of a missing model, with the ways to configure one.
fn unnamed() -> Fault {
    let provider = model::models().next().map_or("anthropic", |it| it.provider);
    let keys: Vec<&str> = model::sources(Choices {
        models: &BTreeMap::new(),
        variables: &[],
        keys: Keys::NONE,
        max_calls: None,
    })
    .iter()
    .filter(|it| !it.is_open())
    .filter_map(|it| it.variables().first().copied())
    .collect();
    let first = keys.first().copied().unwrap_or_default();
    Fault::bad_args("no model was named, and no provider has a key").next(format!(
        "Run `haft login {provider}` or `export {first}=…` (also read: {}). Without a key: `--model ollama:NAME` for a local \
         model, `haft demo` to see haft work.",
        keys.get(1..).unwrap_or_default().join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_model_and_a_key_the_ways_to_have_one_are_named() {
        let text = unnamed().as_text();
        for way in [
            "haft login anthropic",
            "export ANTHROPIC_API_KEY=…",
            "OPENAI_API_KEY",
            "ollama:NAME",
            "haft demo",
        ] {
            assert!(text.contains(way), "{text}");
        }
    }

    #[test]
    fn the_usual_model_is_told_with_its_reason() {
        let line = usual("openai:gpt-5.6-terra", &KeyFrom::Variable("OPENAI_API_KEY".to_owned()));
        assert!(line.starts_with("using openai:gpt-5.6-terra, since OPENAI_API_KEY is set;"), "{line}");
        let line = usual("x:y", &KeyFrom::Login("x".to_owned()));
        assert!(line.contains("since it has a key of `haft login x`"), "{line}");
    }
}
