//! Hooks of a session: their sandboxes, their lines for the person, and whether one wants the agent to stop.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::hooks::HookExecutions;

/// Limit of lines that wait for the person.
const MOST: usize = 100;

/// The state of a session's hooks.
#[derive(Default)]
pub(crate) struct SessionHooks {
    executions: Mutex<Option<Arc<HookExecutions>>>,
    notes: Mutex<Vec<String>>,
    halt: Mutex<Option<String>>,
    began: AtomicBool,
    /// The hooks that run beside a question.
    beside: Mutex<Vec<JoinHandle<()>>>,
}

/// The answer of an event's hooks, apart from those of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookWord {
    /// The hook that refuses, and its reason.
    pub denied: Option<(String, String)>,
    /// Context for the model, each with its hook.
    pub context: Vec<(String, String)>,
    /// Changes of a call and decisions about it, one line each.
    pub changes: Vec<String>,
    /// The reason to stop the agent.
    pub halt: Option<String>,
}

impl SessionHooks {
    pub(crate) fn executions(&self) -> Arc<HookExecutions> {
        self.executions.lock().get_or_insert_default().clone()
    }

    pub(crate) fn note(&self, lines: Vec<String>) {
        let mut notes = self.notes.lock();
        for line in lines {
            tracing::warn!("{line}");
            if notes.len() < MOST {
                notes.push(line);
            }
        }
    }

    pub(crate) fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock())
    }

    pub(crate) fn halt(&self, reason: Option<String>) {
        if let Some(reason) = reason {
            self.halt.lock().get_or_insert(reason);
        }
    }

    pub(crate) fn take_halt(&self) -> Option<String> {
        self.halt.lock().take()
    }

    /// Keeps hooks that run beside a question, for the end of the session.
    pub(crate) fn run_beside(&self, hooks: JoinHandle<()>) {
        let mut beside = self.beside.lock();
        beside.retain(|it| !it.is_finished());
        beside.push(hooks);
    }

    /// Returns the hooks that run beside a question.
    pub(crate) fn take_beside(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut *self.beside.lock())
    }

    pub(crate) fn begin(&self) {
        self.began.store(true, Ordering::Relaxed);
    }

    /// Returns whether the session began, once.
    pub(crate) fn has_begun(&self) -> bool {
        self.began.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn end(&self) {
        *self.executions.lock() = None;
    }
}
