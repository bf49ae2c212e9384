//! Saved session state: the model, dialect and profile of a conversation.
//!
//! It is saved beside the transcript, so a resumed conversation keeps its model and its permissions.

use agent::{Agent, Crew};
use kit::Fault;
use runtime::Runtime;
use serde::{Deserialize, Serialize};

/// The key under which a session stores it.
const KEY: &str = "agent";

/// The state of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionState {
    /// The model, by the name with which it was chosen.
    pub(crate) model: String,
    /// The dialect that the person chose for it.
    #[serde(default)]
    pub(crate) dialect: Option<String>,
    /// The profile that the person chose.
    #[serde(default)]
    pub(crate) chosen: Option<String>,
    /// The profile that the model switched to by itself.
    #[serde(default)]
    pub(crate) profile: Option<String>,
}

impl SessionState {
    /// Returns the state of this conversation when it was last saved; `None` if it never was. Blocks.
    ///
    /// # Errors
    /// When it can't be read.
    pub(crate) fn of(runtime: &Runtime, session: &str) -> Result<Option<Self>, Fault> {
        let kept = runtime.store().sessions().get(session, KEY)?;
        // A newer haft may use another format: then the person has to choose again.
        Ok(kept.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Returns whether the conversation has a model. Blocks.
    pub(crate) fn is_there(store: &store::Store, session: &str) -> bool {
        let kept = store.sessions().get(session, KEY).ok().flatten();
        kept.and_then(|it| serde_json::from_slice::<Self>(&it).ok()).is_some_and(|it| !it.model.is_empty())
    }

    /// Saves the state of the agent's conversation.
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
