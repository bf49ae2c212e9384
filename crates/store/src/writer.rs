//! The writer thread, which owns the database: commits queued work in batches, and prunes when idle.

use std::{
    fs::TryLockError,
    path::Path,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags, params};

use super::{
    Upkeep,
    error::Trouble,
    live::Life,
    now_ms,
    paths::{Place, private_file},
    prune,
    queue::{Job, Queue, Taken, probe},
    schema::{SchemaError, migrate},
};

/// Time that another process may hold the database.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of the log at which it is written back into the database, in pages of 4 KiB. A write-back costs two syncs of the disk.
const CHECKPOINT: u32 = 4000;
/// Number of prepared statements that are kept: about as many as there are.
const STATEMENTS: usize = 256;
/// Time after a failed opening before the writer tries again, when there is work.
const RETRY: Duration = Duration::from_secs(1);
/// Idle time after a failed batch before the writer tries whether it can write again.
const PROBE: Duration = Duration::from_millis(500);
/// Idle time after which the writer prunes.
const QUIET: Duration = Duration::from_secs(60);
/// Limit of pruning when idle: a call that arrives meanwhile may wait this long.
const TIDY_AT_REST: Duration = Duration::from_secs(1);
/// Limit of pruning at exit.
const TIDY_AT_EXIT: Duration = Duration::from_millis(100);

/// Does the work of the queue until it is closed.
pub(super) fn run(place: &Place, queue: &Queue, instance: &str, upkeep: &[Upkeep]) {
    let _finish = Finish(queue);
    let mut open: Option<Open> = None;
    let mut failed: Option<(Instant, Trouble)> = None;
    let mut tidy = Some(QUIET);
    loop {
        // While the last batch is known to have failed, callers that wait for no result are refused: whether the cause is
        // gone is tried, so that it does not take another call.
        let is_failing = queue.trouble().is_some();
        let idle_after = if is_failing { Some(PROBE) } else { tidy.filter(|_| open.is_some()) };
        let batch = match queue.take(idle_after) {
            Taken::Batch(batch) => batch,
            Taken::Idle if is_failing => vec![probe()],
            Taken::Idle => {
                prune::prune_daily(place, TIDY_AT_REST, upkeep);
                tidy = None;
                continue;
            }
            Taken::Closed => break,
        };
        if open.is_none() {
            let recent = failed.take().filter(|(at, _)| at.elapsed() < RETRY);
            failed = match recent {
                Some(recent) => Some(recent),
                None => match Open::new(place, instance) {
                    Ok(it) => {
                        open = Some(it);
                        None
                    }
                    Err(trouble) => Some((Instant::now(), trouble)),
                },
            };
        }
        let path = place.database();
        match (&open, &failed) {
            (Some(open), _) => transact(&open.database, batch, &path, queue),
            (None, Some((_, trouble))) => answer(batch, &path, Err(trouble), queue),
            (None, None) => {}
        }
        tidy = Some(QUIET);
    }
    if let Some(open) = open {
        open.close(instance);
        prune::prune_daily(place, TIDY_AT_EXIT, upkeep);
    }
}

/// Marks the queue as finished when dropped, also after a panic.
struct Finish<'a>(&'a Queue);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

struct Open {
    database: Connection,
    life: Life,
}

impl Open {
    fn new(place: &Place, instance: &str) -> Result<Self, Trouble> {
        let path = place.database();
        let file = |error: std::io::Error| Trouble::of_file(&place.folder, &error);
        let sqlite = |error: rusqlite::Error| Trouble::of_sqlite(&path, &error);
        place.create().map_err(file)?;
        let life = Life::begin(&place.live(), instance).map_err(file)?;
        // One process at a time switches to WAL and migrates.
        let lock = private_file(&place.locks().join("open")).map_err(file)?;
        let deadline = Instant::now() + BUSY_TIMEOUT;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(file(error)),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(Trouble::new(
                        format!(
                            "haft's record of this workspace, {}: another process has been opening it for {} s",
                            path.display(),
                            BUSY_TIMEOUT.as_secs()
                        ),
                        "Look for a haft process that is stopped or stuck, then try again.",
                    ));
                }
            }
        }
        // Created here, so that only the owner can access it and the files that SQLite puts beside it.
        drop(private_file(&path).map_err(file)?);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(&path, flags).map_err(sqlite)?;
        database.busy_timeout(BUSY_TIMEOUT).map_err(sqlite)?;
        // A file system without shared memory answers with another mode, which works too.
        database.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).map_err(sqlite)?;
        database.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;").map_err(sqlite)?;
        database.pragma_update(None, "wal_autocheckpoint", CHECKPOINT).map_err(sqlite)?;
        migrate(&database).map_err(|error| match error {
            SchemaError::Newer { .. } => Trouble::new(
                format!("haft's record of this workspace, {}: {error}", path.display()),
                "Use the newer haft, or set HAFT_STATE_DIR to another folder; this one is left as it is.",
            ),
            SchemaError::Sqlite(error) => sqlite(error),
        })?;
        database.set_prepared_statement_cache_capacity(STATEMENTS);
        database
            .execute(
                "INSERT OR IGNORE INTO processes (instance, pid, at_ms) VALUES (?1, ?2, ?3)",
                params![instance, std::process::id(), now_ms().cast_signed()],
            )
            .map_err(sqlite)?;
        Ok(Self { database, life })
    }

    fn close(self, instance: &str) {
        // The process that opens the workspace next recovers calls that never ended.
        let ended = self.database.execute(
            "INSERT OR IGNORE INTO processes_ended (instance, at_ms) SELECT ?1, ?2 WHERE NOT EXISTS (
               SELECT 1 FROM journal b WHERE b.instance = ?1 AND b.event = 'begun'
               AND NOT EXISTS (SELECT 1 FROM journal e WHERE e.call = b.call AND e.event = 'ended'))",
            params![instance, now_ms().cast_signed()],
        );
        if let Err(error) = ended {
            tracing::warn!(%error, "the end of this process was not recorded");
        }
        if let Err((_, error)) = self.database.close() {
            tracing::warn!(%error, "the database was not closed cleanly");
        }
        self.life.end();
    }
}

/// Runs a batch in one transaction, and then answers.
fn transact(database: &Connection, mut batch: Vec<Box<dyn Job>>, path: &Path, queue: &Queue) {
    let committed = (|| {
        database.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for job in &mut batch {
            job.run(database);
        }
        database.prepare_cached("COMMIT")?.execute([]).map(drop)
    })();
    let committed = committed.map_err(|error| {
        if !database.is_autocommit() && database.execute_batch("ROLLBACK").is_err() {
            tracing::error!("a failed transaction could not be rolled back");
        }
        Trouble::of_sqlite(path, &error)
    });
    answer(batch, path, committed.as_ref().copied(), queue);
}

fn answer(batch: Vec<Box<dyn Job>>, path: &Path, committed: Result<(), &Trouble>, queue: &Queue) {
    // The state before the answers: a caller that has its answer sees the state of the same batch.
    if let (Err(trouble), None) = (committed, queue.trouble()) {
        tracing::error!(%trouble, "records are lost until it works again");
    }
    queue.set_trouble(committed.err().cloned());
    for job in batch {
        job.finish(path, committed);
    }
}
