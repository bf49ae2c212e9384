//! Which agent did the person ask for, and what is it made of?

use std::sync::Arc;

use agent::{
    Agent, Bounds, Host, Settings,
    model::{self, Choices},
};
use clap::Args;
use kit::Fault;

use crate::{Opened, Options, Place, ask::approver};

/// Options of every verb that is an agent.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AgentOptions {
    /// The model: `anthropic:…`, `openai:…`, `script:FILE`.
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// At most so many answers of the model in one turn.
    #[arg(long, value_name = "N")]
    pub(crate) max_steps: Option<usize>,
}

impl AgentOptions {
    /// Makes the agent.
    ///
    /// # Errors
    /// When there is no such model, or its session can't be read.
    pub(crate) fn open(
        &self,
        options: &Options,
        place: &Place,
        host: Arc<dyn Host>,
        door: &str,
        session: Option<&str>,
    ) -> Result<(Agent, Opened), Fault> {
        let opened = options.open(place)?;
        let Some(name) = self.model.as_ref().or(opened.agents.agent.model.as_ref()) else {
            return Err(Fault::bad_args("no model was named").next("Name one with `--model`."));
        };
        let model =
            model::choose(name, Choices { models: &opened.agents.models, variables: &place.variables })?;
        let session = opened.runtime.session(session.or(options.session.as_deref()), door, approver());
        let system = tools::instructions(&opened.toolset).into();
        let bounds = Bounds { steps: self.max_steps.unwrap_or(Bounds::default().steps), ..Bounds::default() };
        let visible = opened.agents.agent.visible.unwrap_or_default();
        let agent = Agent::open(Settings { session, model, system, bounds, visible, host })?;
        Ok((agent, opened))
    }
}
