//! Deleting a conversation: it leaves every list, and what the append-only tables keep of it is counted.

use std::{fs, io, path::Path};

use kit::{Fault, Kind};
use rusqlite::{Connection, params};

use super::Conversations;
use crate::{now_ms, spill::folder_of};

/// Counts of the removed and the remaining data of a deleted conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Kept outputs that were removed.
    pub outputs: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Shared files that were removed.
    pub files: usize,
    /// Permissions of the session that were revoked.
    pub grants: usize,
    /// Rows of the message buffer (the transcript that the person sees), which stay in the database.
    pub rows: u64,
    /// Calls in the journal, which stay.
    pub calls: u64,
    /// File changes, which stay and can still be undone.
    pub changes: u64,
}

/// The rows of this session and of the sub-agents below it: `column` is that of the session's name, which is `?1`.
fn below(column: &str) -> String {
    format!("({column} = ?1 OR substr({column}, 1, length(?1) + 1) = ?1 || '/')")
}

impl Conversations {
    /// Deletes the conversation of this session, with those of its sub-agents: its outputs, shared files, saved state and
    /// permissions go. The transcript, the journal and the changes are append-only and stay. Blocks.
    ///
    /// # Errors
    /// When another process has the session open, or something of it can't be removed.
    pub fn delete(&self, session: &str) -> Result<Deleted, Fault> {
        let held = self.store.transcripts().hold(session);
        let _held =
            held.map_err(|fault| Fault { next: Some("Close it there first.".to_owned()), ..fault })?;
        self.delete_held(session)
    }

    /// The same for whoever holds the session's lease. Blocks.
    ///
    /// # Errors
    /// When something of it can't be removed.
    pub fn delete_held(&self, session: &str) -> Result<Deleted, Fault> {
        let name = session.to_owned();
        let (names, mut deleted) = self.store.wait(move |database| marked(database, &name))?;
        for name in names {
            let spill = remove(&folder_of(&self.store.spill_folder(), &name), |it| it.starts_with("out_"))?;
            let files = remove(&folder_of(&self.store.files_folder(), &name), |it| it.ends_with(".json"))?;
            deleted.outputs += spill.0;
            deleted.bytes += spill.1;
            deleted.files += files.0;
        }
        Ok(deleted)
    }
}

/// Marks it as deleted and removes what of it can be. Gives the names of its sessions too.
fn marked(database: &Connection, session: &str) -> rusqlite::Result<(Vec<String>, Deleted)> {
    let now = now_ms().cast_signed();
    database.execute(
        "INSERT INTO conversations (session, deleted_ms) VALUES (?1, ?2)
         ON CONFLICT (session) DO UPDATE SET deleted_ms = excluded.deleted_ms",
        params![session, now],
    )?;
    database.execute(&format!("DELETE FROM session_values WHERE {}", below("session")), params![session])?;
    // What watchers saw is the same once more, and may go.
    for table in ["events", "operations", "owners"] {
        database.execute(&format!("DELETE FROM {table} WHERE {}", below("session")), params![session])?;
    }
    for table in ["triggers", "trigger_history"] {
        database.execute(&format!("DELETE FROM {table} WHERE {}", below("session")), params![session])?;
    }
    database.execute(&format!("DELETE FROM inbox WHERE {}", below("recipient")), params![session])?;
    for table in ["members", "channel_edges"] {
        database.execute(&format!("DELETE FROM {table} WHERE {}", below("session")), params![session])?;
    }
    let scope = format!("session {session}");
    database.execute(&format!("DELETE FROM channels WHERE {}", below("scope")), params![scope])?;
    for table in ["channel_messages", "channel_readers"] {
        database.execute(&format!("DELETE FROM {table} WHERE {}", below("scope")), params![scope])?;
    }
    let grants = database.execute(
        &format!("UPDATE grants SET revoked_ms = ?2 WHERE {} AND revoked_ms IS NULL", below("session")),
        params![session, now],
    )?;
    let names = database
        .prepare(&format!("SELECT id FROM sessions WHERE {}", below("id")))?
        .query_map(params![session], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<String>>>()?;
    let count = |what: &str| -> rusqlite::Result<u64> {
        let sql = format!("SELECT count(*) FROM {what} AND {}", below("session"));
        database.query_row(&sql, params![session], |row| row.get::<_, i64>(0)).map(i64::cast_unsigned)
    };
    let deleted = Deleted {
        grants,
        rows: count("transcript WHERE buffer = 'messages'")?,
        calls: count("journal WHERE event = 'begun'")?,
        changes: count("changes WHERE TRUE")?,
        ..Deleted::default()
    };
    Ok((names, deleted))
}

/// Removes a folder; gives how many files of the kind that counts were in it, and their bytes.
fn remove(folder: &Path, counts: fn(&str) -> bool) -> Result<(usize, u64), Fault> {
    let trouble = |error: io::Error| {
        let what = format!("{} can't be removed: {error}", folder.display());
        Fault::new(Kind::Unavailable, what)
            .next("The conversation is in no list any more. Remove the folder by hand.")
            .caused_by(error)
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((0, 0)),
        Err(error) => return Err(trouble(error)),
    };
    let (mut files, mut bytes) = (0, 0);
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(counts) {
            files += 1;
            bytes += entry.metadata().map_or(0, |it| it.len());
        }
    }
    fs::remove_dir_all(folder).map_err(trouble)?;
    Ok((files, bytes))
}
