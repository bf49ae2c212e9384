//! Channels between sessions: named queues and broadcasts with a history, their edges, and the members of groups.
//!
//! A message on a channel and its copies in the inboxes of all listeners are one transaction. Nothing is delivered twice: a
//! message has an idempotency key on its channel, and a key in each inbox.

mod members;
mod reading;
mod sending;
#[cfg(test)]
mod tests;

use std::future::Future;

use kit::Fault;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use super::{Store, now_ms, savepoint::whole, signals};
pub use members::Member;
pub use sending::{NewPost, NotSent, Sent};

/// Number of messages that the history of a channel keeps.
pub const HISTORY: usize = 200;

/// The channels of one workspace, and the members of its groups.
#[derive(Clone)]
pub struct Channels {
    store: Store,
}

/// The owner of a set of channels: their names are unique in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The private channels of a session.
    Session(String),
    /// The shared channels of a group.
    Environment(String),
}

impl Scope {
    fn key(&self) -> String {
        match self {
            Self::Session(name) => format!("session {name}"),
            Self::Environment(id) => format!("environment {id}"),
        }
    }
}

/// The delivery of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelKind {
    /// Each message goes to one receiver.
    Queue,
    /// Each message goes to all subscribers but its sender.
    Broadcast,
}

impl ChannelKind {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Broadcast => "broadcast",
        }
    }
}

/// A channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// Its delivery.
    pub kind: ChannelKind,
    /// Its purpose.
    pub description: String,
    /// Maximum number of messages that wait in a queue; 0 means unlimited.
    pub capacity: u64,
    /// Number of messages in a queue that nobody has received yet.
    pub waiting: u64,
    /// Number of messages in its history.
    pub messages: u64,
}

/// The direction of an edge between a session and a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The session gets the channel's messages in its inbox.
    Listen,
    /// The session may send to it.
    Send,
}

impl Direction {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Listen => "listen",
            Self::Send => "send",
        }
    }
}

/// An edge between a session and a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Edge {
    /// The channel.
    pub channel: String,
    /// The session.
    pub session: String,
    /// The direction.
    pub direction: Direction,
}

/// A message on a channel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChannelMessage {
    /// The number of its row, in the order of sending.
    pub id: u64,
    /// The channel.
    pub channel: String,
    /// Its id: `msg_0f1e2d3c4b5a`.
    pub message_id: String,
    /// When it was sent, in milliseconds since 1970.
    pub at_ms: u64,
    /// The display name of the sender.
    pub sender: String,
    /// The sender's session, where it is one.
    pub sender_id: Option<String>,
    /// A text, an object, or a list of objects.
    pub content: Value,
    /// Data of the sender.
    pub metadata: Value,
    /// The id of the message that it answers.
    pub reply_to: Option<String>,
}

impl Store {
    /// Returns the channels of this workspace.
    pub fn channels(&self) -> Channels {
        Channels { store: self.clone() }
    }
}

impl Channels {
    /// Creates a channel, unless there is one of the name, which stays as it is. Channels of a group are broadcasts, whatever
    /// the kind. Returns whether it is new.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn create(
        &self,
        scope: &Scope,
        name: &str,
        kind: ChannelKind,
        capacity: u64,
        description: &str,
    ) -> impl Future<Output = Result<bool, Fault>> + Send + use<> {
        let kind = if matches!(scope, Scope::Environment(_)) { ChannelKind::Broadcast } else { kind };
        let (scope, name, description) = (scope.key(), name.to_owned(), description.to_owned());
        self.store.ask(move |database| {
            let added = database
                .prepare_cached(
                    "INSERT OR IGNORE INTO channels (scope, name, kind, description, capacity, created_ms)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![
                    scope,
                    name,
                    kind.name(),
                    description,
                    capacity.cast_signed(),
                    now_ms().cast_signed()
                ])?;
            Ok(added > 0)
        })
    }

    /// Removes a channel with its edges and its history. Messages that are in inboxes stay there. Returns whether there was one.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn remove(
        &self,
        scope: &Scope,
        name: &str,
    ) -> impl Future<Output = Result<bool, Fault>> + Send + use<> {
        let (scope, name) = (scope.key(), name.to_owned());
        self.store.ask(move |database| {
            let removed = database
                .prepare_cached("DELETE FROM channels WHERE scope = ?1 AND name = ?2")?
                .execute([&scope, &name])?;
            for table in ["channel_edges", "channel_messages", "channel_readers"] {
                let sql = format!("DELETE FROM {table} WHERE scope = ?1 AND channel = ?2");
                database.prepare_cached(&sql)?.execute([&scope, &name])?;
            }
            Ok(removed > 0)
        })
    }

    /// Returns the channels of this scope, by their names. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn list(&self, scope: &Scope) -> Result<Vec<Channel>, Fault> {
        let scope = scope.key();
        self.store.read(move |database| {
            let sql = format!("{CHANNEL} WHERE scope = ?1 ORDER BY name");
            database.prepare_cached(&sql)?.query_map([&scope], channel)?.collect()
        })
    }

    /// Returns a channel. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn get(&self, scope: &Scope, name: &str) -> Result<Option<Channel>, Fault> {
        let (scope, name) = (scope.key(), name.to_owned());
        self.store.read(move |database| get(database, &scope, &name))
    }

    /// Adds an edge. Returns whether it is new; false, too, where there is no such channel.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn wire(
        &self,
        scope: &Scope,
        channel: &str,
        session: &str,
        direction: Direction,
    ) -> impl Future<Output = Result<bool, Fault>> + Send + use<> {
        let (scope, channel, session) = (scope.key(), channel.to_owned(), session.to_owned());
        self.store.ask(move |database| {
            let added = database
                .prepare_cached(
                    "INSERT OR IGNORE INTO channel_edges (scope, channel, session, direction)
                     SELECT scope, name, ?3, ?4 FROM channels WHERE scope = ?1 AND name = ?2",
                )?
                .execute([&scope, &channel, &session, direction.name()])?;
            Ok(added > 0)
        })
    }

    /// Removes an edge. Returns whether there was one.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn unwire(
        &self,
        scope: &Scope,
        channel: &str,
        session: &str,
        direction: Direction,
    ) -> impl Future<Output = Result<bool, Fault>> + Send + use<> {
        let (scope, channel, session) = (scope.key(), channel.to_owned(), session.to_owned());
        self.store.ask(move |database| {
            let removed = database
                .prepare_cached(
                    "DELETE FROM channel_edges WHERE scope = ?1 AND channel = ?2 AND session = ?3 AND direction = ?4",
                )?
                .execute([&scope, &channel, &session, direction.name()])?;
            Ok(removed > 0)
        })
    }

    /// Returns the edges of this scope. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn edges(&self, scope: &Scope) -> Result<Vec<Edge>, Fault> {
        let scope = scope.key();
        self.store.read(move |database| {
            database
                .prepare_cached(
                    "SELECT channel, session, direction FROM channel_edges WHERE scope = ?1
                     ORDER BY channel, session, direction",
                )?
                .query_map([&scope], |row| {
                    let direction: String = row.get(2)?;
                    let direction = if direction == "listen" { Direction::Listen } else { Direction::Send };
                    Ok(Edge { channel: row.get(0)?, session: row.get(1)?, direction })
                })?
                .collect()
        })
    }

    /// Returns a counter that changes when a message on this channel is committed in this process.
    pub fn changes(&self, scope: &Scope, channel: &str) -> watch::Receiver<u64> {
        signals::subscribe(self.store.folder(), &signal_of(&scope.key(), channel))
    }
}

fn signal_of(scope: &str, channel: &str) -> String {
    format!("channel {scope} {channel}")
}

const CHANNEL: &str = "SELECT name, kind, description, capacity,
    (SELECT count(*) FROM channel_messages m WHERE m.scope = c.scope AND m.channel = c.name AND m.taken_by IS NULL),
    (SELECT count(*) FROM channel_messages m WHERE m.scope = c.scope AND m.channel = c.name)
  FROM channels c";

fn get(database: &Connection, scope: &str, name: &str) -> rusqlite::Result<Option<Channel>> {
    let sql = format!("{CHANNEL} WHERE scope = ?1 AND name = ?2");
    database.prepare_cached(&sql)?.query_row([scope, name], channel).optional()
}

fn channel(row: &Row<'_>) -> rusqlite::Result<Channel> {
    let kind: String = row.get(1)?;
    let kind = if kind == "queue" { ChannelKind::Queue } else { ChannelKind::Broadcast };
    let number = |at: usize| row.get::<_, i64>(at).map(i64::cast_unsigned);
    let waiting = if kind == ChannelKind::Queue { number(4)? } else { 0 };
    Ok(Channel {
        name: row.get(0)?,
        kind,
        description: row.get(2)?,
        capacity: number(3)?,
        waiting,
        messages: number(5)?.min(HISTORY as u64),
    })
}
