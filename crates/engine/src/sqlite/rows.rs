//! The rows of work, records and events.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{
    Connection, OptionalExtension as _, Row as SqlRow, TransactionBehavior, params, types::FromSqlError,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Event, Work, Worker,
    record::{Holding, Record},
    storage::Row,
    work::Route,
};

type Result<T> = rusqlite::Result<T>;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS works (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        revision INTEGER NOT NULL,
        -- 0 offered, 1 leased, 2 ended
        state INTEGER NOT NULL,
        route TEXT NOT NULL,
        record TEXT NOT NULL,
        work TEXT NOT NULL,
        changed_ms INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS works_offered ON works (route, seq) WHERE state = 0;
    CREATE INDEX IF NOT EXISTS works_open ON works (seq) WHERE state < 2;
    CREATE TABLE IF NOT EXISTS events (
        id TEXT NOT NULL,
        number INTEGER NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (id, number)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS routes (hash TEXT PRIMARY KEY, route TEXT NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS workers (
        id TEXT PRIMARY KEY, worker TEXT NOT NULL, boot TEXT NOT NULL, until_ms INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE IF NOT EXISTS controls (worker TEXT PRIMARY KEY, control TEXT NOT NULL, changed_ms INTEGER NOT NULL) STRICT;
";

pub(super) fn create(connection: &Connection) -> Result<()> {
    connection.execute_batch(&format!("BEGIN IMMEDIATE; {SCHEMA} COMMIT;"))
}

pub(super) fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|it| rusqlite::Error::ToSqlConversionFailure(Box::new(it)))
}

pub(super) fn parsed<T: DeserializeOwned>(row: &SqlRow<'_>, column: usize) -> Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    let other = |it: serde_json::Error| FromSqlError::Other(Box::new(it));
    Ok(serde_json::from_str(text).map_err(other)?)
}

/// SQLite's integers are signed; all of these numbers are far below 2^63.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(row: &SqlRow<'_>, column: usize) -> Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

fn state_of(record: &Record) -> u8 {
    match record.holding {
        Holding::Offered => 0,
        Holding::Leased { .. } => 1,
        Holding::Ended { .. } => 2,
    }
}

/// Returns the wall clock, which only decides how long ended rows are stored.
pub(super) fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn insert(db: &mut Connection, id: &str, work: &Work, record: &Record) -> Result<Option<u64>> {
    let route = record.route.hash();
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let inserted = transaction.execute(
        "INSERT INTO works (id, revision, state, route, record, work, changed_ms) VALUES (?, 1, 0, ?, ?, ?, ?)
         ON CONFLICT DO NOTHING",
        params![id, route, json(record)?, json(work)?, signed(wall_ms())],
    )?;
    if inserted == 1 {
        transaction.execute(
            "INSERT INTO routes (hash, route) VALUES (?, ?) ON CONFLICT DO NOTHING",
            params![route, json(&record.route)?],
        )?;
    }
    transaction.commit()?;
    Ok((inserted == 1).then_some(1))
}

pub(super) fn load(db: &Connection, id: &str) -> Result<Option<(Record, u64)>> {
    let mut select = db.prepare_cached("SELECT record, revision FROM works WHERE id = ?")?;
    select.query_row([id], |row| Ok((parsed(row, 0)?, unsigned(row, 1)?))).optional()
}

pub(super) fn work(db: &Connection, id: &str) -> Result<Option<Work>> {
    let mut select = db.prepare_cached("SELECT work FROM works WHERE id = ?")?;
    select.query_row([id], |row| parsed(row, 0)).optional()
}

pub(super) fn replace(db: &Connection, id: &str, record: &Record, revision: u64) -> Result<Option<u64>> {
    let mut update = db.prepare_cached(
        "UPDATE works SET record = ?, state = ?, revision = revision + 1, changed_ms = ? WHERE id = ? AND revision = ?",
    )?;
    let changed =
        update.execute(params![json(record)?, state_of(record), signed(wall_ms()), id, signed(revision)])?;
    Ok((changed == 1).then_some(revision + 1))
}

pub(super) fn append(db: &Connection, id: &str, event: &Event, revision: u64) -> Result<bool> {
    // One statement: the revision is checked where the event is stored.
    let mut insert = db.prepare_cached(
        "INSERT INTO events (id, number, value) SELECT id, ?, ? FROM works WHERE id = ? AND revision = ?
         ON CONFLICT DO UPDATE SET value = excluded.value",
    )?;
    Ok(insert.execute(params![signed(event.number), json(&event.value)?, id, signed(revision)])? == 1)
}

pub(super) fn last_event(db: &Connection, id: &str) -> Result<u64> {
    let mut select = db.prepare_cached("SELECT coalesce(max(number), 0) FROM events WHERE id = ?")?;
    select.query_row([id], |row| unsigned(row, 0))
}

/// Returns the oldest offered work that fits the worker.
pub(super) fn next(db: &Connection, worker: &Worker) -> Result<Option<String>> {
    let mut routes = db.prepare_cached("SELECT hash, route FROM routes")?;
    let all = routes.query_map([], |row| Ok((row.get::<_, String>(0)?, parsed::<Route>(row, 1)?)))?;
    let mut first =
        db.prepare_cached("SELECT seq, id FROM works WHERE state = 0 AND route = ? ORDER BY seq LIMIT 1")?;
    let mut oldest: Option<(i64, String)> = None;
    for pair in all {
        let (hash, route) = pair?;
        if !route.fits(worker) {
            continue;
        }
        let found: Option<(i64, String)> =
            first.query_row([hash], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        oldest = match (oldest, found) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
    Ok(oldest.map(|(_, id)| id))
}

pub(super) fn open_records(db: &Connection) -> Result<Vec<Row>> {
    let mut select =
        db.prepare_cached("SELECT id, record, revision FROM works WHERE state < 2 ORDER BY seq")?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, parsed(row, 1)?, unsigned(row, 2)?)))?;
    rows.collect()
}

/// Events after a number, and the record with its revision.
type Since = (Vec<Event>, Option<(Record, u64)>);

/// Returns the events after a number, and the record unless it is at revision `shown`, as of one moment.
pub(super) fn since(db: &mut Connection, id: &str, after: u64, shown: Option<u64>) -> Result<Since> {
    let transaction = db.transaction()?;
    let record = load(&transaction, id)?.filter(|(_, revision)| Some(*revision) != shown);
    let mut select = transaction
        .prepare_cached("SELECT number, value FROM events WHERE id = ? AND number > ? ORDER BY number")?;
    let rows = select.query_map(params![id, signed(after)], |row| {
        Ok(Event { number: unsigned(row, 0)?, value: parsed(row, 1)? })
    })?;
    let events = rows.collect::<Result<_>>()?;
    drop(select);
    transaction.commit()?;
    Ok((events, record))
}

/// Removes ended work that is older than `age`, and routes and requests that nothing needs.
pub(super) fn sweep(db: &mut Connection, age: Duration) -> Result<()> {
    let before = signed(wall_ms().saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX)));
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute(
        "DELETE FROM events WHERE id IN (SELECT id FROM works WHERE state = 2 AND changed_ms < ?)",
        [before],
    )?;
    transaction.execute("DELETE FROM works WHERE state = 2 AND changed_ms < ?", [before])?;
    transaction.execute("DELETE FROM routes WHERE hash NOT IN (SELECT route FROM works)", [])?;
    transaction.execute("DELETE FROM controls WHERE changed_ms < ?", [before])?;
    transaction.commit()
}
