//! Sessions of a workspace, and the state that each saved.

use kit::Fault;
use rusqlite::{OptionalExtension, params};
use serde::Serialize;

use super::{Store, now_ms};

/// The sessions of one workspace.
#[derive(Clone)]
pub struct Sessions {
    store: Store,
}

/// A stored session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionRecord {
    /// Its name, or its generated id.
    pub id: String,
    /// The front end that first opened it.
    #[serde(rename = "door")]
    pub front_end: String,
    /// The time of that, in milliseconds since 1970.
    pub created_ms: u64,
    /// The time of its last use.
    pub used_ms: u64,
}

impl Store {
    /// Returns the sessions of this workspace.
    pub fn sessions(&self) -> Sessions {
        Sessions::new(self.clone())
    }
}

impl Sessions {
    pub(super) fn new(store: Store) -> Self {
        Self { store }
    }

    /// Records that this session is used now, through this front end. Does not wait.
    ///
    /// # Errors
    /// When the database is known to be out of order.
    pub fn used(&self, id: impl Into<String>, front_end: impl Into<String>) -> Result<(), Fault> {
        let (id, front_end, now) = (id.into(), front_end.into(), now_ms().cast_signed());
        self.store.later(move |database| {
            database
                .prepare_cached(
                    "INSERT INTO sessions (id, door, created_ms, used_ms) VALUES (?1, ?2, ?3, ?3)
                     ON CONFLICT (id) DO UPDATE SET used_ms = max(used_ms, excluded.used_ms)",
                )?
                .execute(params![id, front_end, now])?;
            Ok(())
        })
    }

    /// Returns the sessions, the most recently used first. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn list(&self) -> Result<Vec<SessionRecord>, Fault> {
        self.store.wait(|database| {
            database
                .prepare_cached(
                    "SELECT id, door, created_ms, used_ms FROM sessions ORDER BY used_ms DESC, id",
                )?
                .query_map([], |row| {
                    Ok(SessionRecord {
                        id: row.get(0)?,
                        front_end: row.get(1)?,
                        created_ms: row.get::<_, i64>(2)?.cast_unsigned(),
                        used_ms: row.get::<_, i64>(3)?.cast_unsigned(),
                    })
                })?
                .collect()
        })
    }

    /// Stores `bytes` under `key`, in place of an earlier value. Does not wait; the bytes are on disk after
    /// [`Store::flush`], or when the store has been closed.
    ///
    /// # Errors
    /// When the database is known to be out of order.
    pub fn put(
        &self,
        session: impl Into<String>,
        key: impl Into<String>,
        bytes: Vec<u8>,
    ) -> Result<(), Fault> {
        let (session, key) = (session.into(), key.into());
        self.store.later(move |database| {
            database
                .prepare_cached(
                    "INSERT OR REPLACE INTO session_values (session, key, bytes) VALUES (?1, ?2, ?3)",
                )?
                .execute(params![session, key, bytes])?;
            Ok(())
        })
    }

    /// Returns the value of `key`. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn get(&self, session: &str, key: &str) -> Result<Option<Vec<u8>>, Fault> {
        let (session, key) = (session.to_owned(), key.to_owned());
        self.store.wait(move |database| {
            database
                .prepare_cached("SELECT bytes FROM session_values WHERE session = ?1 AND key = ?2")?
                .query_row(params![session, key], |row| row.get(0))
                .optional()
        })
    }

    /// Changes the value of `key`: `change` maps the present value to the new one. No other process changes
    /// it meanwhile. Returns the new value. Blocks.
    ///
    /// # Errors
    /// Those of `change`, after which nothing is changed, and when the database can't be written.
    pub fn change<F>(&self, session: &str, key: &str, change: F) -> Result<Option<Vec<u8>>, Fault>
    where
        F: FnOnce(Option<Vec<u8>>) -> Result<Option<Vec<u8>>, Fault> + Send + 'static,
    {
        let (session, key) = (session.to_owned(), key.to_owned());
        self.store.wait(move |database| {
            let before = database
                .prepare_cached("SELECT bytes FROM session_values WHERE session = ?1 AND key = ?2")?
                .query_row(params![session, key], |row| row.get(0))
                .optional()?;
            let after = match change(before) {
                Ok(after) => after,
                Err(fault) => return Ok(Err(fault)),
            };
            let sql = match after {
                Some(_) => "INSERT OR REPLACE INTO session_values (session, key, bytes) VALUES (?1, ?2, ?3)",
                None => "DELETE FROM session_values WHERE session = ?1 AND key = ?2 AND ?3 IS NULL",
            };
            database.prepare_cached(sql)?.execute(params![session, key, after])?;
            Ok(Ok(after))
        })?
    }

    /// Returns the keys of a session with this prefix, in their order. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn keys(&self, session: &str, prefix: &str) -> Result<Vec<String>, Fault> {
        let (session, prefix) = (session.to_owned(), prefix.to_owned());
        self.store.wait(move |database| {
            database
                .prepare_cached(
                    "SELECT key FROM session_values
                     WHERE session = ?1 AND key >= ?2 AND substr(key, 1, length(?2)) = ?2 ORDER BY key",
                )?
                .query_map(params![session, prefix], |row| row.get(0))?
                .collect()
        })
    }

    /// Returns the keys of a session with this prefix and their values, in their order. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn values(&self, session: &str, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, Fault> {
        let (session, prefix) = (session.to_owned(), prefix.to_owned());
        self.store.wait(move |database| {
            database
                .prepare_cached(
                    "SELECT key, bytes FROM session_values
                     WHERE session = ?1 AND key >= ?2 AND substr(key, 1, length(?2)) = ?2 ORDER BY key",
                )?
                .query_map(params![session, prefix], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })
    }

    /// Deletes the value of `key`. Does not wait.
    ///
    /// # Errors
    /// When the database is known to be out of order.
    pub fn remove(&self, session: impl Into<String>, key: impl Into<String>) -> Result<(), Fault> {
        let (session, key) = (session.into(), key.into());
        self.store.later(move |database| {
            database
                .prepare_cached("DELETE FROM session_values WHERE session = ?1 AND key = ?2")?
                .execute(params![session, key])?;
            Ok(())
        })
    }
}
