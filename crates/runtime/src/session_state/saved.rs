//! Saved entries of a named session: the state with which another process continues it.

use kit::Fault;
use store::Sessions;

/// The stored entries of one named session.
pub(crate) struct Saved<'a> {
    sessions: Sessions,
    session: &'a str,
}

impl<'a> Saved<'a> {
    /// Returns the entries of the session of this name.
    pub(super) fn new(sessions: Sessions, session: &'a str) -> Self {
        Self { sessions, session }
    }

    /// Returns the entry of this key, if there is one.
    ///
    /// # Errors
    /// When the store can't be read.
    pub(super) fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Fault> {
        self.sessions.get(self.session, key)
    }

    /// Stores an entry under this key.
    ///
    /// # Errors
    /// When the store can't be written.
    pub(super) fn put(&self, key: &str, bytes: Vec<u8>) -> Result<(), Fault> {
        self.sessions.put(self.session, key, bytes)
    }

    /// Removes the entry of this key.
    ///
    /// # Errors
    /// When the store can't be written.
    pub(super) fn remove(&self, key: &str) -> Result<(), Fault> {
        self.sessions.remove(self.session, key)
    }
}
