//! Read-only lock: whether a session's processes may change anything for now.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, Ordering},
};

use kit::{Fault, Kind};
use parking_lot::Mutex;

use super::{Ground, Inner, Living};
use sandbox::SandboxMode;

/// What a session and the tools in it have in common: that nothing may be changed, or something.
#[derive(Default)]
pub(super) struct Held {
    read_only: AtomicBool,
    grounds: Mutex<Vec<Weak<Inner>>>,
}

impl Held {
    /// It counts for this ground too.
    pub(super) fn holds(&self, ground: &Ground) {
        let mut grounds = self.grounds.lock();
        grounds.retain(|it| it.strong_count() > 0);
        grounds.push(Arc::downgrade(&ground.inner));
    }
}

impl Ground {
    /// From now on nothing may be changed, or no longer so. Processes that were started under the other rule are ended,
    /// with all they started; what is started next has a sandbox made anew.
    pub(crate) fn hold(&self, read_only: bool) {
        let held = &self.inner.held;
        if held.read_only.swap(read_only, Ordering::SeqCst) == read_only {
            return;
        }
        let grounds: Vec<_> = held.grounds.lock().iter().filter_map(Weak::upgrade).collect();
        for ground in grounds {
            end(&ground, |it| &it.confined);
            if read_only {
                end(&ground, |it| &it.unconfined);
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
fn end(ground: &Arc<Inner>, which: fn(&Inner) -> &tokio::sync::Mutex<Option<Living>>) {
    if let Ok(mut kept) = which(ground).try_lock() {
        if let Some(living) = kept.take() {
            living.keeper.end();
        }
        return;
    }
    // Whoever has it is a task of this.
    let Ok(tasks) = tokio::runtime::Handle::try_current() else { return };
    let ground = ground.clone();
    tasks.spawn(async move {
        let mut kept = which(&ground).lock().await;
        let read_only = ground.held.read_only.load(Ordering::SeqCst);
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
