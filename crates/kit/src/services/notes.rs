//! Notes and memory, as text that outlives a call.

use crate::Fault;

/// What is done to a note: from the text that is there to the one that is to be there.
pub type Change = Box<dyn FnOnce(Option<String>) -> Result<Option<String>, Fault> + Send>;

/// What one session notes, and what the workspace remembers. All of it is kept across restarts. May block.
pub trait Notes: Send + Sync {
    /// What this session put away under `key`.
    ///
    /// # Errors
    /// When it can't be read.
    fn get(&self, key: &str) -> Result<Option<String>, Fault>;

    /// Changes what is under `key`, and gives what is there then. Nothing else changes it meanwhile, in no process;
    /// `change` itself must not use these notes. Secrets are masked before they are kept.
    ///
    /// # Errors
    /// Those of `change`, after which nothing is changed, and when it can't be written.
    fn change(&self, key: &str, change: Change) -> Result<Option<String>, Fault>;

    /// Puts a text away under `key`, in place of what was there; nothing removes it.
    ///
    /// # Errors
    /// When it can't be written.
    fn put(&self, key: &str, text: Option<&str>) -> Result<(), Fault> {
        let text = text.map(str::to_owned);
        self.change(key, Box::new(|_| Ok(text))).map(drop)
    }

    /// The keys that begin so and have a text, in their order.
    ///
    /// # Errors
    /// When they can't be read.
    fn keys(&self, prefix: &str) -> Result<Vec<String>, Fault>;

    /// Remembers a fact for every later session of this workspace; gives the number it has.
    /// A fact that is known already keeps its number.
    ///
    /// # Errors
    /// When it can't be written.
    fn remember(&self, fact: &str, tags: &[String]) -> Result<u64, Fault>;

    /// The facts that answer to these words, best first; without words the newest. Any text will do: nothing in it is
    /// an operator.
    ///
    /// # Errors
    /// When they can't be read.
    fn recall(&self, query: &str, limit: usize) -> Result<Vec<Fact>, Fault>;

    /// Forgets a fact; gives what it was.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) when there is none of that number.
    fn forget(&self, number: u64) -> Result<Fact, Fault>;

    /// What was said in this session that answers to these words, best first; without words the newest. Any text will
    /// do: nothing in it is an operator.
    ///
    /// # Errors
    /// When it can't be read.
    fn said(&self, query: &str, limit: usize) -> Result<Vec<Saying>, Fault>;
}

/// Something that was remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Its number in the workspace.
    pub number: u64,
    /// The fact.
    pub text: String,
    /// What it is about.
    pub tags: Vec<String>,
    /// When it was remembered, in milliseconds since 1970.
    pub at_ms: u64,
}

/// Something that was said in a session, or done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saying {
    /// Its place in the session, counted from 1.
    pub place: u64,
    /// Who: `person`, `model`, the name of a tool.
    pub who: String,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The text, or the part of it that answers.
    pub text: String,
}
