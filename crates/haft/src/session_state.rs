//! Saved session state: the model, dialect and profile of a conversation.
//!
//! It is kept beside what was said, so that who goes on with it goes on with the same model and may do no more.

use agent::{Agent, Crew};
use kit::Fault;
use runtime::Runtime;
use serde::{Deserialize, Serialize};

/// Under which key a session keeps it.
const KEY: &str = "agent";

/// How a conversation stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionState {
    /// The model, by the name that it was asked for by.
    pub(crate) model: String,
    /// The dialect that the person chose for it.
    #[serde(default)]
    pub(crate) dialect: Option<String>,
    /// The profile that the person chose.
    #[serde(default)]
    pub(crate) chosen: Option<String>,
    /// The profile under which the model went on by itself.
    #[serde(default)]
    pub(crate) profile: Option<String>,
}

impl SessionState {
    /// How this conversation stood when it was kept last; nothing, where it never was. Blocks.
    ///
    /// # Errors
    /// When it can't be read.
    pub(crate) fn of(runtime: &Runtime, session: &str) -> Result<Option<Self>, Fault> {
        let kept = runtime.store().sessions().get(session, KEY)?;
        // What a newer haft wrote may look otherwise: then it has to be said again.
        Ok(kept.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Does the conversation have a model? Blocks.
    pub(crate) fn is_there(store: &store::Store, session: &str) -> bool {
        let kept = store.sessions().get(session, KEY).ok().flatten();
        kept.and_then(|it| serde_json::from_slice::<Self>(&it).ok()).is_some_and(|it| !it.model.is_empty())
    }

    /// Keeps how the agent's conversation stands now.
    ///
    /// # Errors
    /// When the store can't be written.
    pub(crate) fn keep(agent: &Agent, dialect: Option<&str>) -> Result<(), Fault> {
        let crew = agent.crew();
        let standing = Self {
            model: agent.steering().model().name().to_owned(),
            dialect: dialect.map(str::to_owned),
            chosen: crew.and_then(Crew::chosen),
            profile: crew.and_then(Crew::profile),
        };
        let bytes = serde_json::to_vec(&standing)
            .map_err(|error| Fault::bug(format!("how a conversation stands can't be written: {error}")))?;
        let session = agent.session();
        session.runtime().store().sessions().put(session.name(), KEY, bytes)
    }
}
