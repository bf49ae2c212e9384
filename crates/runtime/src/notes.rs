//! What did a session note?

use kit::{
    Fault, Kind,
    services::{Fact, Notes, Saying},
};

use crate::{Session, store::Store};

/// Before the keys of notes, among what else a session puts away.
const PREFIX: &str = "note ";

/// The notes of one session.
pub(crate) struct NotesOf {
    store: Store,
    session: String,
}

impl NotesOf {
    pub(crate) fn new(session: &Session) -> Self {
        Self { store: session.runtime().store().clone(), session: session.name().to_owned() }
    }
}

impl Notes for NotesOf {
    fn get(&self, key: &str) -> Result<Option<String>, Fault> {
        let bytes = self.store.sessions().get(&self.session, &format!("{PREFIX}{key}"))?;
        Ok(bytes.map(|it| String::from_utf8_lossy(&it).into_owned()))
    }

    fn put(&self, key: &str, text: Option<&str>) -> Result<(), Fault> {
        let (sessions, key) = (self.store.sessions(), format!("{PREFIX}{key}"));
        match text {
            Some(text) => sessions.put(&*self.session, key, text.as_bytes().to_vec()),
            None => sessions.remove(&*self.session, key),
        }
    }

    fn keys(&self, _prefix: &str) -> Result<Vec<String>, Fault> {
        Err(Fault::new(Kind::Unavailable, "not yet"))
    }

    fn remember(&self, _fact: &str, _tags: &[String]) -> Result<u64, Fault> {
        Err(Fault::new(Kind::Unavailable, "not yet"))
    }

    fn recall(&self, _query: &str, _limit: usize) -> Result<Vec<Fact>, Fault> {
        Err(Fault::new(Kind::Unavailable, "not yet"))
    }

    fn forget(&self, _number: u64) -> Result<Fact, Fault> {
        Err(Fault::new(Kind::Unavailable, "not yet"))
    }

    fn said(&self, _query: &str, _limit: usize) -> Result<Vec<Saying>, Fault> {
        Err(Fault::new(Kind::Unavailable, "not yet"))
    }
}
