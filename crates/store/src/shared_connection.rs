//! The open database, which one thread uses at a time: the writer, or a caller that has little to write.
//!
//! A caller that waits for its row would wake the writer and be woken by it, and both cost more than the row. So
//! [`here`](SharedConnection::here) lets it write in its own thread where nothing is in its way.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use rusqlite::Connection;

use super::{connection::Open, error::Trouble, queue::Queue};

/// The number of writes after which callers rest: a short call begins and ends.
const WRITES: u32 = 2;

/// The length of that rest, as a multiple of the time that the writes took. Meanwhile callers use the queue: where many calls
/// come at once, the writer commits them together, and their threads have other things to do.
const REST: u32 = 4;

#[derive(Default)]
pub(super) struct SharedConnection {
    state: Mutex<State>,
}

/// The database, for the thread that holds it.
#[derive(Default)]
pub(super) struct State {
    /// The database once the writer has opened it.
    pub(super) open: Option<Open>,
    recent: Option<Recent>,
}

/// The newest writes of callers, which count until their rest is over.
struct Recent {
    writes: u32,
    took: Duration,
    rested: Instant,
}

impl SharedConnection {
    /// Waits until no other thread uses the database.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Does and commits `work` in this thread, without waiting for any other. Gives the work back if something is queued
    /// before it, the database is in use (in another process, too) or not open, or callers have just written twice.
    pub(super) fn here<T, F>(&self, path: &Path, queue: &Queue, work: F) -> Result<Result<T, Trouble>, F>
    where
        F: FnOnce(&Connection) -> rusqlite::Result<T>,
    {
        let Some(mut state) = self.state.try_lock() else { return Err(work) };
        let began = Instant::now();
        let (writes, took) = state
            .recent
            .as_ref()
            .filter(|it| began < it.rested)
            .map(|it| (it.writes, it.took))
            .unwrap_or_default();
        if writes >= WRITES || !queue.is_clear() {
            return Err(work);
        }
        let Some(open) = state.open.as_ref().filter(|it| it.begin_at_once()) else { return Err(work) };
        let done = work(open.database());
        let committed = open.commit(path);
        let is_long = open.is_log_long();
        let took = took + began.elapsed();
        state.recent = Some(Recent { writes: writes + 1, took, rested: Instant::now() + REST * took });
        drop(state);
        if let Err(trouble) = &committed {
            queue.note(Err(trouble));
        }
        // The writer writes the log back, and tries whether the database works again.
        if is_long || committed.is_err() {
            queue.nudge();
        }
        Ok(committed.and_then(|()| done.map_err(|error| Trouble::of_sqlite(path, &error))))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{
        path::PathBuf,
        sync::{Arc, mpsc},
        thread::{self, ThreadId},
        time::Duration,
    };

    use kit::redact::Secrets;
    use rusqlite::params;

    use crate::{Store, folder_of};

    const WORKSPACE: &str = "/nowhere/w";

    /// An open store with a table of its own, and its database.
    fn store() -> (tempfile::TempDir, Store, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let store =
            Store::open(folder.path(), WORKSPACE.as_ref(), Arc::new(Secrets::collect([("A", "b")], [])));
        let create = "CREATE TABLE seen (number INTEGER PRIMARY KEY, text TEXT)";
        store.wait(move |database| database.execute_batch(create)).unwrap();
        let database = folder_of(folder.path(), WORKSPACE.as_ref()).join("haft.db");
        assert!(database.exists(), "{}", database.display());
        (folder, store, database)
    }

    fn insert(number: i64) -> impl FnOnce(&super::Connection) -> rusqlite::Result<ThreadId> + Send {
        move |database| {
            database.execute("INSERT INTO seen VALUES (?1, NULL)", [number])?;
            Ok(thread::current().id())
        }
    }

    fn rested() {
        thread::sleep(Duration::from_millis(20));
    }

    #[tokio::test]
    async fn caller_writes_in_its_own_thread_when_nothing_is_queued() {
        let (_folder, store, database) = store();
        rested();
        assert_eq!(store.ask_here(insert(1)).await.unwrap(), thread::current().id());
        rested();
        assert_eq!(store.wait(insert(2)).unwrap(), thread::current().id());
        let other = rusqlite::Connection::open(database).unwrap();
        let count: i64 = other.query_row("SELECT count(*) FROM seen", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 2, "another process sees what was committed");
    }

    #[tokio::test]
    async fn caller_does_not_overtake_what_was_queued_before() {
        let (_folder, store, _database) = store();
        for number in 0..200 {
            rested_now_and_then(number);
            store.later(move |database| insert(number)(database).map(drop)).unwrap();
            let before = move |database: &super::Connection| {
                database.query_row("SELECT count(*) FROM seen WHERE number = ?1", [number], |row| row.get(0))
            };
            let found: i64 = store.ask_here(before).await.unwrap();
            assert_eq!(found, 1, "{number}");
        }
    }

    fn rested_now_and_then(number: i64) {
        if number % 20 == 0 {
            rested();
        }
    }

    #[tokio::test]
    async fn caller_that_has_just_written_twice_leaves_the_next_to_the_writer() {
        let (_folder, store, _database) = store();
        rested();
        let slow = |database: &super::Connection| {
            thread::sleep(Duration::from_millis(50));
            insert(1)(database)
        };
        let here = thread::current().id();
        assert_eq!(store.ask_here(slow).await.unwrap(), here);
        assert_eq!(store.ask_here(insert(2)).await.unwrap(), here);
        assert_ne!(store.ask_here(insert(3)).await.unwrap(), here, "the rest counts both");
    }

    #[tokio::test]
    async fn caller_does_not_wait_in_its_thread_for_another_process() {
        let (_folder, store, database) = store();
        rested();
        let other = rusqlite::Connection::open(database).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut asked = tokio::spawn({
            let store = store.clone();
            async move { store.ask_here(insert(1)).await }
        });
        // This runtime has one thread: it is free although the other process goes on.
        let waited = tokio::time::timeout(Duration::from_millis(200), &mut asked).await;
        assert!(waited.is_err(), "it is not written yet");
        other.execute_batch("COMMIT").unwrap();
        assert_ne!(asked.await.unwrap().unwrap(), thread::current().id());
    }

    #[tokio::test]
    async fn error_of_the_work_leaves_the_store_in_order() {
        let (_folder, store, _database) = store();
        rested();
        store.ask_here(insert(1)).await.unwrap();
        rested();
        assert!(store.ask_here(insert(1)).await.is_err(), "the number is taken");
        assert!(store.trouble().is_none());
        rested();
        assert_eq!(store.ask_here(insert(2)).await.unwrap(), thread::current().id());
    }

    #[tokio::test]
    async fn store_recovers_from_a_panic_in_the_work_of_a_caller() {
        let (_folder, store, _database) = store();
        rested();
        let broken = store.clone();
        let panicked = tokio::spawn(async move {
            let work = |database: &super::Connection| -> rusqlite::Result<()> {
                insert(1)(database)?;
                unreachable!("on purpose")
            };
            broken.ask_here(work).await
        });
        assert!(panicked.await.is_err());
        rested();
        // The transaction that was left open is taken back by the next one, which can fail by it.
        let _ = store.ask(|_| Ok(())).await;
        while store.trouble().is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let rows = "SELECT count(*) FROM seen";
        let count: i64 = store.ask(|database| database.query_row(rows, [], |row| row.get(0))).await.unwrap();
        assert_eq!(count, 0, "what the broken work did is not there");
    }

    #[test]
    fn log_is_written_back_by_the_writer_and_stays_bounded() {
        let (_folder, store, database) = store();
        let text = "x".repeat(64 * 1024);
        let (mut by_callers, here) = (0, thread::current().id());
        for number in 0..1500 {
            let text = text.clone();
            let by = store.wait(move |database| {
                database.execute("INSERT INTO seen VALUES (?1, ?2)", params![number, text])?;
                Ok(thread::current().id())
            });
            by_callers += usize::from(by.unwrap() == here);
            thread::sleep(Duration::from_micros(500));
        }
        assert!(by_callers > 200, "{by_callers} of 1,500 were written by their caller");
        store.wait(|_| Ok(())).unwrap();
        let log = std::fs::metadata(database.with_extension("db-wal")).unwrap().len();
        // 1,500 × 64 KiB is 96 MiB, and the log is written back at 16.
        assert!(log < 24 << 20, "{log} bytes of log");
    }

    #[test]
    fn many_threads_each_get_their_own_row() {
        let (_folder, store, _database) = store();
        let (done, all) = mpsc::channel();
        thread::scope(|scope| {
            for of in 0..8 {
                let (store, done) = (store.clone(), done.clone());
                scope.spawn(move || {
                    for number in 0..100 {
                        store.wait(insert(of * 100 + number)).unwrap();
                        done.send(()).unwrap();
                    }
                });
            }
        });
        drop(done);
        assert_eq!(all.iter().count(), 800);
        let count: i64 =
            store.wait(|it| it.query_row("SELECT count(*) FROM seen", [], |row| row.get(0))).unwrap();
        assert_eq!(count, 800);
    }
}
