//! What did a session note, and what does its workspace remember?

use kit::{
    Fault,
    services::{Change, Fact, Notes, Saying},
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
        Self { store: session.store().clone(), session: session.name().to_owned() }
    }

    /// Under which key a note lies: a model may have put a secret there too.
    fn key(&self, key: &str) -> String {
        format!("{PREFIX}{}", self.store.stamp().secrets.mask(key))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Notes for NotesOf {
    fn get(&self, key: &str) -> Result<Option<String>, Fault> {
        let bytes = self.store.sessions().get(&self.session, &self.key(key))?;
        Ok(bytes.as_deref().map(text))
    }

    fn change(&self, key: &str, change: Change) -> Result<Option<String>, Fault> {
        let secrets = self.store.stamp().secrets;
        let changed = self.store.sessions().change(&self.session, &self.key(key), move |before| {
            let after = change(before.as_deref().map(text))?;
            Ok(after.map(|it| secrets.mask(&it).into_owned().into_bytes()))
        })?;
        Ok(changed.as_deref().map(text))
    }

    fn keys(&self, prefix: &str) -> Result<Vec<String>, Fault> {
        let keys = self.store.sessions().keys(&self.session, &self.key(prefix))?;
        Ok(keys.iter().filter_map(|it| it.strip_prefix(PREFIX)).map(str::to_owned).collect())
    }

    fn remember(&self, fact: &str, tags: &[String]) -> Result<u64, Fault> {
        self.store.memory().remember(&self.session, fact, tags)
    }

    fn recall(&self, query: &str, limit: usize) -> Result<Vec<Fact>, Fault> {
        self.store.memory().recall(query, limit)
    }

    fn forget(&self, number: u64) -> Result<Fact, Fault> {
        let found = self.store.memory().forget(number)?;
        found.ok_or_else(|| Fault::not_found(format!("no fact has the number {number}, or it was forgotten")))
    }

    fn said(&self, query: &str, limit: usize) -> Result<Vec<Saying>, Fault> {
        self.store.sayings().find(&self.session, query, limit)
    }
}
