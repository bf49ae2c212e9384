//! Locks of calls: decides which calls may run at the same time.
//!
//! A call acquires all its locks at once and waits in one queue. So calls can't deadlock and run first come,
//! first served: two edits of one file happen in the model's order, edits of different files run together,
//! reads share. Commands run together too: `commands` has the rule.

mod commands;

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

pub(crate) use commands::{Other, as_command};

/// The object of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// A file or folder, by its canonical path.
    Path(PathBuf),
    /// A resource of the session.
    Session(String),
    /// The lock that exclusive calls hold alone, and that calls which write and commands share.
    World,
    /// A program whose commands take turns.
    Program(&'static str),
}

/// The mode of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Shared with other calls.
    Shared,
    /// Exclusive to one call.
    Alone,
    /// Shared with other commands, and with calls that share it and ask later.
    Command,
    /// Conflicts with nothing; says that a command runs.
    Free,
}

/// The locks of one server.
#[derive(Clone, Default)]
pub struct Schedule {
    state: Arc<Mutex<State>>,
    /// Notified whenever a call releases its locks.
    released: Arc<Notify>,
}

/// The call that waits for locks.
#[derive(Debug, Clone, Default)]
pub struct Who {
    /// Its id.
    pub call: String,
    /// Its session.
    pub session: String,
    /// Its title, for a person.
    pub title: String,
    /// The text of the command that it runs.
    pub command: Option<Arc<str>>,
}

#[derive(Default)]
struct State {
    next: u64,
    held: Vec<HeldLocks>,
    waiting: VecDeque<Waiting>,
}

struct HeldLocks {
    ticket: u64,
    who: Who,
    keys: Vec<(Key, Hold)>,
    of_commands: commands::State,
}

struct Waiting {
    ticket: u64,
    who: Who,
    wants: Vec<(Key, Hold)>,
    ready: oneshot::Sender<()>,
}

/// Acquired locks; dropping this releases them.
pub struct Locks {
    schedule: Schedule,
    ticket: u64,
    /// The time that the call waited for them.
    pub waited: Duration,
}

impl Schedule {
    /// Queues for all of these locks at once; the future resolves when they are acquired. Dropping the future
    /// leaves the queue.
    pub fn lock(&self, wants: Vec<(Key, Hold)>) -> impl Future<Output = Locks> + Send + use<> {
        self.lock_for(Who::default(), wants)
    }

    /// Queues for locks on behalf of a call, which other calls that wait for it can name.
    pub fn lock_for(&self, who: Who, wants: Vec<(Key, Hold)>) -> impl Future<Output = Locks> + Send + use<> {
        let asked = Instant::now();
        let (ready, granted) = oneshot::channel();
        let ticket = {
            let mut state = self.state.lock();
            state.next += 1;
            let ticket = state.next;
            state.waiting.push_back(Waiting { ticket, who, wants, ready });
            state.pump();
            ticket
        };
        let mut locks = Locks { schedule: self.clone(), ticket, waited: Duration::ZERO };
        async move {
            // The sender is dropped only after it has sent, or with our own drop.
            let _ = granted.await;
            locks.waited = asked.elapsed();
            locks
        }
    }

    /// Returns the call that this one waits for; nothing, if it has its locks.
    pub fn ahead_of(&self, call: &str) -> Option<Who> {
        let state = self.state.lock();
        if let Some(held) = state.held.iter().find(|it| it.who.call == call) {
            return held.of_commands.waits_for.clone();
        }
        let (index, waiting) = state.waiting.iter().enumerate().find(|(_, it)| it.who.call == call)?;
        let held = state.held.iter().find(|it| held_conflicts(&it.keys, &waiting.wants)).map(|it| &it.who);
        let mut before = state.waiting.iter().take(index);
        held.or_else(|| before.find(|it| conflict(&it.wants, &waiting.wants)).map(|it| &it.who)).cloned()
    }
}

impl Who {
    /// Returns its name for an answer in this session: titles of other sessions are not shown.
    pub(crate) fn name_in(&self, session: &str) -> String {
        match self.session == session {
            true => format!("`{}`", self.title),
            false => "a call of another session".to_owned(),
        }
    }
}

impl State {
    /// Grants locks in queue order to all calls that can have them; a call never overtakes one that it
    /// conflicts with.
    fn pump(&mut self) {
        let mut index = 0;
        while let Some(waiting) = self.waiting.get(index) {
            let blocked = self.held.iter().any(|it| held_conflicts(&it.keys, &waiting.wants))
                || self.waiting.iter().take(index).any(|before| conflict(&before.wants, &waiting.wants));
            if blocked {
                index += 1;
                continue;
            }
            let Some(Waiting { ticket, who, wants, ready }) = self.waiting.remove(index) else { return };
            let of_commands = commands::State::default();
            self.held.push(HeldLocks { ticket, who, keys: wants, of_commands });
            // A call that was dropped releases the locks when its `Locks` are dropped.
            let _ = ready.send(());
        }
    }
}

fn any_pair(one: &[(Key, Hold)], other: &[(Key, Hold)], pair: impl Fn(Hold, Hold) -> bool) -> bool {
    one.iter().any(|(key, hold)| other.iter().any(|(its, held)| key == its && pair(*hold, *held)))
}

/// Returns whether locks that are waited for come before these.
fn conflict(before: &[(Key, Hold)], wants: &[(Key, Hold)]) -> bool {
    any_pair(before, wants, |before, wanted| match (before, wanted) {
        (Hold::Free, _) | (_, Hold::Free) => false,
        (Hold::Alone, _) | (_, Hold::Alone) => true,
        (one, other) => one != other,
    })
}

/// Returns whether acquired locks come before these. A command that runs does not stop a call that writes here: that
/// one looks at what the command does.
fn held_conflicts(held: &[(Key, Hold)], wants: &[(Key, Hold)]) -> bool {
    any_pair(held, wants, |held, wanted| match (held, wanted) {
        (Hold::Free, _) | (_, Hold::Free) | (Hold::Command, Hold::Shared) => false,
        (Hold::Alone, _) | (_, Hold::Alone) => true,
        (one, other) => one != other,
    })
}

impl Drop for Locks {
    fn drop(&mut self) {
        let mut state = self.schedule.state.lock();
        state.held.retain(|it| it.ticket != self.ticket);
        state.waiting.retain(|waiting| waiting.ticket != self.ticket);
        state.pump();
        drop(state);
        self.schedule.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;

    use super::*;

    fn path(name: &str) -> Key {
        Key::Path(name.into())
    }

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        use futures_util::FutureExt;
        future.now_or_never()
    }

    #[test]
    fn reads_share_and_writers_wait_for_their_own_file_only() {
        let schedule = Schedule::default();
        let read = now(schedule.lock(vec![(path("a"), Hold::Shared)])).unwrap();
        let _also = now(schedule.lock(vec![(path("a"), Hold::Shared)])).unwrap();
        assert!(now(schedule.lock(vec![(path("a"), Hold::Alone)])).is_none());
        assert!(now(schedule.lock(vec![(path("b"), Hold::Alone)])).is_some());
        drop((read, _also));
        assert!(now(schedule.lock(vec![(path("a"), Hold::Alone)])).is_some());
    }

    #[tokio::test]
    async fn calls_on_one_file_run_in_order_of_arrival() {
        let schedule = Schedule::default();
        let order = Arc::new(Mutex::new(Vec::new()));
        let first = schedule.lock(vec![(path("a"), Hold::Alone)]).await;
        let tasks: Vec<_> = (0..20)
            .map(|number| {
                let (schedule, order) = (schedule.clone(), order.clone());
                let hold = if number % 3 == 0 { Hold::Shared } else { Hold::Alone };
                tokio::spawn(async move {
                    let _locks = schedule.lock(vec![(path("a"), hold)]).await;
                    order.lock().push(number);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock(), (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn waiting_call_names_the_one_ahead() {
        let schedule = Schedule::default();
        let lock = |call: &str| {
            let who = Who { call: call.to_owned(), title: format!("make {call}"), ..Who::default() };
            schedule.lock_for(who, vec![(Key::World, Hold::Alone)])
        };
        let first = now(lock("a")).unwrap();
        let mut second = Box::pin(lock("b"));
        let third = Box::pin(lock("c"));
        let ahead = |call: &str| schedule.ahead_of(call).map(|it| it.title);
        assert_eq!(
            (ahead("a"), ahead("b").as_deref(), ahead("c").as_deref()),
            (None, Some("make a"), Some("make a"))
        );
        drop(first);
        let _held = now(&mut second).unwrap();
        assert_eq!((ahead("b"), ahead("c").as_deref()), (None, Some("make b")));
        drop(third);
        assert_eq!(ahead("c"), None);
    }

    #[test]
    fn dropped_wait_blocks_nobody() {
        let schedule = Schedule::default();
        let held = now(schedule.lock(vec![(path("a"), Hold::Shared)])).unwrap();
        let mut writer = Box::pin(schedule.lock(vec![(path("a"), Hold::Alone)]));
        assert!(now(&mut writer).is_none());
        // A reader must not overtake the waiting writer …
        assert!(now(schedule.lock(vec![(path("a"), Hold::Shared)])).is_none());
        drop(writer);
        // … but may run once the writer is done.
        assert!(now(schedule.lock(vec![(path("a"), Hold::Shared)])).is_some());
        drop(held);
        assert!(schedule.state.lock().held.is_empty() && schedule.state.lock().waiting.is_empty());
    }

    proptest! {
        #[test]
        fn no_two_that_conflict_run_together_and_all_run(
            calls in proptest::collection::vec(proptest::collection::vec((0_usize..4, any::<bool>()), 1..4), 1..30)
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let schedule = Schedule::default();
                let inside: Arc<Vec<(AtomicUsize, AtomicUsize)>> = Arc::new((0..4).map(|_| Default::default()).collect());
                let tasks: Vec<_> = calls.into_iter().map(|wants| {
                    let (schedule, inside) = (schedule.clone(), inside.clone());
                    tokio::spawn(async move {
                        let mut wants = wants;
                        wants.sort_unstable();
                        wants.dedup_by_key(|want| want.0);
                        let keys = wants.iter().map(|(key, alone)| {
                            (path(&key.to_string()), if *alone { Hold::Alone } else { Hold::Shared })
                        });
                        let _locks = schedule.lock(keys.collect()).await;
                        for (key, alone) in &wants {
                            let (readers, writers) = inside.get(*key).unwrap();
                            if *alone { writers } else { readers }.fetch_add(1, Ordering::SeqCst);
                            let (readers, writers) = (readers.load(Ordering::SeqCst), writers.load(Ordering::SeqCst));
                            assert!(writers == 0 || (writers == 1 && readers == 0));
                        }
                        tokio::task::yield_now().await;
                        for (key, alone) in &wants {
                            let (readers, writers) = inside.get(*key).unwrap();
                            if *alone { writers } else { readers }.fetch_sub(1, Ordering::SeqCst);
                        }
                    })
                }).collect();
                for task in tasks {
                    task.await.unwrap();
                }
            });
        }
    }
}
