//! Savepoints: work within the writer's transaction that is done as a whole or not at all.

use rusqlite::Connection;

/// Runs work within the writer's transaction. An error or a refusal undoes all that it did.
///
/// The writer commits several pieces of work together, so an error alone undoes nothing.
pub(super) fn whole<T, E>(
    database: &Connection,
    work: impl FnOnce(&Connection) -> rusqlite::Result<Result<T, E>>,
) -> rusqlite::Result<Result<T, E>> {
    database.prepare_cached("SAVEPOINT whole")?.execute([])?;
    let done = work(database);
    if !matches!(done, Ok(Ok(_))) {
        database.prepare_cached("ROLLBACK TO whole")?.execute([])?;
    }
    database.prepare_cached("RELEASE whole")?.execute([])?;
    done
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn refused_work_and_errors_leave_nothing() {
        let database = Connection::open_in_memory().unwrap();
        database.execute_batch("CREATE TABLE t (n INTEGER); BEGIN").unwrap();
        let add = |n: i64| database.execute("INSERT INTO t VALUES (?1)", [n]).map(drop);
        assert_eq!(whole(&database, |_| add(1).map(|()| Ok::<_, ()>(()))).unwrap(), Ok(()));
        assert_eq!(whole(&database, |_| add(2).map(|()| Err::<(), _>("refused"))).unwrap(), Err("refused"));
        let broke = whole::<(), ()>(&database, |database| {
            add(3)?;
            database.execute("INSERT INTO absent VALUES (1)", []).map(|_| Ok(()))
        });
        assert!(broke.is_err());
        database.execute_batch("COMMIT").unwrap();
        let sum: i64 = database.query_row("SELECT sum(n) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(sum, 1);
    }
}
