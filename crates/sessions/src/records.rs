//! Records of sessions besides their events: titles, archives, forks.

use std::sync::Arc;

use kit::{Fault, Kind};

/// Session data that a workspace keeps besides the events. Its functions block.
pub trait Records: Send + Sync {
    /// Gives a session a title.
    ///
    /// # Errors
    /// When that can't be written.
    fn rename(&self, session: &str, title: &str) -> Result<(), Fault>;

    /// Archives a session, or takes it back from there.
    ///
    /// # Errors
    /// When that can't be written.
    fn archive(&self, session: &str, archived: bool) -> Result<(), Fault>;

    /// Makes the session `to`, which goes on from this one, `without` so many of its newest turns.
    ///
    /// # Errors
    /// When there are not so many turns, there is a session `to`, or it can't be written.
    fn fork(&self, session: &str, without: usize, to: &str) -> Result<(), Fault>;

    /// Returns whether there is a session `to` that was forked from this one.
    ///
    /// # Errors
    /// When that can't be read.
    fn is_fork(&self, session: &str, to: &str) -> Result<bool, Fault>;

    /// Deletes what is kept of a session that nobody owns.
    ///
    /// # Errors
    /// When that can't be written.
    fn delete(&self, session: &str) -> Result<(), Fault>;
}

/// Returns the records, or [`Kind::Unavailable`] if the program keeps none.
pub(crate) fn records(records: Option<&Arc<dyn Records>>) -> Result<&Arc<dyn Records>, Fault> {
    records.ok_or_else(not_kept)
}

/// Returns the fault of a program that keeps no records.
pub(crate) fn not_kept() -> Fault {
    Fault::new(Kind::Unavailable, "titles, archives and forks are not kept here")
}
