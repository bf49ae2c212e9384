//! Settings of an agent that can change at any time, also during a turn.

use std::sync::Arc;

use parking_lot::Mutex;

use super::outcome::sum;
use crate::{
    compaction::size::ContextUsed,
    model::{Model, Usage},
    prompt::System,
};

/// The settings of an agent that can change at any time, also during a turn. A change applies from the next
/// request on.
#[derive(Clone)]
pub struct Steering {
    pub(super) inner: Arc<Mutex<Now>>,
    below: Arc<Mutex<(Usage, Option<f64>)>>,
}

pub(super) struct Now {
    pub(super) model: Arc<dyn Model>,
    pub(super) system: System,
    /// The tokens of the newest request with its answer, and whether that is an estimate.
    size: (u64, bool),
}

impl Steering {
    /// Creates the settings of an agent whose own answers come from elsewhere: for the agents that it starts.
    pub(crate) fn alone(model: Arc<dyn Model>) -> Self {
        Self::of(model, "".into())
    }

    pub(super) fn of(model: Arc<dyn Model>, system: System) -> Self {
        let now = Now { model, system, size: (0, true) };
        Self { inner: Arc::new(Mutex::new(now)), below: Arc::default() }
    }

    /// Returns the model.
    pub fn model(&self) -> Arc<dyn Model> {
        self.inner.lock().model.clone()
    }

    /// Returns the system prompt.
    pub fn system(&self) -> Arc<str> {
        self.inner.lock().system.text().clone()
    }

    /// Returns how much of the model's context window is in use. Cheap, also during a turn.
    pub fn context_used(&self) -> ContextUsed {
        let now = self.inner.lock();
        let (tokens, estimated) = now.size;
        ContextUsed { tokens, window: now.model.abilities().window, estimated }
    }

    pub(super) fn set_size(&self, tokens: u64, estimated: bool) {
        self.inner.lock().size = (tokens, estimated);
    }

    /// Adds tokens and cost that other agents used for this one: the report of its turn includes them.
    pub fn add_below(&self, usage: Usage, cost: Option<f64>) {
        let mut below = self.below.lock();
        below.0 += usage;
        below.1 = sum(below.1, cost);
    }

    pub(super) fn take_below(&self) -> (Usage, Option<f64>) {
        std::mem::take(&mut *self.below.lock())
    }

    /// Sets the model.
    pub fn set_model(&self, model: Arc<dyn Model>) {
        self.inner.lock().model = model;
    }

    /// Sets the system prompt.
    pub fn set_system(&self, system: System) {
        self.inner.lock().system = system;
    }
}
