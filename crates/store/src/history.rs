//! File history: what each call changed, and the content before.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use kit::{
    Fault,
    services::{After, History},
    text::{Content, Digest},
};
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{Found, Hash, Store, changes::Landed, now_ms, tracked::OwnLog};

/// Records the changes of one call. The file layer of `kit` calls it before each change.
#[derive(Clone)]
pub struct CallHistory {
    store: Store,
    session: String,
    call: String,
    landed: Arc<Landed>,
    /// The log of what it replaces together with its mode.
    nodes: Arc<Mutex<Option<OwnLog>>>,
}

/// A change of a file, recorded before it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub id: i64,
    pub call: String,
    pub(crate) session: String,
    pub path: PathBuf,
    pub at_ms: u64,
    /// `None` if the file did not exist.
    pub before: Option<Hash>,
    pub after: Option<Hash>,
    /// The number of reversals: 0 for a change, 1 for its undo, 2 for its redo.
    pub depth: i64,
}

/// The columns that [`change`] reads.
pub const COLUMNS: &str = "c.id, c.call, c.session, c.path, c.at_ms, c.before, c.after, c.depth";

impl Store {
    /// Returns the recorder for the changes of one call.
    pub fn history(&self, session: impl Into<String>, call: impl Into<String>) -> CallHistory {
        CallHistory {
            store: self.clone(),
            session: session.into(),
            call: call.into(),
            landed: Arc::default(),
            nodes: Arc::default(),
        }
    }

    /// Returns the content that a file had before its first edit in a session, empty if it did not exist; `None` if the
    /// session has no edit of it, or that content is not kept any more. Blocks.
    ///
    /// # Errors
    /// When the database or the content can't be read.
    pub fn before_edits(&self, session: &str, path: &Path) -> Result<Option<Vec<u8>>, Fault> {
        let (session, path) = (session.to_owned(), path.as_os_str().as_bytes().to_owned());
        let first = self.wait(move |database| {
            let first = "SELECT before FROM changes WHERE session = ?1 AND path = ?2 ORDER BY id LIMIT 1";
            let mut statement = database.prepare_cached(first)?;
            statement.query_row(params![session, path], |row| row.get::<_, Option<[u8; 32]>>(0)).optional()
        })?;
        match first {
            None => Ok(None),
            Some(None) => Ok(Some(Vec::new())),
            Some(Some(hash)) => Ok(match self.blobs().get(&Hash::from_bytes(hash))? {
                Found::Bytes(bytes) => Some(bytes),
                Found::Expired | Found::Damaged => None,
            }),
        }
    }
}

impl History for CallHistory {
    fn keep(&self, path: &Path, before: Option<&Content>, after: Option<&Content>) -> Result<(), Fault> {
        self.record(path, before, after, None)
    }

    fn keep_long(&self, path: &Path, before: Option<&Content>, after: Digest) -> Result<(), Fault> {
        if before.is_some_and(|it| it.digest() == after) {
            return Ok(());
        }
        self.put(path, before, Some(after.into()), None)
    }

    fn keep_node(&self, path: &Path) -> Result<(), Fault> {
        let mut nodes = self.nodes.lock();
        let log = match &mut *nodes {
            Some(log) => log,
            none => none.insert(self.store.tracked().own_log(&self.call)?),
        };
        log.before_replacing(path)
    }

    fn landed(&self, path: &Path, before: Option<&Content>, after: After<'_>) {
        self.landed.add(path, before, after);
    }
}

impl CallHistory {
    /// Returns the id of the call.
    pub fn call(&self) -> &str {
        &self.call
    }

    /// Returns those of these changes that were made.
    pub fn landed(&self) -> &Arc<Landed> {
        &self.landed
    }

    /// Stores the content, then the row that refers to it. When this returns both survive the death of this process.
    pub fn record(
        &self,
        path: &Path,
        before: Option<&Content>,
        after: Option<&Content>,
        reverts: Option<&Change>,
    ) -> Result<(), Fault> {
        if before == after {
            return Ok(());
        }
        self.put(path, before, after.map(|it| it.digest().into()), reverts)
    }

    fn put(
        &self,
        path: &Path,
        before: Option<&Content>,
        after: Option<Hash>,
        reverts: Option<&Change>,
    ) -> Result<(), Fault> {
        let before = before.map(|it| self.store.blobs().put(it)).transpose()?;
        let row = Change {
            id: 0,
            call: self.call.clone(),
            session: self.session.clone(),
            path: path.to_owned(),
            at_ms: now_ms(),
            before,
            after,
            depth: reverts.map_or(0, |it| it.depth + 1),
        };
        let reverts = reverts.map(|it| it.id);
        self.store.wait(move |database| insert(database, &row, reverts))
    }
}

fn insert(database: &Connection, row: &Change, reverts: Option<i64>) -> rusqlite::Result<()> {
    let path = row.path.as_os_str().as_bytes();
    let last = database
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM changes c WHERE c.path = ?1 ORDER BY c.id DESC LIMIT 1"
        ))?
        .query_row(params![path], change)
        .optional()?;
    // Undo records a change with a reference to the one it reverts, and then the file layer records the same
    // change without it; and a retry is still one change.
    if last.is_some_and(|it| it.call == row.call && (it.before, it.after) == (row.before, row.after)) {
        return Ok(());
    }
    database
        .prepare_cached(
            "INSERT INTO changes (call, session, path, at_ms, before, after, reverts, depth)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            row.call,
            row.session,
            path,
            row.at_ms.cast_signed(),
            row.before.as_ref().map(|it| it.as_bytes().as_slice()),
            row.after.as_ref().map(|it| it.as_bytes().as_slice()),
            reverts,
            row.depth,
        ])?;
    Ok(())
}

/// Returns the change of a row with [`COLUMNS`].
pub fn change(row: &Row) -> rusqlite::Result<Change> {
    let hash = |at: usize| -> rusqlite::Result<Option<Hash>> {
        Ok(row.get::<_, Option<[u8; 32]>>(at)?.map(Hash::from_bytes))
    };
    Ok(Change {
        id: row.get(0)?,
        call: row.get(1)?,
        session: row.get(2)?,
        path: path_of(row.get(3)?),
        at_ms: row.get::<_, i64>(4)?.cast_unsigned(),
        before: hash(5)?,
        after: hash(6)?,
        depth: row.get(7)?,
    })
}

/// Returns the path that was stored as bytes.
pub fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

/// Formats a hash as text.
pub(crate) fn text_of(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
