//! The transcript of a session: what was said, for the person and for the model, durable across processes.
//!
//! A call is written down before it begins, and its result when it is there, so a conversation whose process dies in the
//! middle of an answer goes on with exactly the calls that were made. What the model is sent follows from the rows
//! alone: a row changes what is in memory in the same way when it is written and when it is read again.

mod conversation;
mod fork;
mod history;
mod reading;
mod recovery;
mod rewind;
mod row;
mod writing;

use kit::Fault;
use runtime::Session;
use serde::Serialize;
use serde_json::Value;
use store::{Buffer, SessionLease, Transcripts};

use crate::model::{Item, Piece, ResultOf, Said};
use conversation::Conversation;
pub use fork::{Fork, fork};
pub use history::{Told, history};
pub use reading::{Line, ToolCall, calls, lines};
#[cfg(test)]
pub(crate) use recovery::is_whole;
pub use row::Message;
use row::{Begins, Mark, Row};
use writing::Writing;

/// The two buffers of one session, which nobody else goes on with meanwhile.
pub struct Transcript {
    store: Transcripts,
    session: String,
    conversation: Conversation,
    rows: u64,
    messages: u64,
    writing: Writing,
    _held: SessionLease,
}

impl Transcript {
    /// What this session said until now. What was cut short is mended: every call has a result then. Blocks.
    ///
    /// # Errors
    /// When another process goes on with this session, it was deleted, it can't be read, or was written by a newer haft.
    pub fn open(session: &Session) -> Result<Self, Fault> {
        let store = session.runtime().store().transcripts();
        let name = session.name().to_owned();
        let held = store.hold(&name)?;
        // Under the lock: nobody deletes it from now on.
        if session.runtime().store().conversations().is_deleted(&name)? {
            return Err(Fault::not_found(format!("the session `{name}` was deleted"))
                .next("Choose another name for a new conversation."));
        }
        let rows = store.rows(&name, Buffer::Context)?;
        let messages = store.rows(&name, Buffer::Messages)?.last().map_or(0, |it| it.number);
        let mut transcript = Self {
            writing: Writing::new(store.clone(), &name),
            store,
            session: name,
            conversation: Conversation::default(),
            rows: rows.last().map_or(0, |it| it.number),
            messages,
            _held: held,
        };
        transcript.conversation = Conversation::read(rows).map_err(|fault| Fault {
            what: format!("session {}: {}", transcript.session, fault.what),
            ..fault
        })?;
        transcript.mend(session)?;
        transcript.tell_of_lost_jobs();
        Ok(transcript)
    }

    /// What the model is sent.
    pub fn items(&self) -> &[Item] {
        &self.conversation.items
    }

    /// How many answers of a model there were, also those that were summed up since.
    pub fn steps(&self) -> usize {
        self.conversation.steps
    }

    /// How many messages there were, also those that were taken back since. It grows with each.
    pub fn message_count(&self) -> u64 {
        self.messages
    }

    /// What the person was shown, in its order. Blocks.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn messages(&self) -> Result<Vec<Message>, Fault> {
        let rows = self.store.rows(&self.session, Buffer::Messages)?;
        Ok(reading::standing(&rows).into_iter().map(|it| it.message).collect())
    }

    /// Closes what an answer that was broken off has left open: every call has a result then.
    ///
    /// # Errors
    /// When the journal can't be read.
    pub(crate) fn mend(&mut self, session: &Session) -> Result<(), Fault> {
        if let Some((said, results)) = self.conversation.open.close(session)? {
            if let Some(said) = said {
                self.add(Item::Model { said });
            }
            self.add(Item::Results { results });
        }
        if let Some(items) = recovery::made_whole(self.items()) {
            let count = self.items().len();
            self.replace(0, count, items);
        }
        Ok(())
    }

    /// Adds a piece to what the model is sent.
    pub(crate) fn add(&mut self, item: Item) {
        self.put(Row::Item { item, turn: None });
    }

    /// Begins a turn of the person: what they are shown, and what the model is sent, of which the first `news` pieces are
    /// not the person's.
    pub(crate) fn begin_turn(&mut self, message: &Message, news: usize, pieces: Vec<Piece>) {
        self.tell(message);
        let turn = Some(Begins { news, message: self.messages });
        self.put(Row::Item { item: Item::Person { pieces }, turn });
    }

    /// A call is about to begin at this place of an answer, which says this before it.
    pub(crate) fn begin(&mut self, before: Vec<(usize, Said)>, place: usize, call: Said, journal: &str) {
        self.put(Row::Began { before, place, call, journal: journal.to_owned() });
    }

    /// A call of the answer that is being given is over.
    pub(crate) fn end(&mut self, result: &ResultOf) {
        self.put(Row::Ended { result: result.clone() });
    }

    /// Tells the model this when the person speaks next.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.put(Row::Note { text: text.into() });
    }

    /// Shows the model this when the person speaks next.
    pub(crate) fn show(&mut self, pieces: Vec<Piece>) {
        self.put(Row::Shown { pieces });
    }

    /// What the model is to be told before what the person says now. It was told once a person's piece is added.
    pub(crate) fn notes(&self) -> Vec<Piece> {
        self.conversation.notes.clone()
    }

    /// Puts `items` in the place of `count` others.
    pub(crate) fn replace(&mut self, from: usize, count: usize, items: Vec<Item>) {
        self.put(Row::Instead { from, count, items });
    }

    /// Had a call this id?
    pub(crate) fn has_id(&self, id: &str) -> bool {
        self.conversation.ids.contains(id)
    }

    /// Adds a line to what the person is shown.
    pub(crate) fn tell(&mut self, message: &Message) {
        self.messages += 1;
        self.writing.add(Buffer::Messages, self.messages, body(message));
    }

    /// Waits until all of it is on the disk. May be dropped and asked again.
    ///
    /// # Errors
    /// When it can't be written: then the conversation must not go on as if it were.
    pub(crate) async fn written(&mut self) -> Result<(), Fault> {
        self.writing.done().await
    }

    fn put(&mut self, row: Row) {
        self.rows += 1;
        self.writing.add(Buffer::Context, self.rows, body(&row));
        self.conversation.apply(row);
    }

    /// Jobs end with their process, and their numbers are given again.
    fn tell_of_lost_jobs(&mut self) {
        let items = self.items();
        let since = items.iter().rposition(
            |it| matches!(it, Item::Person { pieces } if pieces.iter().any(|it| it.line() == JOBS_LOST)),
        );
        let newer = items.get(since.map_or(0, |at| at + 1)..).unwrap_or_default();
        let names_jobs = newer.iter().any(|it| {
            let Item::Results { results } = it else { return false };
            results.iter().flat_map(|it| &it.pieces).any(|it| it.line().contains("job_"))
        });
        if names_jobs && !self.conversation.notes.iter().any(|it| it.line() == JOBS_LOST) {
            self.note(JOBS_LOST);
        }
    }
}

const JOBS_LOST: &str =
    "haft was started again since: jobs that were begun before are gone, and what they ran has ended.";

fn body(what: &impl Serialize) -> Value {
    // Strings, numbers and lists of them have no way to fail.
    serde_json::to_value(what).unwrap_or_default()
}

/// What a model would be sent of these rows.
#[cfg(test)]
pub(crate) fn items_of(rows: Vec<store::Row>) -> Result<Vec<Item>, Fault> {
    Ok(Conversation::read(rows)?.items)
}
