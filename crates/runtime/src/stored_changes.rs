//! Stored changes: the files that an earlier call changed, reconstructed from the store.
//!
//! For each change the store has the content before it, and only the hash of the content after it. haft finds
//! that content as the before-image of a later change, or in the file itself. If it is in neither, the
//! version is unknown, with the reason.

use std::os::unix::ffi::OsStrExt;

use kit::Fault;
use rusqlite::{Connection, OptionalExtension, params};
use store::{
    Found, Hash, Store,
    changes::{Version, Versions},
    history::{COLUMNS, Change as Recorded, change},
    journal::CallRecord,
    undo::Restore,
};

use crate::put_back::UndoFiles;

/// A recorded change.
struct Row {
    recorded: Recorded,
    /// The content before the next change of the same file.
    next: Option<Option<Hash>>,
    /// Whether the next change is of the same call.
    is_tried_again: bool,
}

/// Whether a change was made that was recorded beforehand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Landed {
    Yes,
    No,
    /// No stored data shows it.
    Unknown,
}

/// Returns the files that an earlier call changed, as far as their contents are still stored. Blocks.
///
/// # Errors
/// When the store can't be read.
pub(crate) fn changed_by(
    store: &Store,
    files: &UndoFiles,
    call: &CallRecord,
) -> Result<Vec<Versions>, Fault> {
    let of_commands = store.tracked().versions(&call.call)?;
    if call.changes.is_empty() {
        return Ok(of_commands);
    }
    let id = call.call.clone();
    let rows = store.wait(move |database| rows(database, &id))?;
    let ended_well = call.outcome.as_deref() == Some("ok");
    let mut changed: Vec<Versions> = Vec::new();
    for row in &rows {
        let path = &row.recorded.path;
        // The inner `None`: there is no such file. The outer one: it can't be read.
        let now = files.read(path).ok();
        let landed = landed(row, now.as_ref().map(|it| it.as_deref().map(blake3::hash)), ended_well);
        if landed == Landed::No && row.is_tried_again {
            continue;
        }
        let before = stored(store, row.recorded.before.as_ref(), None)?;
        let after = match landed {
            Landed::No => {
                Version::Unknown("this change did not land, or was taken back by another program".to_owned())
            }
            Landed::Unknown => Version::Unknown(
                "this change may not have landed: the call did not end, and nothing shows what the file held then"
                    .to_owned(),
            ),
            Landed::Yes => stored(store, row.recorded.after.as_ref(), now.flatten())?,
        };
        let new = Versions { path: path.clone(), before, after };
        match changed.iter_mut().rfind(|it| it.path == new.path) {
            Some(last) if last.after == new.before => last.after = new.after,
            _ => changed.push(new),
        }
    }
    changed.extend(of_commands);
    Ok(changed)
}

/// Returns the content with this hash: from the store, or from the file if it has that content now.
fn stored(store: &Store, hash: Option<&Hash>, now: Option<Vec<u8>>) -> Result<Version, Fault> {
    let Some(hash) = hash else { return Ok(Version::Absent) };
    Ok(match store.blobs().get(hash)? {
        Found::Bytes(bytes) => Version::Known(bytes.into()),
        Found::Damaged => Version::Unknown("the kept copy of what the file held is damaged".to_owned()),
        Found::Expired => match now {
            Some(bytes) if blake3::hash(&bytes) == *hash => Version::Known(bytes.into()),
            Some(_) | None => Version::Unknown(
                "not shown: the file was changed since, and what this call left or found in it is not kept any more"
                    .to_owned(),
            ),
        },
    })
}

/// Determines whether a change was made. `now` is the hash of the file's content, if it can be read.
fn landed(row: &Row, now: Option<Option<Hash>>, ended_well: bool) -> Landed {
    let Recorded { before, after, .. } = row.recorded;
    // The next change began with the content that this one wrote, or with the one before it.
    match row.next.or(now) {
        Some(found) if found == after => Landed::Yes,
        _ if row.is_tried_again => Landed::No,
        _ if ended_well => Landed::Yes,
        Some(found) if found == before => Landed::No,
        _ => Landed::Unknown,
    }
}

fn rows(database: &Connection, call: &str) -> rusqlite::Result<Vec<Row>> {
    let recorded: Vec<Recorded> = database
        .prepare_cached(&format!("SELECT {COLUMNS} FROM changes c WHERE c.call = ?1 ORDER BY c.id"))?
        .query_map(params![call], change)?
        .collect::<rusqlite::Result<_>>()?;
    let mut next = database
        .prepare_cached("SELECT before, call FROM changes WHERE path = ?1 AND id > ?2 ORDER BY id LIMIT 1")?;
    recorded
        .into_iter()
        .map(|recorded| {
            let found = next
                .query_row(params![recorded.path.as_os_str().as_bytes(), recorded.id], |row| {
                    Ok((row.get::<_, Option<[u8; 32]>>(0)?.map(Hash::from_bytes), row.get::<_, String>(1)?))
                })
                .optional()?;
            let is_tried_again = found.as_ref().is_some_and(|(_, call)| *call == recorded.call);
            Ok(Row { recorded, next: found.map(|(before, _)| before), is_tried_again })
        })
        .collect()
}
