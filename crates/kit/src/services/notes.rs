//! Notes and memory, as text that outlives a call.

use crate::Fault;

/// A change of a note: from its present text to its new one.
pub type Change = Box<dyn FnOnce(Option<String>) -> Result<Option<String>, Fault> + Send>;

/// Notes of one session, and facts of the workspace. All of it persists across restarts. May block.
pub trait Notes: Send + Sync {
    /// Returns the text of this session under `key`.
    ///
    /// # Errors
    /// When it can't be read.
    fn get(&self, key: &str) -> Result<Option<String>, Fault>;

    /// Changes the text under `key`, and returns the new one. The change is atomic across processes; `change`
    /// itself must not use these notes. Secrets are masked before they are stored.
    ///
    /// # Errors
    /// Those of `change`, after which nothing is changed, and when it can't be written.
    fn change(&self, key: &str, change: Change) -> Result<Option<String>, Fault>;

    /// Replaces the text under `key`; `None` removes it.
    ///
    /// # Errors
    /// When it can't be written.
    fn put(&self, key: &str, text: Option<&str>) -> Result<(), Fault> {
        let text = text.map(str::to_owned);
        self.change(key, Box::new(|_| Ok(text))).map(drop)
    }

    /// Returns the keys with this prefix that have a text, in their order.
    ///
    /// # Errors
    /// When they can't be read.
    fn keys(&self, prefix: &str) -> Result<Vec<String>, Fault>;

    /// Stores a fact for every later session of this workspace; returns its number. A fact that is known
    /// already keeps its number.
    ///
    /// # Errors
    /// When it can't be written.
    fn remember(&self, fact: &str, tags: &[String]) -> Result<u64, Fault>;

    /// Returns the facts that match these words, best first; without words the newest. Any text will do:
    /// nothing in it is an operator.
    ///
    /// # Errors
    /// When they can't be read.
    fn recall(&self, query: &str, limit: usize) -> Result<Vec<Fact>, Fault>;

    /// Deletes a fact, and returns it.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) when there is none of that number.
    fn forget(&self, number: u64) -> Result<Fact, Fault>;

    /// Returns the messages of this session that match these words, best first; without words the newest. Any
    /// text will do: nothing in it is an operator.
    ///
    /// # Errors
    /// When they can't be read.
    fn find_messages(&self, query: &str, limit: usize) -> Result<Vec<FoundMessage>, Fault>;
}

/// A stored fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Its number in the workspace.
    pub number: u64,
    /// The fact.
    pub text: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// The time when it was stored, in milliseconds since 1970.
    pub at_ms: u64,
}

/// A message or a call of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundMessage {
    /// Its position in the session, counted from 1.
    pub place: u64,
    /// Its author: `person`, `model`, or the name of a tool.
    pub who: String,
    /// Its time, in milliseconds since 1970.
    pub at_ms: u64,
    /// The text, or the part of it that matches.
    pub text: String,
}
