//! Stored grants: the permissions that persons gave in this workspace.

use kit::{Fault, effect::Effect};
use rusqlite::{Connection, params};
use serde::Serialize;

use super::{Store, now_ms};

/// The grants of one workspace.
#[derive(Clone)]
pub struct Grants {
    store: Store,
}

/// A stored grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GrantRecord {
    /// Its number, by which it is revoked.
    pub id: i64,
    /// The session it applies to; the whole workspace, if `None`.
    pub session: Option<String>,
    /// The permission, in the syntax of `haft grants add`.
    pub effect: String,
    /// The front end through which the person gave it.
    #[serde(rename = "door")]
    pub front_end: String,
    /// The time, in milliseconds since 1970.
    pub since_ms: u64,
    /// Number of calls that it has allowed.
    pub uses: u64,
}

impl Store {
    /// Returns the grants of this workspace.
    pub fn grants(&self) -> Grants {
        Grants::new(self.clone())
    }
}

impl Grants {
    pub(super) fn new(store: Store) -> Self {
        Self { store }
    }

    /// Adds a grant for a session, or for the workspace; returns its number, or that of an equal one. Blocks
    /// until it is on disk.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn add(&self, effect: &Effect, session: Option<&str>, front_end: &str) -> Result<i64, Fault> {
        self.store.wait(insert(effect, session, front_end))
    }

    /// Like [`add`](Self::add), for a task.
    ///
    /// # Errors
    /// When the database can't be written.
    pub async fn keep(&self, effect: &Effect, session: Option<&str>, front_end: &str) -> Result<i64, Fault> {
        self.store.ask(insert(effect, session, front_end)).await
    }

    /// Returns the grants in force, oldest first: all of them, or those that apply to a session. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn list(&self, session: Option<&str>) -> Result<Vec<GrantRecord>, Fault> {
        let session = session.map(str::to_owned);
        self.store.wait(move |database| select(database, session.as_deref()))
    }

    /// Returns the grants that apply to a session at this moment, oldest first, whichever process added or
    /// revoked them. Every call that starts something uses it, and it reads the database each time: no cache
    /// would be as sure to change with it.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn in_force(&self, session: &str) -> Result<Vec<GrantRecord>, Fault> {
        let session = session.to_owned();
        self.store.read(move |database| select(database, Some(&session)))
    }

    /// Revokes a grant; returns false if none in force has this number. Blocks.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn revoke(&self, id: i64) -> Result<bool, Fault> {
        self.store.wait(move |database| {
            let changed = database
                .prepare_cached("UPDATE grants SET revoked_ms = ?2 WHERE id = ?1 AND revoked_ms IS NULL")?
                .execute(params![id, now_ms().cast_signed()])?;
            Ok(changed > 0)
        })
    }

    /// Counts one more use of these grants. Does not wait.
    pub fn used(&self, ids: Vec<i64>) {
        let counted = self.store.later(move |database| {
            for id in &ids {
                database
                    .prepare_cached("UPDATE grants SET uses = uses + 1 WHERE id = ?1")?
                    .execute(params![id])?;
            }
            Ok(())
        });
        if let Err(fault) = counted {
            tracing::warn!("the use of a grant is not counted: {fault}");
        }
    }
}

fn select(database: &Connection, session: Option<&str>) -> rusqlite::Result<Vec<GrantRecord>> {
    database
        .prepare_cached(
            "SELECT id, session, effect, door, since_ms, uses FROM grants WHERE revoked_ms IS NULL
             AND (?1 IS NULL OR session IS NULL OR session = ?1) ORDER BY id",
        )?
        .query_map(params![session], |row| {
            Ok(GrantRecord {
                id: row.get(0)?,
                session: row.get(1)?,
                effect: row.get(2)?,
                front_end: row.get(3)?,
                since_ms: row.get::<_, i64>(4)?.cast_unsigned(),
                uses: row.get::<_, i64>(5)?.cast_unsigned(),
            })
        })?
        .collect()
}

fn insert(
    effect: &Effect,
    session: Option<&str>,
    front_end: &str,
) -> impl FnOnce(&Connection) -> rusqlite::Result<i64> + Send + 'static {
    let (effect, session, front_end) = (effect.to_string(), session.map(str::to_owned), front_end.to_owned());
    move |database| {
        let same = database
            .prepare_cached(
                "SELECT id FROM grants WHERE revoked_ms IS NULL AND effect = ?1 AND session IS ?2",
            )?
            .query_map(params![effect, session], |row| row.get(0))?
            .next();
        if let Some(id) = same {
            return id;
        }
        database
            .prepare_cached("INSERT INTO grants (session, effect, door, since_ms) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![session, effect, front_end, now_ms().cast_signed()])?;
        Ok(database.last_insert_rowid())
    }
}
