//! The sandbox that a person chose for a session: it narrows the configured one, for the session and the agents that it starts.

use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use sandbox::SandboxMode;

use super::{Execution, sandbox_lock::SandboxLock};

/// The widest sandbox of a session; the configuration may allow less.
pub(crate) struct ChosenSandbox {
    mode: RwLock<SandboxMode>,
    /// Those of the session and of its agents.
    locks: Mutex<Vec<Weak<SandboxLock>>>,
}

impl Default for ChosenSandbox {
    fn default() -> Self {
        Self { mode: RwLock::new(SandboxMode::Full), locks: Mutex::default() }
    }
}

impl ChosenSandbox {
    /// Returns the widest mode.
    pub(crate) fn mode(&self) -> SandboxMode {
        *self.mode.read()
    }

    /// Sets the widest mode. Processes that were started in another are killed.
    pub(crate) fn choose(&self, mode: SandboxMode) {
        *self.mode.write() = mode;
        let locks: Vec<_> = self.locks.lock().iter().filter_map(Weak::upgrade).collect();
        locks.iter().for_each(|it| it.end_stale());
    }
}

impl Execution {
    /// Narrows the sandbox of this execution environment, and of those of its tools, as a person chose. The first one stays.
    pub(crate) fn narrowed_by(self, chosen: &Arc<ChosenSandbox>) -> Self {
        let lock = &self.inner.held;
        if lock.chosen.set(chosen.clone()).is_ok() {
            let mut locks = chosen.locks.lock();
            locks.retain(|it| it.strong_count() > 0);
            locks.push(Arc::downgrade(lock));
        }
        self
    }
}
