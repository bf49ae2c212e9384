//! The clock of the engine: the machine's, or one that a test sets.

use std::{sync::Arc, time::Duration};

use kit::services::Soon;
use parking_lot::Mutex;
use tokio::sync::watch;

/// The longest sleep: a machine that was suspended, or whose clock was set, is noticed after this time.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// A wall clock.
pub trait Clock: Send + Sync {
    /// Returns milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Sleeps until this time, or less: whoever calls it looks at the clock again. Without a time it sleeps for ever.
    fn sleep_until(&self, at_ms: Option<u64>) -> Soon<'_, ()>;
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        store::now_ms()
    }

    fn sleep_until(&self, at_ms: Option<u64>) -> Soon<'_, ()> {
        let Some(at_ms) = at_ms else { return Box::pin(std::future::pending()) };
        let left = Duration::from_millis(at_ms.saturating_sub(self.now_ms()));
        Box::pin(tokio::time::sleep(left.min(LONGEST_SLEEP)))
    }
}

/// A clock that stands still until it is set. Cheap to clone.
#[derive(Debug, Clone)]
pub struct FakeClock {
    now: Arc<watch::Sender<u64>>,
    sleeps_until: Arc<Mutex<Option<u64>>>,
    slept: Arc<watch::Sender<u64>>,
}

impl FakeClock {
    /// Creates a clock that shows this time, in milliseconds since 1970.
    pub fn new(now_ms: u64) -> Self {
        Self {
            now: Arc::new(watch::Sender::new(now_ms)),
            sleeps_until: Arc::default(),
            slept: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Sets the time.
    pub fn set(&self, now_ms: u64) {
        self.now.send_replace(now_ms);
    }

    /// Returns until when the newest sleep lasts.
    pub fn sleeps_until(&self) -> Option<u64> {
        *self.sleeps_until.lock()
    }

    /// Returns a counter that changes with each sleep that begins.
    pub fn sleeps(&self) -> watch::Receiver<u64> {
        self.slept.subscribe()
    }
}

impl Clock for FakeClock {
    fn now_ms(&self) -> u64 {
        *self.now.borrow()
    }

    fn sleep_until(&self, at_ms: Option<u64>) -> Soon<'_, ()> {
        *self.sleeps_until.lock() = at_ms;
        self.slept.send_modify(|it| *it += 1);
        let mut now = self.now.subscribe();
        Box::pin(async move {
            let due = now.wait_for(|now| at_ms.is_some_and(|at_ms| *now >= at_ms));
            // The clock lives as long as this future.
            drop(due.await);
        })
    }
}
