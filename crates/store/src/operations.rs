//! Operations on sessions, each with an idempotency key: the same key twice is one operation with one result.
//!
//! A row is also how a process that can't reach the owner of a session asks it for something. The texts of a body are
//! kept until there is a result, and then dropped: the events say what was done.

use std::future::Future;

use kit::Fault;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use super::{Stamp, Store, masking::mask, now_ms};

/// The operations on one workspace's sessions.
#[derive(Clone)]
pub struct Operations {
    store: Store,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its number in the workspace, in the order of their coming.
    pub id: u64,
    /// The session.
    pub session: String,
    /// Its idempotency key.
    pub key: String,
    /// The requester.
    pub by: String,
    /// The requested operation, as JSON without secrets; empty once there is a result.
    pub body: String,
    /// The epoch of the owner that began with it.
    pub begun: Option<u64>,
    /// The result, as JSON.
    pub result: Option<String>,
}

/// The outcome of [`Operations::note`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noted {
    /// It is new.
    New,
    /// It was noted before, with the same body.
    Known(Operation),
    /// Its key belongs to another operation.
    Taken,
}

/// The names under which an operation says what it is, and no text.
const KINDS: [&str; 4] = ["operation", "decision", "hash", "id"];

const COLUMNS: &str = "id, session, key, by, body, begun, result";

impl Store {
    /// The operations on this workspace's sessions.
    pub fn operations(&self) -> Operations {
        Operations { store: self.clone() }
    }
}

impl Operations {
    /// Adds an operation, unless one of that key is there. It is queued at once.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn note(
        &self,
        session: &str,
        key: &str,
        by: &str,
        body: Value,
    ) -> impl Future<Output = Result<Noted, Fault>> + Send + use<> {
        let (session, key, by) = (session.to_owned(), key.to_owned(), by.to_owned());
        let stamp = self.store.stamp();
        self.store.ask(move |database| {
            let (body, hash) = masked(body, &stamp);
            let added = database
                .prepare_cached(
                    "INSERT OR IGNORE INTO operations (session, key, by, at_ms, hash, body)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![session, key, by, now_ms().cast_signed(), hash.as_bytes(), body])?;
            if added > 0 {
                return Ok(Noted::New);
            }
            let same = database
                .prepare_cached("SELECT 1 FROM operations WHERE session = ?1 AND key = ?2 AND hash = ?3")?
                .exists(params![session, key, hash.as_bytes()])?;
            Ok(match get(database, &session, &key)? {
                Some(known) if same => Noted::Known(known),
                _ => Noted::Taken,
            })
        })
    }

    /// Notes that the owner under `epoch` begins with an operation. False where somebody did before, or there is a result.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn begin(
        &self,
        session: &str,
        key: &str,
        epoch: u64,
    ) -> impl Future<Output = Result<bool, Fault>> + Send + use<> {
        let (session, key) = (session.to_owned(), key.to_owned());
        self.store.ask(move |database| {
            let begun = database
                .prepare_cached(
                    "UPDATE operations SET begun = ?3
                     WHERE session = ?1 AND key = ?2 AND begun IS NULL AND result IS NULL",
                )?
                .execute(params![session, key, epoch.cast_signed()])?;
            Ok(begun > 0)
        })
    }

    /// Does the same, and notes in the body what the operation is about to do, in the same transaction.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn begin_with(
        &self,
        session: &str,
        key: &str,
        epoch: u64,
        plan: Value,
    ) -> impl Future<Output = Result<bool, Fault>> + Send + use<> {
        let (session, key) = (session.to_owned(), key.to_owned());
        self.store.ask(move |database| {
            let begun = database
                .prepare_cached(
                    "UPDATE operations SET begun = ?3, body = json_set(body, '$.plan', json(?4))
                     WHERE session = ?1 AND key = ?2 AND begun IS NULL AND result IS NULL",
                )?
                .execute(params![session, key, epoch.cast_signed(), plan.to_string()])?;
            Ok(begun > 0)
        })
    }

    /// Gives an operation its result, unless it has one. It is queued at once.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn finish(
        &self,
        session: &str,
        key: &str,
        mut result: Value,
    ) -> impl Future<Output = Result<(), Fault>> + Send + use<> {
        let (session, key, stamp) = (session.to_owned(), key.to_owned(), self.store.stamp());
        self.store.ask(move |database| {
            mask(&mut result, &stamp.secrets, &KINDS);
            database
                .prepare_cached(
                    "UPDATE operations SET result = ?3, done_ms = ?4, body = ''
                     WHERE session = ?1 AND key = ?2 AND result IS NULL",
                )?
                .execute(params![session, key, result.to_string(), now_ms().cast_signed()])?;
            Ok(())
        })
    }

    /// The operation of this key. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn get(&self, session: &str, key: &str) -> Result<Option<Operation>, Fault> {
        let (session, key) = (session.to_owned(), key.to_owned());
        self.store.read(move |database| get(database, &session, &key))
    }

    /// The newest operation of this key that this requester asked for, whatever its session, and whether it is one of these.
    /// Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn by_requester(
        &self,
        key: &str,
        by: &str,
        bodies: Vec<Value>,
    ) -> Result<Option<(Operation, bool)>, Fault> {
        let (key, by, stamp) = (key.to_owned(), by.to_owned(), self.store.stamp());
        let hashes: Vec<_> = bodies.into_iter().map(|it| *masked(it, &stamp).1.as_bytes()).collect();
        self.store.read(move |database| {
            let sql = format!(
                "SELECT {COLUMNS}, hash FROM operations WHERE key = ?1 AND by = ?2 ORDER BY id DESC LIMIT 1"
            );
            let found = |row: &Row<'_>| Ok((operation(row)?, hashes.contains(&row.get(7)?)));
            database.prepare_cached(&sql)?.query_row(params![key, by], found).optional()
        })
    }

    /// The operations of all sessions that have no result yet, with numbers above `after`, oldest first. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn open(&self, after: u64) -> Result<Vec<Operation>, Fault> {
        self.store.read(move |database| {
            let sql =
                format!("SELECT {COLUMNS} FROM operations WHERE result IS NULL AND id > ?1 ORDER BY id");
            database.prepare_cached(&sql)?.query_map([after.cast_signed()], operation)?.collect()
        })
    }
}

/// Returns what is kept of a body: its text without secrets, and the hash by which it is compared.
fn masked(mut body: Value, stamp: &Stamp) -> (String, blake3::Hash) {
    mask(&mut body, &stamp.secrets, &KINDS);
    let body = body.to_string();
    let hash = blake3::hash(body.as_bytes());
    (body, hash)
}

fn get(database: &Connection, session: &str, key: &str) -> rusqlite::Result<Option<Operation>> {
    let sql = format!("SELECT {COLUMNS} FROM operations WHERE session = ?1 AND key = ?2");
    database.prepare_cached(&sql)?.query_row(params![session, key], operation).optional()
}

fn operation(row: &Row<'_>) -> rusqlite::Result<Operation> {
    Ok(Operation {
        id: row.get::<_, i64>(0)?.cast_unsigned(),
        session: row.get(1)?,
        key: row.get(2)?,
        by: row.get(3)?,
        body: row.get(4)?,
        begun: row.get::<_, Option<i64>>(5)?.map(i64::cast_unsigned),
        result: row.get(6)?,
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{path::Path, sync::Arc};

    use kit::redact::Secrets;
    use serde_json::json;

    use super::*;

    fn store(folder: &Path) -> Store {
        let secrets = Secrets::collect([("A_TOKEN", "hunter2hunter2")], []);
        Store::open(folder, Path::new("/nowhere/w"), Arc::new(secrets))
    }

    #[tokio::test]
    async fn the_same_key_twice_is_one_operation_with_one_result() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (store(folder.path()), store(folder.path()));
        let body = json!({"operation": "prompt", "text": "hello"});
        assert_eq!(one.operations().note("s", "k", "a", body.clone()).await.unwrap(), Noted::New);
        let Noted::Known(known) = other.operations().note("s", "k", "b", body.clone()).await.unwrap() else {
            unreachable!()
        };
        assert_eq!((known.by.as_str(), known.result, known.begun), ("a", None, None));
        assert!(one.operations().begin("s", "k", 3).await.unwrap());
        assert!(!other.operations().begin("s", "k", 4).await.unwrap(), "it is begun once");
        one.operations().finish("s", "k", json!({"ok": 1})).await.unwrap();
        one.operations().finish("s", "k", json!({"ok": 2})).await.unwrap();
        let known = other.operations().get("s", "k").unwrap().unwrap();
        assert_eq!((known.result.as_deref(), known.begun), (Some("{\"ok\":1}"), Some(3)));
        // Also when the texts are gone.
        let again = one.operations().note("s", "k", "a", body).await.unwrap();
        assert!(matches!(again, Noted::Known(it) if it.result.is_some() && it.body.is_empty()));
        let other = json!({"operation": "prompt", "text": "other"});
        assert_eq!(one.operations().note("s", "k", "a", other.clone()).await.unwrap(), Noted::Taken);
        assert_eq!(
            one.operations().note("t", "k", "a", other).await.unwrap(),
            Noted::New,
            "keys are a session's"
        );
    }

    #[tokio::test]
    async fn open_operations_are_listed_in_their_order_without_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        for (session, key) in [("s", "1"), ("t", "2"), ("s", "3")] {
            let body = json!({"operation": "prompt", "text": "hunter2hunter2"});
            store.operations().note(session, key, "me", body).await.unwrap();
        }
        store.operations().finish("t", "2", json!(null)).await.unwrap();
        let open = store.operations().open(0).unwrap();
        assert_eq!(open.iter().map(|it| it.key.as_str()).collect::<Vec<_>>(), ["1", "3"]);
        assert!(open.iter().all(|it| it.body.contains("[masked:A_TOKEN]")), "{open:?}");
        assert_eq!(store.operations().open(open.first().unwrap().id).unwrap().len(), 1);
    }
}
