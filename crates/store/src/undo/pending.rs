//! Changes of given calls that are not undone yet, with those of the sub-agents that these calls started.

use std::path::PathBuf;

use kit::Fault;
use rusqlite::{Connection, OptionalExtension, params};

use super::OPEN;
use crate::{Store, history::path_of};

/// A call with changes that can still be undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Its id in the journal, by which it is undone.
    pub call: String,
    /// The session in which it was made.
    pub session: String,
    /// The tool.
    pub tool: String,
    /// The files, in the order in which they were changed, each once.
    pub files: Vec<PathBuf>,
}

impl Store {
    /// Returns the newest call of a session whose changes an undo would revert. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn newest_to_undo(&self, session: &str) -> Result<Option<String>, Fault> {
        let session = session.to_owned();
        self.wait(move |database| super::newest(database, Some(&session)))
    }

    /// Returns the changes of these calls that can still be undone, the newest first. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn left_to_undo(&self, calls: Vec<String>) -> Result<Vec<Changed>, Fault> {
        self.wait(move |database| {
            let mut all: Vec<String> = Vec::new();
            for call in calls {
                let below = below(database, &call)?;
                all.extend([vec![call], below].concat());
            }
            all.sort_unstable();
            all.dedup();
            let mut left: Vec<(i64, Changed)> = Vec::new();
            for call in all {
                left.extend(of(database, call)?);
            }
            left.sort_by_key(|(newest, _)| std::cmp::Reverse(*newest));
            Ok(left.into_iter().map(|(_, changed)| changed).collect())
        })
    }
}

/// Returns the calls by which sub-agents changed something while this one ran.
fn below(database: &Connection, call: &str) -> rusqlite::Result<Vec<String>> {
    database
        .prepare_cached(
            "SELECT DISTINCT c.call FROM journal b
             LEFT JOIN journal e ON e.call = b.call AND e.event = 'ended'
             JOIN changes c ON substr(c.session, 1, length(b.session) + 1) = b.session || '/'
               AND c.at_ms >= b.at_ms AND (e.at_ms IS NULL OR c.at_ms <= e.at_ms)
             WHERE b.call = ?1 AND b.event = 'begun'",
        )?
        .query_map(params![call], |row| row.get(0))?
        .collect()
}

/// Returns the rest of one call, and the number of its newest change.
fn of(database: &Connection, call: String) -> rusqlite::Result<Option<(i64, Changed)>> {
    let mut files: Vec<PathBuf> = Vec::new();
    let (mut newest, mut session) = (None, String::new());
    let mut rows = database.prepare_cached(&format!(
        "SELECT c.id, c.path, c.session FROM changes c WHERE c.call = ?1 AND {OPEN} ORDER BY c.id"
    ))?;
    let mut rows = rows.query(params![call])?;
    while let Some(row) = rows.next()? {
        newest = Some(row.get(0)?);
        session = row.get(2)?;
        let path = path_of(row.get(1)?);
        if !files.contains(&path) {
            files.push(path);
        }
    }
    let Some(newest) = newest else { return Ok(None) };
    let tool: Option<String> = database
        .prepare_cached("SELECT tool FROM journal WHERE call = ?1 AND event = 'begun'")?
        .query_row(params![call], |row| row.get(0))
        .optional()?;
    Ok(Some((newest, Changed { call, session, tool: tool.unwrap_or_default(), files })))
}
