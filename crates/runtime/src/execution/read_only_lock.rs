//! Read-only lock: whether a session's processes may change anything for now.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, Ordering},
};

use kit::{Fault, Kind};
use parking_lot::Mutex;

use super::{Execution, Inner, Living};
use sandbox::SandboxMode;

/// What a session and the tools in it have in common: that nothing may be changed, or something.
#[derive(Default)]
pub(super) struct ReadOnlyLock {
    read_only: AtomicBool,
    executions: Mutex<Vec<Weak<Inner>>>,
}

impl ReadOnlyLock {
    /// It counts for this ground too.
    pub(super) fn holds(&self, execution: &Execution) {
        let mut executions = self.executions.lock();
        executions.retain(|it| it.strong_count() > 0);
        executions.push(Arc::downgrade(&execution.inner));
    }
}

impl Execution {
    /// From now on nothing may be changed, or no longer so. Processes that were started under the other rule are ended,
    /// with all they started; what is started next has a sandbox made anew.
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

    /// Is it so that nothing may be changed?
    pub(crate) fn is_read_only(&self) -> bool {
        self.inner.held.read_only.load(Ordering::SeqCst)
    }

    /// What may be changed, as it is now.
    pub(super) fn sandbox(&self) -> SandboxMode {
        if self.is_read_only() { SandboxMode::ReadOnly } else { self.inner.sandbox }
    }
}

/// Ends a keeper that was made under the other rule, now, or as soon as nobody is making or taking it.
fn end(execution: &Arc<Inner>, which: fn(&Inner) -> &tokio::sync::Mutex<Option<Living>>) {
    if let Ok(mut kept) = which(execution).try_lock() {
        if let Some(living) = kept.take() {
            living.keeper.end();
        }
        return;
    }
    // Whoever has it is a task of this.
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

/// What is said of a command that came too late.
pub(super) fn held_now() -> Fault {
    Fault::new(
        Kind::Denied,
        "the session became read-only just now, so the command was not run (rule `sandbox`)",
    )
    .next("Run it again if it only reads: it gets a sandbox in which nothing can be changed.")
}
