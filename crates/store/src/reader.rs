//! The reading connection, which does not wait for the writer.
//!
//! Each read runs on a connection of its own, in the calling thread: it sees whatever any process has
//! committed before it began, and costs a fraction of two thread switches.

use std::{path::Path, time::Duration};

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};

/// Time to wait for a busy database; after that the writer is asked, so that this thread does not block.
const TIMEOUT: Duration = Duration::from_millis(5);

/// Number of prepared statements that are kept.
const STATEMENTS: usize = 64;

/// The connection, once it pays off.
#[derive(Default)]
pub(super) struct Reader(Mutex<State>);

#[derive(Default)]
enum State {
    /// No read yet. The writer may not have created the database yet, and many processes read only once.
    #[default]
    Unused,
    /// The writer was asked once, so the database exists.
    Asked,
    Open(Connection),
    Closed,
}

impl Reader {
    /// Returns the result of `work`; `None` if the writer is to be asked.
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

    /// Records that the writer has answered: from now on a connection pays off.
    pub(super) fn may_open(&self) {
        let mut state = self.0.lock();
        if let State::Unused = *state {
            *state = State::Asked;
        }
    }

    /// Closes it before the writer's, so that the writer's is the last one and removes the files beside the database.
    pub(super) fn close(&self) {
        *self.0.lock() = State::Closed;
    }
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    // The mutex around it is sufficient.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(path, flags)?;
    database.busy_timeout(TIMEOUT)?;
    database.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(database)
}
