//! What was said, for the person and for the model, and how does it survive this process?
//!
//! A call is written down before it begins, and its result when it is there, so a conversation whose process dies in the
//! middle of an answer goes on with exactly the calls that were made.

mod mend;
mod row;

use std::{future::Future, pin::Pin};

use kit::Fault;
use runtime::{
    Session,
    store::{Buffer, Transcripts},
};
use serde::Serialize;

use crate::model::{Item, ResultOf, Said};
pub use row::Message;
use row::Row;

/// The two buffers of one session.
pub struct Transcript {
    store: Transcripts,
    session: String,
    items: Vec<Item>,
    steps: usize,
    rows: u64,
    messages: u64,
    unwritten: Vec<Written>,
}

type Written = Pin<Box<dyn Future<Output = Result<(), Fault>> + Send>>;

impl Transcript {
    /// What this session said until now. What was cut short is mended: every call has a result then.
    ///
    /// # Errors
    /// When it can't be read, or was written by a newer haft.
    pub fn open(session: &Session) -> Result<Self, Fault> {
        let store = session.runtime().store().transcripts();
        let name = session.name().to_owned();
        let rows = store.rows(&name, Buffer::Context)?;
        let messages = store.rows(&name, Buffer::Messages)?.last().map_or(0, |it| it.number);
        let mut transcript = Self {
            store,
            session: name,
            items: Vec::new(),
            steps: 0,
            rows: rows.last().map_or(0, |it| it.number),
            messages,
            unwritten: Vec::new(),
        };
        mend::replay(&mut transcript, session, rows)?;
        Ok(transcript)
    }

    /// What the model is sent.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// How many answers of a model there were.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Adds a piece to what the model is sent.
    pub(crate) fn add(&mut self, item: Item) {
        self.put(&Row::Item { item: item.clone() });
        self.take(item);
    }

    fn take(&mut self, item: Item) {
        if matches!(item, Item::Model { .. }) {
            self.steps += 1;
        }
        self.items.push(item);
    }

    /// A call is about to begin, in the middle of an answer that began like this.
    pub(crate) fn begin(&mut self, before: &[Said], call: &Said, journal: &str) {
        self.put(&Row::Began { before: before.to_vec(), call: call.clone(), journal: journal.to_owned() });
    }

    /// A call of the answer that is being given is over.
    pub(crate) fn end(&mut self, result: &ResultOf) {
        self.put(&Row::Ended { result: result.clone() });
    }

    /// Adds a line to what the person is shown.
    pub(crate) fn tell(&mut self, message: &Message) {
        self.messages += 1;
        self.write(Buffer::Messages, self.messages, message);
    }

    /// What the person was shown, in its order. Blocks.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn messages(&self) -> Result<Vec<Message>, Fault> {
        let rows = self.store.rows(&self.session, Buffer::Messages)?;
        Ok(rows.iter().filter_map(|it| serde_json::from_str(&it.body).ok()).collect())
    }

    /// Waits until all of it is on the disk.
    ///
    /// # Errors
    /// When it can't be written: then the conversation must not go on as if it were.
    pub(crate) async fn written(&mut self) -> Result<(), Fault> {
        for write in std::mem::take(&mut self.unwritten) {
            write.await?;
        }
        Ok(())
    }

    fn put(&mut self, row: &Row) {
        self.rows += 1;
        self.write(Buffer::Context, self.rows, row);
    }

    fn write(&mut self, buffer: Buffer, number: u64, what: &impl Serialize) {
        // Strings, numbers and lists of them have no way to fail.
        let body = serde_json::to_string(what).unwrap_or_default();
        // Queued here and now: what comes before a call in this file comes before it in the journal.
        self.unwritten.push(Box::pin(self.store.add(&self.session, buffer, number, body)));
    }
}
