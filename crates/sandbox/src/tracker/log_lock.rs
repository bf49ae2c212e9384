//! The lock of a call's log. A tracker does not wait for it: it is woken when the log is free.

use std::ops::{Deref, DerefMut};

use parking_lot::{Mutex, MutexGuard};

use super::{hold::Wake, log::Log};

/// The log of a call, which is opened at its first change.
#[derive(Default)]
pub(super) struct LogLock {
    log: Mutex<Option<Log>>,
    /// Wakes those who found it locked.
    waiting: Mutex<Vec<Wake>>,
}

/// The log, while nobody else uses it.
pub(super) struct LogGuard<'a> {
    log: MutexGuard<'a, Option<Log>>,
    /// Dropped after the guard.
    _wakes: Wakes<'a>,
}

/// Calls the wakes when it is dropped.
struct Wakes<'a>(&'a Mutex<Vec<Wake>>);

impl LogLock {
    pub(super) fn lock(&self) -> LogGuard<'_> {
        self.guard(self.log.lock())
    }

    /// Returns the log if nobody uses it.
    pub(super) fn try_lock(&self) -> Option<LogGuard<'_>> {
        self.log.try_lock().map(|log| self.guard(log))
    }

    /// Returns the log if nobody uses it. Else `wake` is called once it is free.
    pub(super) fn lock_or_wake(&self, wake: impl FnOnce() -> Wake) -> Option<LogGuard<'_>> {
        if let Some(log) = self.try_lock() {
            return Some(log);
        }
        self.waiting.lock().push(wake());
        // It may be free since: its last user did not see this entry then. An unneeded wake does no harm.
        self.try_lock()
    }

    fn guard<'a>(&'a self, log: MutexGuard<'a, Option<Log>>) -> LogGuard<'a> {
        LogGuard { log, _wakes: Wakes(&self.waiting) }
    }
}

impl Drop for Wakes<'_> {
    fn drop(&mut self) {
        let waiting = std::mem::take(&mut *self.0.lock());
        waiting.iter().for_each(|wake| wake());
    }
}

impl Deref for LogGuard<'_> {
    type Target = Option<Log>;

    fn deref(&self) -> &Option<Log> {
        &self.log
    }
}

impl DerefMut for LogGuard<'_> {
    fn deref_mut(&mut self) -> &mut Option<Log> {
        &mut self.log
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    fn counter() -> (Arc<AtomicUsize>, impl Fn() -> Wake) {
        let count = Arc::new(AtomicUsize::new(0));
        let of_wake = count.clone();
        let wake = move || -> Wake {
            let count = of_wake.clone();
            Arc::new(move || {
                count.fetch_add(1, Ordering::SeqCst);
            })
        };
        (count, wake)
    }

    #[test]
    fn whoever_found_it_locked_is_woken_once_when_it_is_free() {
        let (woken, wake) = counter();
        let lock = LogLock::default();
        let user = lock.lock();
        assert!(lock.lock_or_wake(&wake).is_none());
        assert_eq!(woken.load(Ordering::SeqCst), 0, "it is still locked");
        drop(user);
        assert_eq!(woken.load(Ordering::SeqCst), 1);
        drop(lock.lock());
        assert_eq!(woken.load(Ordering::SeqCst), 1);
        assert!(lock.lock_or_wake(&wake).is_some());
    }

    #[test]
    fn no_wake_is_lost_between_two_threads() {
        const TIMES: usize = 20_000;
        let lock = LogLock::default();
        let (send, woken) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..TIMES).for_each(|_| drop(lock.try_lock())));
            for _ in 0..TIMES {
                let send = send.clone();
                let wake = || -> Wake {
                    Arc::new(move || {
                        let _ = send.send(());
                    })
                };
                if lock.lock_or_wake(wake).is_none() {
                    let limit = std::time::Duration::from_secs(60);
                    assert!(woken.recv_timeout(limit).is_ok(), "a wake is lost");
                }
                // Those of locks that were free at the second look.
                while woken.try_recv().is_ok() {}
            }
        });
    }
}
