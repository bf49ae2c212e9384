//! The transcript of a session: the conversation, for the person and for the model, durable across processes.
//!
//! haft writes a call before it begins, and its result as soon as it has it. So a conversation whose process
//! dies in the middle of an answer resumes with exactly the calls that were made. The model's conversation
//! follows from the rows alone: a row has the same effect when it is written and when it is read again.

mod conversation;
mod fork;
mod history;
mod recovery;
mod replaced;
mod rewind;
mod row;
mod writing;

use kit::Fault;
use runtime::Session;
use serde::Serialize;
use serde_json::Value;
use store::{Buffer, Claim, SessionLease, Source, Transcripts};

use crate::model::{Item, MessagePart, Piece, ResultOf};
use conversation::Conversation;
pub use fork::{Fork, fork};
pub use history::{Entry, HistoryItem, Line, ToolCall, calls, history, lines};
#[cfg(test)]
pub(crate) use recovery::is_whole;
pub(crate) use replaced::replaced_since;
pub use rewind::rewound_after;
use row::{Begins, RewindMark, Row};
pub use row::{CUT_OFF, Message};
use writing::Writing;

/// The two buffers of one session, held under its lease.
pub struct Transcript {
    store: Transcripts,
    session: String,
    conversation: Conversation,
    rows: u64,
    messages: u64,
    writing: Writing,
    /// The messages of the inbox that were shown, and that no answer has followed yet.
    unanswered: Vec<u64>,
    /// The highest row number of a shown message of the inbox. Messages are shown in their order.
    shown: u64,
    _held: SessionLease,
}

impl Transcript {
    /// Opens the transcript of this session. Repairs an answer that broke off: every call has a result then.
    /// Blocks.
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
        if !rows.is_empty() {
            session.report_lost_jobs()?;
        }
        let messages = store.rows(&name, Buffer::Messages)?.last().map_or(0, |it| it.number);
        let unanswered = session.runtime().store().inbox().unanswered(&name)?;
        let mut transcript = Self {
            writing: Writing::new(store.clone(), &name),
            store,
            session: name,
            conversation: Conversation::default(),
            rows: rows.last().map_or(0, |it| it.number),
            messages,
            unanswered,
            shown: 0,
            _held: held,
        };
        transcript.conversation = Conversation::read(rows).map_err(|fault| Fault {
            what: format!("session {}: {}", transcript.session, fault.what),
            ..fault
        })?;
        transcript.mend(session)?;
        transcript.tell_of_lost_jobs(session)?;
        Ok(transcript)
    }

    /// Returns the conversation, as the model gets it.
    pub fn items(&self) -> &[Item] {
        &self.conversation.items
    }

    /// Returns the number of the model's answers, including those that were summarized.
    pub fn steps(&self) -> usize {
        self.conversation.steps
    }

    /// How many messages there were, also those that were taken back since. It grows with each.
    pub fn message_count(&self) -> u64 {
        self.messages
    }

    /// Returns the number of the newest row of the model's conversation.
    pub fn newest_row(&self) -> u64 {
        self.rows
    }

    /// Returns the messages as the person sees them, in order, without those taken back. Blocks.
    ///
    /// # Errors
    /// When they can't be read.
    pub fn messages(&self) -> Result<Vec<Message>, Fault> {
        let rows = self.store.rows(&self.session, Buffer::Messages)?;
        Ok(history::standing(&rows).into_iter().map(|it| it.message).collect())
    }

    /// Closes an answer that broke off: gives every call a result.
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

    /// Adds an item to the model's conversation.
    pub(crate) fn add(&mut self, item: Item) {
        self.put(Row::Item { item, turn: None });
    }

    /// Adds an item that shows these messages of the inbox: the row and the change of their state are one transaction.
    pub(crate) fn add_shown(&mut self, item: Item, messages: Vec<u64>) {
        self.put_shown(Row::Item { item, turn: None }, messages);
    }

    /// Returns the highest row number of a message of the inbox that this process has shown.
    pub(crate) fn shown(&self) -> u64 {
        self.shown
    }

    /// Begins a turn of the person with the message for them and the pieces for the model. The first `news`
    /// pieces are not the person's; they show these messages of the inbox.
    pub(crate) fn begin_turn(&mut self, message: &Message, news: usize, pieces: Vec<Piece>, shown: Vec<u64>) {
        self.tell(message);
        let turn = Some(Begins { news, message: self.messages });
        self.put_shown(Row::Item { item: Item::Person { pieces }, turn }, shown);
    }

    /// Records that the call at this place of an answer is about to begin, with the parts of the answer
    /// before it.
    pub(crate) fn begin(
        &mut self,
        before: Vec<(usize, MessagePart)>,
        place: usize,
        call: MessagePart,
        journal: &str,
    ) {
        self.put(Row::Began { before, place, call, journal: journal.to_owned() });
    }

    /// Records the result of a call of the unfinished answer.
    pub(crate) fn end(&mut self, result: &ResultOf) {
        self.put(Row::Ended { result: result.clone() });
    }

    /// Adds a note that the model gets with the person's next message.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.put(Row::Note { text: text.into() });
    }

    /// Adds pieces that the model gets with the person's next message.
    pub(crate) fn show(&mut self, pieces: Vec<Piece>) {
        self.put(Row::Shown { pieces });
    }

    /// Returns the notes for the model that precede the person's next message. Adding an item of the person
    /// clears them.
    pub(crate) fn notes(&self) -> Vec<Piece> {
        self.conversation.notes.clone()
    }

    /// Replaces `count` items from `from` on with `items`.
    pub(crate) fn replace(&mut self, from: usize, count: usize, items: Vec<Item>) {
        self.put(Row::Instead { from, count, items });
    }

    /// Returns whether a call had this id.
    pub(crate) fn has_id(&self, id: &str) -> bool {
        self.conversation.ids.contains(id)
    }

    /// Adds a line for the person.
    pub(crate) fn tell(&mut self, message: &Message) {
        self.messages += 1;
        self.writing.add(Buffer::Messages, self.messages, body(message), Claim::None);
    }

    /// Waits until all rows are on the disk. Can be dropped and called again.
    ///
    /// # Errors
    /// When a row can't be written: then the conversation must not continue as if it were.
    pub(crate) async fn written(&mut self) -> Result<(), Fault> {
        self.writing.done().await
    }

    fn put(&mut self, row: Row) {
        let claim = self.answered_by(&row);
        self.put_with(row, claim);
    }

    fn put_shown(&mut self, row: Row, messages: Vec<u64>) {
        if messages.is_empty() {
            return self.put(row);
        }
        self.shown = messages.iter().copied().fold(self.shown, u64::max);
        self.unanswered.extend(&messages);
        self.put_with(row, Claim::Show(messages));
    }

    fn put_with(&mut self, row: Row, claim: Claim) {
        self.rows += 1;
        self.writing.add(Buffer::Context, self.rows, body(&row), claim);
        self.conversation.apply(row);
    }

    /// Returns the claim of an answer of the model: the messages shown before are acted on, by its calls.
    fn answered_by(&mut self, row: &Row) -> Claim {
        let Row::Item { item: Item::Model { said }, .. } = row else { return Claim::None };
        if self.unanswered.is_empty() {
            return Claim::None;
        }
        let calls = said.iter().filter_map(|it| match it {
            MessagePart::Call { id, .. } => self.conversation.journal.get(id).cloned(),
            _ => None,
        });
        let calls = calls.collect();
        Claim::Act { messages: std::mem::take(&mut self.unanswered), calls }
    }

    /// Notes that the jobs of earlier processes are gone, unless messages in the inbox say what became of them.
    fn tell_of_lost_jobs(&mut self, session: &Session) -> Result<(), Fault> {
        let items = self.items();
        let is_told = |it: &Piece| it.line() == JOBS_LOST || is_of_a_job(it);
        let since =
            items.iter().rposition(|it| matches!(it, Item::Person { pieces } if pieces.iter().any(is_told)));
        let newer = items.get(since.map_or(0, |at| at + 1)..).unwrap_or_default();
        let names_jobs = newer.iter().any(|it| {
            let Item::Results { results } = it else { return false };
            results.iter().flat_map(|it| &it.pieces).any(|it| it.line().contains("job_"))
        });
        if names_jobs && !self.conversation.notes.iter().any(|it| it.line() == JOBS_LOST) {
            let queued = session.runtime().store().inbox().queued(&self.session)?;
            if !queued.iter().any(|it| it.source == Source::Job) {
                self.note(JOBS_LOST);
            }
        }
        Ok(())
    }
}

const JOBS_LOST: &str =
    "haft was started again since: jobs that were begun before are gone, and what they ran has ended.";

/// Returns whether a piece is the block of a message about a job.
fn is_of_a_job(piece: &Piece) -> bool {
    let Piece::Text { text } = piece else { return false };
    let head = text.lines().next().unwrap_or_default();
    head.starts_with("<message id=") && head.contains(" source=\"job\"")
}

fn body(what: &impl Serialize) -> Value {
    // Strings, numbers and lists of them can always be serialized.
    serde_json::to_value(what).unwrap_or_default()
}

/// Returns the conversation that follows from these rows.
#[cfg(test)]
pub(crate) fn items_of(rows: Vec<store::Row>) -> Result<Vec<Item>, Fault> {
    Ok(Conversation::read(rows)?.items)
}
