//! The service for triggers: what begins turns of an agent without a person.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Soon;
use crate::{Fault, Kind};

/// A trigger to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewTrigger {
    /// The tool that makes it, which says what it waits for: `add_timer`.
    pub tool: String,
    /// The name that was chosen for it.
    pub name: Option<String>,
    /// The tool's arguments.
    pub arguments: Value,
}

impl NewTrigger {
    /// Returns it as a [`Touch::Trigger`](crate::Touch::Trigger) holds it.
    pub fn as_touch(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A trigger that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeTrigger {
    /// Its id.
    pub id: String,
    /// Its arguments in one line: `interval=5, prompt='look'`.
    pub arguments: String,
    /// More lines for the model.
    pub notes: Vec<String>,
}

/// The triggers of a session.
pub trait Triggers: Send + Sync {
    /// Makes a trigger.
    ///
    /// # Errors
    /// [`Kind::BadArgs`] when the arguments are wrong or the name is taken.
    fn add(&self, new: NewTrigger) -> Soon<'_, Result<MadeTrigger, Fault>>;

    /// Removes a trigger. Returns false, if there is none of that id.
    ///
    /// # Errors
    /// When it can't be removed.
    fn remove<'a>(&'a self, id: &'a str) -> Soon<'a, Result<bool, Fault>>;

    /// Returns the triggers, one line each.
    ///
    /// # Errors
    /// When they can't be read.
    fn list(&self) -> Soon<'_, Result<Vec<String>, Fault>>;
}

/// The service where nothing begins turns.
pub struct NoTriggers;

fn none() -> Fault {
    Fault::new(Kind::Unavailable, "there are no triggers here: no agent of haft runs this session")
}

impl Triggers for NoTriggers {
    fn add(&self, _: NewTrigger) -> Soon<'_, Result<MadeTrigger, Fault>> {
        Box::pin(std::future::ready(Err(none())))
    }

    fn remove<'a>(&'a self, _: &'a str) -> Soon<'a, Result<bool, Fault>> {
        Box::pin(std::future::ready(Err(none())))
    }

    fn list(&self) -> Soon<'_, Result<Vec<String>, Fault>> {
        Box::pin(std::future::ready(Err(none())))
    }
}
