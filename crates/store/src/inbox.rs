//! Inboxes of sessions: durable messages of people, triggers, channels and other agents, each shown exactly once.
//!
//! A message is on the disk before its sender is answered. A session shows it in a row of its transcript; that row and the
//! change of the message's state are one transaction ([`Transcripts::add_rows`](crate::Transcripts::add_rows)), so a message is
//! shown once, whenever a process dies.

mod row;
#[cfg(test)]
mod tests;

use std::future::Future;

use kit::{Fault, Kind, redact::Secrets};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::{Store, masking::mask, now_ms, savepoint::whole, signals};
pub use row::{Arrival, ArrivalState, NewMessage, Posted, Source};

/// Maximum length of a message's text, in bytes.
pub const LONGEST_MESSAGE: usize = 1 << 20;

/// Maximum number of messages that wait in one inbox, and of their bytes. More are refused, so none is lost.
pub const MOST_QUEUED: u64 = 10_000;
const MOST_BYTES: u64 = 64 << 20;

/// Number of shown messages that an inbox keeps, for its history and their keys.
const KEPT: i64 = 5_000;

/// The inboxes of one workspace's sessions.
#[derive(Clone)]
pub struct Inbox {
    store: Store,
}

/// The reason why a message was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// No session of this name is a member of a group or a running agent.
    Unknown,
    /// The recipient is there and does not run.
    Stopped,
    /// The inbox of this session is full.
    Full(String),
}

/// A claim on messages, made in the transaction of a transcript row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Claim {
    /// None.
    #[default]
    None,
    /// The row shows these messages.
    Show(Vec<u64>),
    /// The row is the answer to these messages, with the journal ids of its calls.
    Act {
        /// The messages.
        messages: Vec<u64>,
        /// The calls.
        calls: Vec<String>,
    },
}

impl Store {
    /// Returns the inboxes of this workspace's sessions.
    pub fn inbox(&self) -> Inbox {
        Inbox { store: self.clone() }
    }
}

impl Inbox {
    /// Adds a message to an inbox. It is queued at once, also if the future is dropped; the result comes after the commit. A
    /// message whose key the recipient has already got changes nothing and returns the first one's id.
    ///
    /// # Errors
    /// [`Kind::TooBig`] for a text of more than [`LONGEST_MESSAGE`] bytes, [`Kind::Unavailable`] when the inbox is full or the
    /// database can't be written.
    pub fn post(&self, message: NewMessage) -> impl Future<Output = Result<Posted, Fault>> + Send + use<> {
        let posted = self.post_all(vec![message]);
        async move {
            let posted = posted.await?.pop();
            posted.ok_or_else(|| Fault::bug("a posted message has no id"))
        }
    }

    /// Adds messages to inboxes, all or none, in one transaction.
    ///
    /// # Errors
    /// Those of [`post`](Self::post).
    pub fn post_all(
        &self,
        messages: Vec<NewMessage>,
    ) -> impl Future<Output = Result<Vec<Posted>, Fault>> + Send + use<> {
        let done = self.queue(messages, false);
        async move { done.await?.map_err(|refused| fault_of(&refused)) }
    }

    /// Adds a message for a member of a group, or for a running agent that another one started: only if it runs now. The check
    /// and the message are one transaction.
    ///
    /// # Errors
    /// Those of [`post`](Self::post), but for a full inbox, which is a refusal.
    pub fn post_to_member(
        &self,
        message: NewMessage,
    ) -> impl Future<Output = Result<Result<Posted, Refused>, Fault>> + Send + use<> {
        let done = self.queue(vec![message], true);
        async move {
            Ok(match done.await? {
                Ok(mut posted) => Ok(posted.pop().ok_or_else(|| Fault::bug("a posted message has no id"))?),
                Err(refused) => Err(refused),
            })
        }
    }

    fn queue(
        &self,
        messages: Vec<NewMessage>,
        members: bool,
    ) -> impl Future<Output = Result<Result<Vec<Posted>, Refused>, Fault>> + Send + use<> {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let queued = prepared(messages, &self.store.stamp().secrets).and_then(|messages| {
            let folder = self.store.folder().to_owned();
            let recipients: Vec<String> = messages.iter().map(|it| it.recipient.clone()).collect();
            let work = move |database: &Connection| {
                if members && let Some(refused) = not_running(database, &messages)? {
                    return Ok(Err(refused));
                }
                whole(database, |database| insert_all(database, &messages))
            };
            self.store.then(work, move |result| {
                if matches!(&result, Ok(Ok(_))) {
                    recipients.iter().for_each(|it| signals::fire(&folder, &signal_of(it)));
                }
                // A caller that no longer waits has dropped its receiver.
                drop(reply.send(result));
            })
        });
        async move {
            queued?;
            answer.await.map_err(|_| Fault::from(super::queue::gone()))?
        }
    }

    /// Returns the messages that wait to be shown, oldest first. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn queued(&self, recipient: &str) -> Result<Vec<Arrival>, Fault> {
        let recipient = recipient.to_owned();
        self.store.read(move |database| {
            row::select(database, "recipient = ?1 AND state = 'queued' ORDER BY id", &recipient)
        })
    }

    /// Removes a message that waits, as its recipient learned of it in another way. One that was shown stays.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn retract(&self, recipient: &str, key: &str) -> Result<(), Fault> {
        let (recipient, key) = (recipient.to_owned(), key.to_owned());
        self.store.later(move |database| {
            database
                .prepare_cached("DELETE FROM inbox WHERE key = ?1 AND recipient = ?2 AND state = 'queued'")?
                .execute([&key, &recipient])
                .map(drop)
        })
    }

    /// Returns whether a message waits that begins a turn by itself: any but the end of a job, which wakes its agent while the
    /// job's process lives, and otherwise waits for the next turn. Blocks, mostly for microseconds.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn has_queued(&self, recipient: &str) -> Result<bool, Fault> {
        let recipient = recipient.to_owned();
        self.store.read(move |database| has_queued(database, &recipient))
    }

    /// Returns the ids of the messages that were shown and that no answer has followed yet. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn unanswered(&self, recipient: &str) -> Result<Vec<u64>, Fault> {
        let recipient = recipient.to_owned();
        self.store.read(move |database| {
            database
                .prepare_cached("SELECT id FROM inbox WHERE recipient = ?1 AND state = 'shown' ORDER BY id")?
                .query_map([&recipient], |row| row.get::<_, i64>(0).map(i64::cast_unsigned))?
                .collect()
        })
    }

    /// Returns the newest messages of an inbox in all states, oldest first. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn list(&self, recipient: &str, limit: usize) -> Result<Vec<Arrival>, Fault> {
        let recipient = recipient.to_owned();
        let order = format!("recipient = ?1 ORDER BY id DESC LIMIT {limit}");
        let mut found = self.store.read(move |database| row::select(database, &order, &recipient))?;
        found.reverse();
        Ok(found)
    }

    /// Returns messages of an inbox with numbers above `after` in all states, oldest first: at most `limit`. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn after(&self, recipient: &str, after: u64, limit: usize) -> Result<Vec<Arrival>, Fault> {
        let recipient = recipient.to_owned();
        self.store.read(move |database| row::after(database, &recipient, after, limit))
    }

    /// Returns a counter that changes when a message for this session is committed in this process, or
    /// [`notify`](Self::notify) is called here.
    pub fn arrivals(&self, recipient: &str) -> watch::Receiver<u64> {
        signals::subscribe(self.store.folder(), &signal_of(recipient))
    }

    /// Returns the recipient of each message that is committed in this process from now on, and of each
    /// [`notify`](Self::notify) here: to wake another process.
    pub fn all_arrivals(&self) -> AllArrivals {
        AllArrivals(signals::listen(self.store.folder()))
    }

    /// Wakes whoever waits for messages of this session in this process: another process may have added one.
    pub fn notify(&self, recipient: &str) {
        signals::fire(self.store.folder(), &signal_of(recipient));
    }
}

/// The recipients of messages, as they are committed in this process.
pub struct AllArrivals(mpsc::UnboundedReceiver<String>);

impl AllArrivals {
    /// Waits for the next message, and returns the session that gets it.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            let signal = self.0.recv().await?;
            if let Some(recipient) = signal.strip_prefix(SIGNAL) {
                return Some(recipient.to_owned());
            }
        }
    }
}

/// The beginning of the name of an inbox's signal.
const SIGNAL: &str = "inbox ";

fn signal_of(recipient: &str) -> String {
    format!("{SIGNAL}{recipient}")
}

/// Wakes whoever waits for messages of this session, after a transaction of another module that added one.
pub(crate) fn fire(folder: &std::path::Path, recipient: &str) {
    signals::fire(folder, &signal_of(recipient));
}

/// Masks secrets, gives each message its ids, and checks its length.
pub(crate) fn prepared(messages: Vec<NewMessage>, secrets: &Secrets) -> Result<Vec<NewMessage>, Fault> {
    messages
        .into_iter()
        .map(|mut it| {
            if it.text.len() > LONGEST_MESSAGE {
                let what = format!(
                    "the message has {} bytes; at most {LONGEST_MESSAGE} are delivered",
                    it.text.len()
                );
                return Err(Fault::new(Kind::TooBig, what).next("Put it into a file and name the file."));
            }
            it.text = secrets.mask(&it.text).into_owned();
            if let Some(metadata) = &mut it.metadata {
                mask(metadata, secrets, &[]);
            }
            let id = it.message.get_or_insert_with(|| message_id("msg")).clone();
            it.key.get_or_insert(id);
            Ok(it)
        })
        .collect()
}

/// Creates a unique message id, such as `msg_0f1e2d3c4b5a`.
pub fn message_id(prefix: &str) -> String {
    let random = getrandom::u64().unwrap_or_else(|_| now_ms() ^ (u64::from(std::process::id()) << 24));
    format!("{prefix}_{:012x}", random & 0xffff_ffff_ffff)
}

/// Adds [prepared] messages, within a transaction of the writer. Whoever calls it [fires](fire) after the commit.
pub(crate) fn insert_all(
    database: &Connection,
    messages: &[NewMessage],
) -> rusqlite::Result<Result<Vec<Posted>, Refused>> {
    let mut posted = Vec::with_capacity(messages.len());
    for message in messages {
        match insert(database, message)? {
            Ok(it) => posted.push(it),
            Err(refused) => {
                // Nothing of a refused call stays: see `whole`.
                return Ok(Err(refused));
            }
        }
    }
    Ok(Ok(posted))
}

/// A [prepared] message for many inboxes at once, whose key is new.
pub(crate) struct Copies<'a> {
    /// The message; its recipient counts for nothing.
    pub(crate) of: &'a NewMessage,
    /// Whether shown messages beyond those that an inbox keeps are removed.
    pub(crate) sweeps: bool,
}

impl Copies<'_> {
    /// Adds the message to these inboxes, within a transaction of the writer: one statement for all of them. Whoever calls it
    /// [fires](fire) after the commit.
    pub(crate) fn insert(
        &self,
        database: &Connection,
        recipients: &[String],
    ) -> rusqlite::Result<Result<(), Refused>> {
        if recipients.is_empty() {
            return Ok(Ok(()));
        }
        let all = Value::from(recipients.to_vec()).to_string();
        let full: Option<String> = database
            .prepare_cached(
                "SELECT recipient FROM inbox_waiting WHERE recipient IN (SELECT value FROM json_each(?1))
                   AND (messages >= ?2 OR bytes >= ?3) ORDER BY recipient LIMIT 1",
            )?
            .query_row(params![all, MOST_QUEUED.cast_signed(), MOST_BYTES.cast_signed()], |row| row.get(0))
            .optional()?;
        if let Some(full) = full {
            return Ok(Err(Refused::Full(full)));
        }
        row::add_copies(database, self.of, &all)?;
        if self.sweeps {
            recipients.iter().try_for_each(|it| forget_shown(database, it))?;
        }
        Ok(Ok(()))
    }
}

fn insert(database: &Connection, new: &NewMessage) -> rusqlite::Result<Result<Posted, Refused>> {
    let key = new.key.clone().unwrap_or_default();
    let known = database
        .prepare_cached("SELECT id, message FROM inbox WHERE recipient = ?1 AND key = ?2")?
        .query_row(params![new.recipient, key], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))
        .optional()?;
    if let Some((id, message)) = known {
        return Ok(Ok(Posted { id: id.cast_unsigned(), message, is_new: false }));
    }
    let (count, bytes): (i64, i64) = database
        .prepare_cached("SELECT messages, bytes FROM inbox_waiting WHERE recipient = ?1")?
        .query_row([&new.recipient], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?
        .unwrap_or_default();
    if count.cast_unsigned() >= MOST_QUEUED || bytes.cast_unsigned() >= MOST_BYTES {
        return Ok(Err(Refused::Full(new.recipient.clone())));
    }
    let id = row::add(database, new, &key)?;
    if id % 64 == 0 {
        forget_shown(database, &new.recipient)?;
    }
    let message = new.message.clone().unwrap_or_default();
    Ok(Ok(Posted { id: id.cast_unsigned(), message, is_new: true }))
}

/// Removes shown messages of an inbox beyond those that it keeps.
fn forget_shown(database: &Connection, recipient: &str) -> rusqlite::Result<()> {
    database
        .prepare_cached(
            "DELETE FROM inbox WHERE recipient = ?1 AND state <> 'queued' AND id < (
               SELECT id FROM inbox WHERE recipient = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        )?
        .execute(params![recipient, KEPT])
        .map(drop)
}

pub(crate) fn has_queued(database: &Connection, recipient: &str) -> rusqlite::Result<bool> {
    database
        .prepare_cached("SELECT 1 FROM inbox WHERE recipient = ?1 AND state = 'queued' AND source <> 'job'")?
        .exists([recipient])
}

/// Returns why the first of these recipients can't take a message now, if one can't.
fn not_running(database: &Connection, messages: &[NewMessage]) -> rusqlite::Result<Option<Refused>> {
    for message in messages {
        let runs: Option<bool> = database
            .prepare_cached("SELECT running FROM members WHERE session = ?1")?
            .query_row([&message.recipient], |row| row.get(0))
            .optional()?;
        match runs {
            Some(true) => {}
            Some(false) => return Ok(Some(Refused::Stopped)),
            None => return Ok(Some(Refused::Unknown)),
        }
    }
    Ok(None)
}

fn fault_of(refused: &Refused) -> Fault {
    match refused {
        Refused::Unknown => Fault::not_found("there is no such recipient"),
        Refused::Stopped => Fault::new(Kind::Unavailable, "the recipient does not run"),
        Refused::Full(recipient) => {
            let what = format!("the inbox of `{recipient}` is full: it has not read its messages");
            Fault::new(Kind::Unavailable, what).next("Send again once it has read them.")
        }
    }
}

/// Makes a claim within the transaction of the row `number` of the recipient's transcript. Returns whether each message that it
/// shows waited until now; otherwise the transaction must be undone.
pub(super) fn claim(
    database: &Connection,
    recipient: &str,
    number: u64,
    claim: &Claim,
) -> rusqlite::Result<bool> {
    let now = now_ms().cast_signed();
    match claim {
        Claim::None => Ok(true),
        Claim::Show(messages) => {
            let shown = database
                .prepare_cached(
                    "UPDATE inbox SET state = 'shown', shown_ms = ?3, shown_row = ?4
                     WHERE id IN (SELECT value FROM json_each(?1)) AND recipient = ?2 AND state = 'queued'",
                )?
                .execute(params![ids(messages), recipient, now, number.cast_signed()])?;
            Ok(shown == messages.len())
        }
        Claim::Act { messages, calls } => {
            database
                .prepare_cached(
                    "UPDATE inbox SET state = 'acted', acted_ms = ?3, calls = ?4
                     WHERE id IN (SELECT value FROM json_each(?1)) AND recipient = ?2 AND state = 'shown'",
                )?
                .execute(params![ids(messages), recipient, now, Value::from(calls.clone()).to_string()])?;
            Ok(true)
        }
    }
}

fn ids(messages: &[u64]) -> String {
    Value::from(messages.to_vec()).to_string()
}
