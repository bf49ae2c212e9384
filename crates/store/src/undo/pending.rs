//! Changes of given calls that are not undone yet, with those of the sub-agents that these calls started.

use std::path::PathBuf;

use kit::Fault;
use rusqlite::{Connection, OptionalExtension, params};

use super::OPEN;
use crate::{Store, history::path_of};

/// A call with changes that can still be undone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
        let of_session = session.clone();
        let edit = self.wait(move |database| super::commands::newest(database, Some(&of_session)))?;
        let command = self.tracked().open_calls(Some(&session))?.into_iter().find(|it| it.depth % 2 == 0);
        Ok(match (edit, command) {
            (Some((edit, at_ms)), Some(command)) if at_ms > command.at_ms => Some(edit),
            (_, Some(command)) => Some(command.call),
            (edit, None) => edit.map(|(call, _)| call),
        })
    }

    /// Returns the changes of these calls that can still be undone, the newest first. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn left_to_undo(&self, calls: Vec<String>) -> Result<Vec<Changed>, Fault> {
        let tracked = self.tracked();
        let commands = tracked.open_calls(None)?;
        let names: Vec<(String, String, u64)> =
            commands.iter().map(|it| (it.call.clone(), it.session.clone(), it.at_ms)).collect();
        let mut left = self.wait(move |database| {
            let mut all: Vec<String> = Vec::new();
            for call in calls {
                let below = below(database, &call)?;
                let span = span(database, &call)?;
                let of_commands = names.iter().filter(|(_, session, at_ms)| span.has(session, *at_ms));
                let of_commands: Vec<String> = of_commands.map(|(call, ..)| call.clone()).collect();
                all.extend([vec![call], below, of_commands].concat());
            }
            all.sort_unstable();
            all.dedup();
            let mut left: Vec<(u64, Changed)> = Vec::new();
            for call in all {
                let edits = of(database, call.clone())?;
                left.push(edits.unwrap_or_else(|| (0, Changed { call, ..Changed::default() })));
            }
            Ok(left)
        })?;
        for (at_ms, changed) in &mut left {
            let Some(command) = commands.iter().find(|it| it.call == changed.call) else { continue };
            *at_ms = command.at_ms.max(*at_ms);
            changed.session.clone_from(&command.session);
            changed.tool.clone_from(&command.tool);
            for path in tracked.files(&changed.call, FILES)? {
                if !changed.files.contains(&path) {
                    changed.files.push(path);
                }
            }
        }
        left.retain(|(_, changed)| !changed.files.is_empty());
        left.sort_by_key(|(newest, _)| std::cmp::Reverse(*newest));
        Ok(left.into_iter().map(|(_, changed)| changed).collect())
    }
}

/// Maximum number of files of one command that are named.
const FILES: usize = 200;

/// The session and the time of a call, within which its sub-agents ran.
#[derive(Default)]
struct Span {
    session: String,
    began: u64,
    ended: Option<u64>,
}

impl Span {
    /// Returns whether a change of this session at this time is one of a sub-agent of the call.
    fn has(&self, session: &str, at_ms: u64) -> bool {
        !self.session.is_empty()
            && session.strip_prefix(&self.session).is_some_and(|it| it.starts_with('/'))
            && at_ms >= self.began
            && self.ended.is_none_or(|it| at_ms <= it)
    }
}

fn span(database: &Connection, call: &str) -> rusqlite::Result<Span> {
    let found = database
        .prepare_cached(
            "SELECT b.session, b.at_ms, e.at_ms FROM journal b
             LEFT JOIN journal e ON e.call = b.call AND e.event = 'ended'
             WHERE b.call = ?1 AND b.event = 'begun'",
        )?
        .query_row(params![call], |row| {
            let (began, ended): (i64, Option<i64>) = (row.get(1)?, row.get(2)?);
            Ok(Span {
                session: row.get(0)?,
                began: began.cast_unsigned(),
                ended: ended.map(i64::cast_unsigned),
            })
        })
        .optional()?;
    Ok(found.unwrap_or_default())
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

/// Returns the rest of one call, and the time of its newest change.
fn of(database: &Connection, call: String) -> rusqlite::Result<Option<(u64, Changed)>> {
    let mut files: Vec<PathBuf> = Vec::new();
    let (mut newest, mut session) = (None, String::new());
    let mut rows = database.prepare_cached(&format!(
        "SELECT c.at_ms, c.path, c.session FROM changes c WHERE c.call = ?1 AND {OPEN} ORDER BY c.id"
    ))?;
    let mut rows = rows.query(params![call])?;
    while let Some(row) = rows.next()? {
        newest = Some(row.get::<_, i64>(0)?.cast_unsigned());
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
