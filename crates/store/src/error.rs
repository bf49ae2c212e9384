//! Database errors, in words that say what to do.

use std::{io, path::Path};

use kit::{Fault, Kind};
use rusqlite::ErrorCode;

/// An error of the store. Unlike a fault it can be sent to several waiters.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{what}")]
pub(crate) struct Trouble {
    what: String,
    next: String,
}

impl Trouble {
    pub(super) fn new(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what: what.into(), next: next.into() }
    }

    /// Explains an error of SQLite for the database at `path`.
    pub(super) fn of_sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.display();
        let (what, next) = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => {
                ("the disk is full", "Free some space there, then try again.".to_owned())
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => (
                "it can't be opened for writing",
                "Make the folder writable, or choose another state folder.".to_owned(),
            ),
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => (
                "it is damaged",
                format!(
                    "haft leaves it as it is. Move it away (mv '{path}' '{path}.damaged') and haft starts a new one."
                ),
            ),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
                "another process has kept it locked",
                "Look for a haft process that is stopped or stuck, then try again.".to_owned(),
            ),
            Some(ErrorCode::SystemIoFailure) => {
                ("the disk gave an error", "Look at the disk and the system's log.".to_owned())
            }
            _ => ("it can't be used", "See `haft doctor`.".to_owned()),
        };
        Self::new(format!("haft's record of this workspace, {path}: {what} ({error})"), next)
    }

    /// Explains an error of the file system for `path`.
    pub(super) fn of_file(path: &Path, error: &io::Error) -> Self {
        let next = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "Free some space there, then try again."
            }
            _ => "Make the folder writable, or choose another state folder.",
        };
        Self::new(format!("haft's state in {} can't be written: {error}", path.display()), next)
    }
}

impl From<Trouble> for Fault {
    fn from(trouble: Trouble) -> Self {
        Self::new(Kind::Unavailable, trouble.what).next(trouble.next)
    }
}
