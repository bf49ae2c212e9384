//! Which agent did the person ask for, and what is it made of?

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agent::{
    Agent, Asker, Bounds, Host, Makings, Prompt, Settings, Setup,
    dialect::{Dialect, Spoken},
    model::{self, Choices, Model},
    own_tools,
    profiles::{PLAN, Profile},
};
use clap::{Args, builder::RangedU64ValueParser};
use kit::Fault;
use runtime::{Approver, Session, config::ModelSection};

use crate::{Opened, Options, Place};

/// The variables that usually hold a provider's key.
const KEYS: [&str; 4] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"];

/// The variable that names a model, where nothing else does.
const MODEL: &str = "HAFT_MODEL";

/// Options of every verb that is an agent.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AgentOptions {
    /// The model: `anthropic:…`, `openai:…`, `script:FILE`, or a name of `[models.NAME]`. [default: `model` of
    /// `[agent]` in haft.toml, else the variable HAFT_MODEL]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Begin under this profile: `.haft/agents/NAME.md`, or one of haft's own.
    #[arg(long, value_name = "NAME", conflicts_with = "plan")]
    pub(crate) profile: Option<String>,
    /// Plan mode: the model reads and asks, and nothing is changed.
    #[arg(long)]
    pub(crate) plan: bool,
    /// How the model writes calls: native, json, bracket, xml, hermes. [default: as the model is known to]
    #[arg(long, value_name = "NAME")]
    pub(crate) dialect: Option<String>,
    /// At most so many answers of the model in one turn.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) max_steps: Option<usize>,
    /// At most so many seconds for one turn.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u64>::new().range(1..))]
    pub(crate) max_seconds: Option<u64>,
    /// At most so many tokens for one turn, of requests and answers together.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u64>::new().range(1..))]
    pub(crate) max_tokens: Option<u64>,
}

/// What agents are made of here.
pub(crate) struct Agency {
    pub(crate) opened: Opened,
    options: AgentOptions,
    makings: Makings,
    variables: Vec<(String, String)>,
}

impl AgentOptions {
    /// Gets everything ready that an agent needs.
    ///
    /// # Errors
    /// When there is no runtime to be had.
    pub(crate) async fn open(
        self,
        options: &Options,
        place: &Place,
        approver: Arc<dyn Approver>,
    ) -> Result<Agency, Fault> {
        let opened = options.open_with(place, tools::of_agents)?;
        opened.runtime.outside().asks(approver);
        opened.runtime.load_tools().await;
        let makings = Makings::of(&opened.runtime, tools::hints_of(&opened.toolset));
        Ok(Agency { opened, options: self, makings, variables: place.variables.clone() })
    }
}

impl Agency {
    /// The model that was asked for: `named`, or what the options, the configuration and the environment say.
    ///
    /// # Errors
    /// When none was named, or there is no such model; with what to do.
    pub(crate) fn model(&self, named: Option<&str>) -> Result<Arc<dyn Model>, Fault> {
        let name = named.or_else(|| self.named()).ok_or_else(|| unnamed(&self.variables))?;
        let models = &self.opened.agents.models;
        chosen(name, models, &self.variables, self.options.dialect.as_deref())
    }

    /// The name of the model, where one was named.
    pub(crate) fn named(&self) -> Option<&str> {
        let variable = || self.variables.iter().find(|it| it.0 == MODEL && !it.1.is_empty());
        let named = self.options.model.as_deref().or(self.opened.agents.agent.model.as_deref());
        named.or_else(|| variable().map(|it| it.1.as_str()))
    }

    /// What a model is told before everything else, in this session and under this profile.
    pub(crate) fn prompt(&self, session: &Session, profile: Option<&Profile>) -> Prompt {
        self.makings.prompt(session, profile.map(|it| it.prompt.as_str()))
    }

    /// The newest conversation of the workspace.
    ///
    /// # Errors
    /// When there is none, or it can't be read.
    pub(crate) fn newest(&self) -> Result<String, Fault> {
        self.opened.runtime.store().transcripts().newest()?.ok_or_else(|| {
            Fault::not_found("this workspace has no conversation yet")
                .next("Begin one with `haft run \"TASK\"`.")
        })
    }

    /// The conversation of this name, or a new one.
    pub(crate) fn session(&self, name: Option<&str>, door: &str, approver: Arc<dyn Approver>) -> Session {
        let runtime = &self.opened.runtime;
        // It has a name from the start, so that what it has seen is kept for whoever goes on with it.
        let own = || runtime.store().call_id().replacen("c_", "s_", 1);
        runtime.session(Some(&name.map_or_else(own, str::to_owned)), door, approver)
    }

    /// An agent that goes on with this conversation.
    ///
    /// # Errors
    /// When what was said can't be read, another process goes on with it, or there is no such profile.
    pub(crate) fn agent(
        &self,
        session: Session,
        model: Arc<dyn Model>,
        host: Arc<dyn Host>,
        person: Arc<dyn Asker>,
    ) -> Result<Agent, Fault> {
        own_tools::offer(&session, model.abilities());
        let system = self.prompt(&session, None).text().into();
        let steps = self.options.max_steps.or(self.opened.agents.agent.max_steps);
        let bounds = Bounds {
            steps: steps.unwrap_or(Bounds::default().steps),
            tokens: self.options.max_tokens,
            time: self.options.max_seconds.map(Duration::from_secs),
        };
        let visible = self.opened.agents.agent.visible.unwrap_or_default();
        let settings = Settings { session, model, system, bounds, visible, host };
        let mut agent = Agent::open(settings)?;
        agent.set_crew(self.setup(person));
        let named = if self.options.plan { Some(PLAN) } else { self.options.profile.as_deref() };
        let named = named.or(self.opened.agents.agent.profile.as_deref());
        if let (Some(crew), Some(profile)) = (agent.crew(), named) {
            crew.begin(Some(profile))?;
        }
        Ok(agent)
    }

    /// What the agent needs to go on under another profile and to start others.
    fn setup(&self, person: Arc<dyn Asker>) -> Setup {
        let (models, variables) = (self.opened.agents.models.clone(), self.variables.clone());
        let (dialect, makings) = (self.options.dialect.clone(), self.makings.clone());
        Setup {
            profiles: self.opened.profiles.clone(),
            choose: Arc::new(move |name| chosen(name, &models, &variables, dialect.as_deref())),
            compose: Arc::new(move |session, profile| {
                makings.prompt(session, profile.map(|it| it.prompt.as_str())).text().into()
            }),
            section: self.opened.agents.subagent.clone(),
            person,
        }
    }
}

/// The model of a name, spoken to as the person wants it.
fn chosen(
    name: &str,
    models: &BTreeMap<String, ModelSection>,
    variables: &[(String, String)],
    dialect: Option<&str>,
) -> Result<Arc<dyn Model>, Fault> {
    let model = model::choose(name, Choices { models, variables })?;
    Ok(match dialect {
        None | Some("native") => model,
        Some(dialect) => Arc::new(Spoken::new(model, dialect.parse::<Dialect>()?)),
    })
}

/// No model was named: what there is a key for, and what to name.
fn unnamed(variables: &[(String, String)]) -> Fault {
    let is_set = |name: &str| variables.iter().any(|it| it.0 == name && !it.1.is_empty());
    let set: Vec<&str> = KEYS.into_iter().filter(|it| is_set(it)).collect();
    let keys = if set.is_empty() {
        format!("None of {} is set.", KEYS.join(", "))
    } else {
        format!("Set: {}.", set.join(", "))
    };
    let example = model::example(variables).unwrap_or_else(|| "anthropic:claude-sonnet-4-5".to_owned());
    Fault::bad_args("no model was named").next(format!(
        "{keys} Name a model with `--model {example}`, with `model` of `[agent]` in haft.toml or with {MODEL}; `--model script:FILE` \
         needs no key, `--model ollama:NAME` runs here."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_names_no_model_is_told_which_keys_there_are() {
        let next = |names: &[&str]| {
            let variables: Vec<_> = names.iter().map(|it| ((*it).to_owned(), "x".to_owned())).collect();
            unnamed(&variables).next.unwrap_or_default()
        };
        assert!(next(&[]).starts_with("None of ANTHROPIC_API_KEY, OPENAI_API_KEY,"), "{}", next(&[]));
        let with_key = next(&["OPENAI_API_KEY"]);
        assert!(
            with_key.starts_with("Set: OPENAI_API_KEY. Name a model with `--model openai:"),
            "{with_key}"
        );
    }
}
