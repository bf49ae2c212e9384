//! Events of sessions: numbered rows that watchers read, each committed before anybody sees it.
//!
//! A row covers the numbers `first..=seq`. Usually that is one number; a row that compacts pieces of a text has the number
//! of the last piece and takes the place of all of them, in one transaction. So whoever read up to some number misses
//! nothing, whenever it reads on.

use kit::{Fault, Kind};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use super::{Store, credentials, masking::mask, now_ms};

/// The events of one workspace's sessions.
#[derive(Clone)]
pub struct Events {
    store: Store,
}

/// One row, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// Its number in its session, counted from 1; of a row that compacts others, the number of the last of them.
    pub seq: u64,
    /// The first number that it covers.
    pub first: u64,
    /// When it was written, in milliseconds since 1970.
    pub at_ms: u64,
    /// The event as JSON, without secrets.
    pub body: String,
}

/// A write to a session's events.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// A row with the next number.
    Add {
        /// The event.
        body: Value,
    },
    /// A row in the place of others.
    Compact {
        /// The rows that it takes the place of, in order.
        pieces: Vec<u64>,
        /// Their content, merged.
        body: Value,
    },
}

/// The names under which an event says what it is, and no text.
const KINDS: [&str; 3] = ["event", "ended", "decision"];

impl Store {
    /// The events of this workspace's sessions.
    pub fn events(&self) -> Events {
        Events { store: self.clone() }
    }
}

impl Events {
    /// Queues rows of the session, which this process owns under `epoch`. Within the transaction `take` is given the highest
    /// number there is and gives what to write; once that is committed, `done` gets the added rows as they are stored. All
    /// of it is written, or nothing. Both run in the writer's thread: they are short and own no store. What is queued
    /// later is committed later.
    ///
    /// # Errors
    /// When the store is closed; then neither is called. `done` gets [`Kind::Stale`] where another process owns the
    /// session by now (`take` was not called then), and what is wrong where nothing can be written.
    pub fn append<T, D>(&self, session: impl Into<String>, epoch: u64, take: T, done: D) -> Result<(), Fault>
    where
        T: FnOnce(u64) -> Vec<Write> + Send + 'static,
        D: FnOnce(Result<Vec<EventRow>, Fault>) + Send + 'static,
    {
        let (session, stamp) = (session.into(), self.store.stamp());
        let work = move |database: &Connection| {
            let owner: Option<i64> = database
                .prepare_cached("SELECT epoch FROM owners WHERE session = ?1")?
                .query_row([&session], |row| row.get(0))
                .optional()?;
            if owner.map(i64::cast_unsigned) != Some(epoch) {
                return Ok(Err(session));
            }
            database.prepare_cached("SAVEPOINT events")?.execute([])?;
            let written = write(database, &session, take, |body| {
                mask(body, &stamp.secrets, &KINDS);
                hide_credentials(body);
            });
            let end = if written.is_ok() { "RELEASE events" } else { "ROLLBACK TO events; RELEASE events" };
            database.execute_batch(end)?;
            written.map(Ok)
        };
        self.store.then(work, |result| {
            done(result.and_then(|rows| {
                rows.map_err(|session| {
                    Fault::new(Kind::Stale, format!("another process runs the session `{session}` now"))
                })
            }));
        })
    }

    /// The rows with numbers above `after`, in order: at most `limit`, and about `bytes` bytes. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn page(
        &self,
        session: &str,
        after: u64,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<EventRow>, Fault> {
        let session = session.to_owned();
        self.store.read(move |database| {
            let mut statement = database.prepare_cached(
                "SELECT seq, first, at_ms, body FROM events WHERE session = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
            )?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            // No row has so high a number.
            let after = i64::try_from(after).unwrap_or(i64::MAX);
            let mut rows = statement.query(params![session, after, limit])?;
            let (mut page, mut size) = (Vec::new(), 0);
            while let Some(row) = rows.next()? {
                let body: String = row.get(3)?;
                size += body.len();
                page.push(EventRow {
                    seq: row.get::<_, i64>(0)?.cast_unsigned(),
                    first: row.get::<_, i64>(1)?.cast_unsigned(),
                    at_ms: row.get::<_, i64>(2)?.cast_unsigned(),
                    body,
                });
                if size >= bytes {
                    break;
                }
            }
            Ok(page)
        })
    }

    /// The highest number of a session's events; 0 where there are none. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn head(&self, session: &str) -> Result<u64, Fault> {
        let session = session.to_owned();
        self.store.read(move |database| head(database, &session))
    }

    /// The number of the newest row whose `event` is this, if there is one. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn newest(&self, session: &str, event: &str) -> Result<Option<u64>, Fault> {
        let (session, start) = (session.to_owned(), format!("{{\"event\":\"{event}\""));
        self.store.read(move |database| {
            database
                .prepare_cached(
                    "SELECT seq FROM events WHERE session = ?1 AND substr(body, 1, length(?2)) = ?2
                     ORDER BY seq DESC LIMIT 1",
                )?
                .query_row(params![session, start], |row| row.get::<_, i64>(0))
                .map(i64::cast_unsigned)
                .optional()
        })
    }

    /// Deletes all that is kept here of a session that nobody owns: its events, operations and owner.
    ///
    /// # Errors
    /// When the database can't be written.
    pub async fn delete(&self, session: &str) -> Result<(), Fault> {
        let session = session.to_owned();
        let deleting = self.store.ask(move |database| {
            for table in ["events", "operations", "owners"] {
                let sql = format!("DELETE FROM {table} WHERE session = ?1");
                database.prepare_cached(&sql)?.execute([&session])?;
            }
            Ok(())
        });
        deleting.await
    }
}

fn head(database: &Connection, session: &str) -> rusqlite::Result<u64> {
    database
        .prepare_cached("SELECT ifnull(max(seq), 0) FROM events WHERE session = ?1")?
        .query_row([session], |row| row.get::<_, i64>(0))
        .map(i64::cast_unsigned)
}

/// Writes what `take` gives. Gives the rows that were added.
fn write(
    database: &Connection,
    session: &str,
    take: impl FnOnce(u64) -> Vec<Write>,
    redact: impl Fn(&mut Value),
) -> rusqlite::Result<Vec<EventRow>> {
    let mut seq = head(database, session)?;
    let at_ms = now_ms();
    let mut insert = database.prepare_cached(
        "INSERT INTO events (session, seq, first, at_ms, body) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let mut added = Vec::new();
    for write in take(seq) {
        match write {
            Write::Add { mut body } => {
                seq += 1;
                redact(&mut body);
                let body = body.to_string();
                let number = seq.cast_signed();
                insert.execute(params![session, number, number, at_ms.cast_signed(), body])?;
                added.push(EventRow { seq, first: seq, at_ms, body });
            }
            Write::Compact { pieces, mut body } => {
                let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { continue };
                redact(&mut body);
                compact(database, session, &pieces)?;
                insert.execute(params![
                    session,
                    last.cast_signed(),
                    first.cast_signed(),
                    at_ms.cast_signed(),
                    body.to_string()
                ])?;
            }
        }
    }
    Ok(added)
}

fn compact(database: &Connection, session: &str, pieces: &[u64]) -> rusqlite::Result<()> {
    let mut delete = database.prepare_cached("DELETE FROM events WHERE session = ?1 AND seq = ?2")?;
    for piece in pieces {
        delete.execute(params![session, piece.cast_signed()])?;
    }
    Ok(())
}

/// Hides credentials that stand in the arguments of a call, wherever in the event the call is.
fn hide_credentials(body: &mut Value) {
    let Value::Object(all) = body else { return };
    for (name, value) in all {
        match value {
            Value::String(text) if name == "arguments" => {
                *text = credentials::hide(text).into_owned();
            }
            Value::Object(_) if name == "arguments" => {
                *value = credentials::shown(&value.to_string());
            }
            Value::Object(_) => hide_credentials(value),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{
        path::Path,
        sync::{Arc, mpsc},
    };

    use kit::redact::Secrets;
    use serde_json::json;

    use super::*;

    struct Fixture {
        _folder: tempfile::TempDir,
        store: Store,
        epoch: u64,
    }

    impl Fixture {
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let secrets = Secrets::collect([("A_TOKEN", "hunter2hunter2")], []);
            let store = Store::open(folder.path(), Path::new("/nowhere/w"), Arc::new(secrets));
            let epoch = store.owners().claim("s", None).await.unwrap();
            Self { _folder: folder, store, epoch }
        }

        fn append(&self, writes: Vec<Write>) -> Result<Vec<EventRow>, Fault> {
            self.append_under(self.epoch, move |_| writes)
        }

        fn append_under(
            &self,
            epoch: u64,
            take: impl FnOnce(u64) -> Vec<Write> + Send + 'static,
        ) -> Result<Vec<EventRow>, Fault> {
            let (send, receive) = mpsc::channel();
            self.store.events().append("s", epoch, take, move |rows| drop(send.send(rows))).unwrap();
            receive.recv().unwrap()
        }

        fn page(&self, after: u64) -> Vec<(u64, u64, Value)> {
            let rows = self.store.events().page("s", after, 100, 1 << 20).unwrap();
            rows.into_iter().map(|it| (it.first, it.seq, serde_json::from_str(&it.body).unwrap())).collect()
        }
    }

    fn text(text: &str) -> Write {
        Write::Add { body: json!({"event": "text", "text": text}) }
    }

    #[tokio::test]
    async fn rows_are_numbered_in_order_and_read_after_a_number() {
        let fixture = Fixture::new().await;
        assert_eq!(fixture.store.events().head("s").unwrap(), 0);
        let rows = fixture.append(vec![text("a"), text("b")]).unwrap();
        assert_eq!(rows.iter().map(|it| (it.first, it.seq)).collect::<Vec<_>>(), [(1, 1), (2, 2)]);
        fixture.append_under(fixture.epoch, |head| vec![text(&format!("after {head}"))]).unwrap();
        assert_eq!(fixture.page(1).iter().map(|it| it.1).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(fixture.page(2), [(3, 3, json!({"event": "text", "text": "after 2"}))]);
        assert_eq!((fixture.page(3).len(), fixture.store.events().head("s").unwrap()), (0, 3));
        assert_eq!(fixture.store.events().head("other").unwrap(), 0);
        fixture.append(vec![Write::Add { body: json!({"event": "closed"}) }, text("c")]).unwrap();
        assert_eq!(fixture.store.events().newest("s", "closed").unwrap(), Some(4));
        assert_eq!(fixture.store.events().newest("s", "clos").unwrap(), None);
    }

    #[tokio::test]
    async fn a_page_is_bounded_in_rows_and_bytes_and_never_empty_before_the_end() {
        let fixture = Fixture::new().await;
        fixture.append((0..10).map(|_| text(&"x".repeat(1000))).collect()).unwrap();
        let events = fixture.store.events();
        assert_eq!(events.page("s", 0, 3, 1 << 20).unwrap().len(), 3);
        assert_eq!(events.page("s", 0, 100, 2500).unwrap().len(), 3);
        assert_eq!(events.page("s", 9, 100, 1).unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_compacted_row_takes_the_place_of_its_pieces_alone() {
        let fixture = Fixture::new().await;
        fixture.append(vec![text("a"), text("b"), text("other"), text("c")]).unwrap();
        let body = json!({"event": "text", "text": "abc"});
        fixture
            .append(vec![text("d"), Write::Compact { pieces: vec![1, 2, 4], body: body.clone() }])
            .unwrap();
        let other = json!({"event": "text", "text": "other"});
        assert_eq!(
            fixture.page(0).iter().map(|it| (it.0, it.1)).collect::<Vec<_>>(),
            [(3, 3), (1, 4), (5, 5)]
        );
        assert_eq!(
            fixture.page(2),
            [(3, 3, other), (1, 4, body), (5, 5, json!({"event": "text", "text": "d"}))]
        );
        assert_eq!(fixture.page(4).len(), 1, "who has the last piece has all");
    }

    #[tokio::test]
    async fn rows_hold_no_secret_and_no_credential_of_a_call() {
        let fixture = Fixture::new().await;
        let call = json!({"event": "called", "tool": "http_request",
            "arguments": {"headers": {"Authorization": "Bearer c4n4ry"}, "body": "hunter2hunter2"}});
        let under = json!({"event": "under", "agent": "a", "inner": call});
        fixture.append(vec![Write::Add { body: call }, Write::Add { body: under }]).unwrap();
        for (_, _, body) in fixture.page(0) {
            let body = body.to_string();
            assert!(!body.contains("c4n4ry") && !body.contains("hunter2"), "{body}");
            assert!(body.contains("[masked]") && body.contains("[masked:A_TOKEN]"), "{body}");
        }
    }

    #[tokio::test]
    async fn who_owned_a_session_before_writes_nothing_more() {
        let fixture = Fixture::new().await;
        fixture.append(vec![text("a")]).unwrap();
        let epoch = fixture.store.owners().claim("s", None).await.unwrap();
        let fault = fixture.append(vec![text("late")]).unwrap_err();
        assert_eq!(fault.kind, Kind::Stale);
        fixture.append_under(epoch, |_| vec![text("b")]).unwrap();
        assert_eq!(fixture.page(0).len(), 2);
    }

    #[tokio::test]
    async fn a_write_that_fails_in_its_middle_leaves_nothing() {
        let fixture = Fixture::new().await;
        fixture.append(vec![text("a")]).unwrap();
        // It would end before it begins.
        let fails = Write::Compact { pieces: vec![7, 1], body: json!({"event": "text"}) };
        fixture.append(vec![text("lost"), fails]).unwrap_err();
        assert_eq!(fixture.page(0), [(1, 1, json!({"event": "text", "text": "a"}))]);
    }

    #[tokio::test]
    async fn a_deleted_session_leaves_no_row() {
        let fixture = Fixture::new().await;
        fixture.append(vec![text("a")]).unwrap();
        fixture.store.events().delete("s").await.unwrap();
        assert!(fixture.page(0).is_empty() && fixture.store.owners().get("s").unwrap().is_none());
    }
}
