//! The reading connection, which does not wait for the writer.
//!
//! By a connection of its own, in the thread that asks: a read sees whatever any process has committed before it began,
//! and costs a fraction of two changes of thread.

use std::{path::Path, time::Duration};

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};

/// A database that is busy for longer is left to the writer, who may wait: here a whole thread of calls would.
const PATIENCE: Duration = Duration::from_millis(5);

/// The connection, once it is worth having.
#[derive(Default)]
pub(super) struct Reader(Mutex<State>);

#[derive(Default)]
enum State {
    /// Nobody has read. The writer may not have made the database yet, and many processes read only once.
    #[default]
    Unused,
    /// The writer was asked, so there is a database.
    Asked,
    Open(Connection),
    Closed,
}

impl Reader {
    /// What `work` finds; nothing where the writer is to be asked.
    pub(super) fn read<T>(
        &self,
        path: &Path,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Option<T> {
        let mut state = self.0.lock();
        if let State::Asked = *state {
            *state = State::Open(open(path).ok()?);
        }
        let State::Open(database) = &*state else { return None };
        match work(database) {
            Ok(found) => Some(found),
            Err(error) => {
                tracing::debug!(%error, "the writer is asked instead");
                *state = State::Asked;
                None
            }
        }
    }

    /// The writer has answered: from now on it is worth a connection.
    pub(super) fn may_open(&self) {
        let mut state = self.0.lock();
        if let State::Unused = *state {
            *state = State::Asked;
        }
    }

    /// Before the writer closes, so that it is the last and takes the files beside the database with it.
    pub(super) fn close(&self) {
        *self.0.lock() = State::Closed;
    }
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    // The lock around it is all that is needed.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(path, flags)?;
    database.busy_timeout(PATIENCE)?;
    Ok(database)
}
