//! Sandbox lock: how far the sandbox of a session's processes is narrowed for now.

use std::sync::{
    Arc, OnceLock, Weak,
    atomic::{AtomicBool, Ordering},
};

use kit::{Fault, Kind};
use parking_lot::Mutex;

use super::{Execution, Inner, Living, chosen_sandbox::ChosenSandbox};
use sandbox::SandboxMode;

/// The narrowing of the sandbox that a session shares with its tools.
#[derive(Default)]
pub(super) struct SandboxLock {
    read_only: AtomicBool,
    /// The sandbox that a person chose.
    pub(super) chosen: OnceLock<Arc<ChosenSandbox>>,
    executions: Mutex<Vec<Weak<Inner>>>,
}

impl SandboxLock {
    /// Applies the lock to this execution environment too.
    pub(super) fn holds(&self, execution: &Execution) {
        let mut executions = self.executions.lock();
        executions.retain(|it| it.strong_count() > 0);
        executions.push(Arc::downgrade(&execution.inner));
    }

    /// Returns the widest mode at this time.
    fn at_most(&self) -> SandboxMode {
        if self.read_only.load(Ordering::SeqCst) {
            return SandboxMode::ReadOnly;
        }
        self.chosen.get().map_or(SandboxMode::Full, |it| it.mode())
    }

    /// Ends processes that were started in another mode, with all that they started; later processes get a new sandbox.
    pub(super) fn end_stale(&self) {
        let executions: Vec<_> = self.executions.lock().iter().filter_map(Weak::upgrade).collect();
        for execution in executions {
            end(&execution, |it| &it.confined, Inner::has_stale_sandbox);
            end(&execution, |it| &it.unconfined, Inner::is_confined_now);
        }
    }
}

impl Inner {
    fn has_stale_sandbox(&self, living: &Living) -> bool {
        living.read_only != (self.held.at_most() == SandboxMode::ReadOnly)
    }

    /// Returns whether commands run in a sandbox now that ran outside of it by configuration, or nothing may be changed.
    fn is_confined_now(&self, _: &Living) -> bool {
        let at_most = self.held.at_most();
        at_most == SandboxMode::ReadOnly || at_most < self.sandbox && self.sandbox == SandboxMode::Full
    }
}

impl Execution {
    /// Makes the session read-only, or writable again. Ends processes that were started in the other state,
    /// with all that they started; later processes get a new sandbox.
    pub(crate) fn hold(&self, read_only: bool) {
        let held = &self.inner.held;
        if held.read_only.swap(read_only, Ordering::SeqCst) != read_only {
            held.end_stale();
        }
    }

    /// Returns whether the session is read-only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.inner.held.at_most() == SandboxMode::ReadOnly
    }

    /// Returns the mode in effect.
    pub(super) fn sandbox(&self) -> SandboxMode {
        self.inner.sandbox.min(self.inner.held.at_most())
    }
}

/// Ends a keeper that was started in another mode: now, or as soon as its lock is free.
fn end(
    execution: &Arc<Inner>,
    which: fn(&Inner) -> &tokio::sync::Mutex<Option<Living>>,
    is_stale: fn(&Inner, &Living) -> bool,
) {
    if let Ok(mut kept) = which(execution).try_lock() {
        if let Some(living) = kept.take_if(|it| is_stale(execution, it)) {
            living.keeper.end();
        }
        return;
    }
    // A task of this runtime holds it.
    let Ok(tasks) = tokio::runtime::Handle::try_current() else { return };
    let execution = execution.clone();
    tasks.spawn(async move {
        let mut kept = which(&execution).lock().await;
        if let Some(living) = kept.take_if(|it| is_stale(&execution, it)) {
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
