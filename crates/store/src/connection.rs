//! The open database: its connection that writes, its log, and the sign that this process lives.

use std::{
    fs::TryLockError,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags, params};

use super::{
    error::Trouble,
    live::Life,
    now_ms,
    paths::{Place, private_file},
    queue,
    schema::{SchemaError, migrate},
};

/// Time that another process may hold the database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of the log at which it is written back into the database, in pages of 4 KiB. A write-back costs two syncs of the disk.
const CHECKPOINT: i32 = 4000;
/// Number of prepared statements that are kept: about as many as there are.
const STATEMENTS: usize = 256;

/// The open database.
pub(super) struct Open {
    database: Connection,
    life: Life,
    /// Length of the log, in pages.
    log: Arc<AtomicI32>,
}

impl Open {
    pub(super) fn new(place: &Place, instance: &str) -> Result<Self, Trouble> {
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
        let mut database = Connection::open_with_flags(&path, flags).map_err(sqlite)?;
        database.busy_timeout(BUSY_TIMEOUT).map_err(sqlite)?;
        // A file system without shared memory answers with another mode, which works too.
        database.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).map_err(sqlite)?;
        database.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;").map_err(sqlite)?;
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
        // In place of SQLite's own, which would write back in whichever thread commits.
        let log = Arc::new(AtomicI32::new(0));
        let length = Arc::clone(&log);
        let hook = move |_: &mut rusqlite::hooks::Wal, pages| {
            length.store(pages, Ordering::Relaxed);
            Ok(())
        };
        database.wal_hook(Some(hook)).map_err(sqlite)?;
        Ok(Self { database, life, log })
    }

    pub(super) fn database(&self) -> &Connection {
        &self.database
    }

    /// Begins a transaction, and waits while another process has one.
    pub(super) fn begin(&self, path: &Path) -> Result<(), Trouble> {
        let begun = self.database.prepare_cached("BEGIN IMMEDIATE").and_then(|mut it| it.execute([]));
        begun.map(drop).map_err(|error| self.undone(path, &error))
    }

    /// Begins a transaction if no other process has one.
    pub(super) fn begin_at_once(&self) -> bool {
        let begin = || {
            self.database.busy_timeout(Duration::ZERO)?;
            self.database.prepare_cached("BEGIN IMMEDIATE")?.execute([])
        };
        let begun = begin().is_ok();
        self.database.busy_timeout(BUSY_TIMEOUT).is_ok() && begun
    }

    pub(super) fn commit(&self, path: &Path) -> Result<(), Trouble> {
        let committed = self.database.prepare_cached("COMMIT").and_then(|mut it| it.execute([]));
        committed.map(drop).map_err(|error| self.undone(path, &error))
    }

    /// Takes back what a failed transaction has done.
    fn undone(&self, path: &Path, error: &rusqlite::Error) -> Trouble {
        if !self.database.is_autocommit() && self.database.execute_batch("ROLLBACK").is_err() {
            tracing::error!("a failed transaction could not be rolled back");
        }
        Trouble::of_sqlite(path, error)
    }

    pub(super) fn is_log_long(&self) -> bool {
        self.log.load(Ordering::Relaxed) >= CHECKPOINT
    }

    /// Writes the log back into the database once it is long.
    pub(super) fn write_back(&self, path: &Path) {
        if !self.is_log_long() {
            return;
        }
        let all = |row: &rusqlite::Row<'_>| Ok(row.get::<_, i64>(1)? == row.get::<_, i64>(2)?);
        match self.database.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], all) {
            // The next transaction begins the log anew, which costs a sync of the disk: no caller waits for that.
            Ok(true) => drop(queue::write_what_is_there(&self.database)),
            // Somebody reads what is in the log.
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, database = %path.display(), "the log can't be written back"),
        }
    }

    pub(super) fn close(self, instance: &str) {
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
