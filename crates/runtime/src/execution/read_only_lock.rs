//! Read-only lock: whether a session's processes may change anything for now.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, Ordering},
};

use kit::{Fault, Kind};
use parking_lot::Mutex;

use super::{Execution, Inner, Living};
use sandbox::SandboxMode;

/// The read-only state that a session shares with its tools.
#[derive(Default)]
pub(super) struct ReadOnlyLock {
    read_only: AtomicBool,
    executions: Mutex<Vec<Weak<Inner>>>,
}

impl ReadOnlyLock {
    /// Applies the lock to this execution environment too.
    pub(super) fn holds(&self, execution: &Execution) {
        let mut executions = self.executions.lock();
        executions.retain(|it| it.strong_count() > 0);
        executions.push(Arc::downgrade(&execution.inner));
    }
}

impl Execution {
    /// Makes the session read-only, or writable again. Ends processes that were started in the other state,
    /// with all that they started; later processes get a new sandbox.
    pub(crate) fn hold(&self, read_only: bool) {
        let held = &self.inner.held;
        if held.read_only.swap(read_only, Ordering::SeqCst) == read_only {
            return;
        }
        let executions: Vec<_> = held.executions.lock().iter().filter_map(Weak::upgrade).collect();
        for execution in executions {
            end(&execution, |it| &it.confined);
            if read_only {
                end(&execution, |it| &it.unconfined);
            }
        }
    }

    /// Returns whether the session is read-only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.inner.held.read_only.load(Ordering::SeqCst)
    }

    /// Returns the mode in effect.
    pub(super) fn sandbox(&self) -> SandboxMode {
        if self.is_read_only() { SandboxMode::ReadOnly } else { self.inner.sandbox }
    }
}

/// Ends a keeper that was started in the other state: now, or as soon as its lock is free.
fn end(execution: &Arc<Inner>, which: fn(&Inner) -> &tokio::sync::Mutex<Option<Living>>) {
    if let Ok(mut kept) = which(execution).try_lock() {
        if let Some(living) = kept.take() {
            living.keeper.end();
        }
        return;
    }
    // A task of this runtime holds it.
    let Ok(tasks) = tokio::runtime::Handle::try_current() else { return };
    let execution = execution.clone();
    tasks.spawn(async move {
        let mut kept = which(&execution).lock().await;
        let read_only = execution.held.read_only.load(Ordering::SeqCst);
        if let Some(living) = kept.take_if(|it| it.read_only != read_only) {
            living.keeper.end();
        }
    });
}

/// Returns the fault for a command that came too late.
pub(super) fn held_now() -> Fault {
    Fault::new(
        Kind::Denied,
        "the session became read-only just now, so the command was not run (rule `sandbox`)",
    )
    .next("Run it again if it only reads: it gets a sandbox in which nothing can be changed.")
}
