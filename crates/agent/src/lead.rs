//! Under what does an agent work, from its next answer on?

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{
    model::{Model, Usage},
    profiles::Profile,
};

/// What the turn loop of an agent and its tools have in common. The loop looks at it before each answer.
pub(crate) struct Lead {
    now: Mutex<Arc<Standing>>,
    below: Mutex<Usage>,
}

/// What holds for the next answer.
#[derive(Clone)]
pub(crate) struct Standing {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) system: Arc<str>,
    /// At most so many answers in a turn.
    pub(crate) steps: usize,
    pub(crate) profile: Option<Arc<Profile>>,
}

impl Lead {
    pub(crate) fn new(standing: Standing) -> Self {
        Self { now: Mutex::new(Arc::new(standing)), below: Mutex::default() }
    }

    /// What holds now.
    pub(crate) fn now(&self) -> Arc<Standing> {
        self.now.lock().clone()
    }

    /// From the next answer on, this holds.
    pub(crate) fn change(&self, standing: Standing) {
        *self.now.lock() = Arc::new(standing);
    }

    /// What others used on behalf of this agent.
    pub(crate) fn used_below(&self, usage: Usage) {
        *self.below.lock() += usage;
    }

    /// The same, as far as it was not reported yet.
    pub(crate) fn take_below(&self) -> Usage {
        std::mem::take(&mut *self.below.lock())
    }
}
