//! Messages between agents: channels, direct messages, and who can be reached.

use serde::Deserialize;
use serde_json::Value;

use super::Soon;
use crate::{Fault, Kind};

/// The channels of a session and of its group, and the agents it can send to.
pub trait Messages: Send + Sync {
    /// Returns the session's own identity among others. Blocks.
    ///
    /// # Errors
    /// When the store can't be read, or nothing can be sent here.
    fn own(&self) -> Result<OwnIdentity, Fault>;

    /// Returns the agents that a direct message may name: the other members of the group, the agent that started this one,
    /// and running agents that this one started. Blocks.
    ///
    /// # Errors
    /// Those of [`own`](Self::own).
    fn others(&self) -> Result<Vec<OtherAgent>, Fault>;

    /// Returns the shared channels and then the private ones, each by name. Blocks.
    ///
    /// # Errors
    /// Those of [`own`](Self::own).
    fn channels(&self) -> Result<Vec<ChannelInfo>, Fault>;

    /// Sends to a channel: a shared one of that name goes before a private one. It is on the disk when this resolves.
    ///
    /// # Errors
    /// When the store can't be written, or the message is too long.
    fn send(&self, message: Outgoing) -> Soon<'_, Result<Result<Delivery, Undelivered>, Fault>>;

    /// Sends to one agent. It is on the disk when this resolves. Returns the message id.
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    fn send_direct(
        &self,
        to: OtherAgent,
        text: String,
    ) -> Soon<'_, Result<Result<String, Undelivered>, Fault>>;

    /// Answers a tool file about channels and about the shared state of the group.
    ///
    /// # Errors
    /// Those of [`send`](Self::send), and when there is no such channel.
    fn request(&self, request: ChannelRequest) -> Soon<'_, Result<Value, Fault>>;
}

/// The identity of a session among others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnIdentity {
    /// Its id.
    pub id: String,
    /// Its display name.
    pub name: String,
    /// The group's environment, where it is in a group.
    pub environment: Option<String>,
    /// Whether it may send to any member and change the group.
    pub privileged: bool,
}

/// An agent that can be sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherAgent {
    /// The session.
    pub session: String,
    /// Its id.
    pub id: String,
    /// Its display name.
    pub name: String,
    /// Its relation to the sender.
    pub kin: Kin,
    /// Whether it may be sent to by any member.
    pub privileged: bool,
    /// Whether it takes messages now.
    pub running: bool,
}

/// The relation of another agent to the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kin {
    /// A member of the same group.
    Member,
    /// The agent that started the sender.
    Parent,
    /// An agent that the sender started.
    Child,
}

/// A channel, as a sender sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelInfo {
    /// Its name.
    pub name: String,
    /// `queue` or `broadcast`.
    pub kind: &'static str,
    /// Its purpose.
    pub description: String,
    /// Whether it is the group's.
    pub shared: bool,
    /// Whether the session may send to it.
    pub may_send: bool,
}

/// A message to a channel.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outgoing {
    /// The channel.
    pub channel: String,
    /// A text, an object, or a list of objects.
    pub content: Value,
    /// Data of the sender.
    pub metadata: Value,
    /// The id of the message that it answers.
    pub reply_to: Option<String>,
    /// Whether only a channel of the group is meant.
    pub shared_only: bool,
}

/// A message that was delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its id.
    pub message_id: String,
}

/// The reason why a message was not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undelivered {
    /// There is no such channel or agent, or no longer.
    Unknown,
    /// The session has no edge to the channel.
    NotWired,
    /// The agent does not run.
    Stopped,
    /// The queue, or the inbox of this recipient, is full.
    Full(String),
}

/// A tool file's request about channels, or about the group's shared state.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum ChannelRequest {
    /// All channels: a list of objects.
    List {
        /// Whether those of the group are meant.
        shared: bool,
    },
    /// Creates a channel, unless there is one. Returns it.
    Create {
        /// Whether it is the group's.
        shared: bool,
        /// Its name.
        name: String,
        /// `queue` or `broadcast`.
        kind: String,
        /// Maximum number of waiting messages; 0 means unlimited.
        #[serde(default)]
        capacity: u64,
        /// Its purpose.
        #[serde(default)]
        description: String,
    },
    /// Removes a channel. Returns whether there was one.
    Remove {
        /// Whether it is the group's.
        shared: bool,
        /// Its name.
        name: String,
    },
    /// Sends a message. Returns its id, or null if the queue is full.
    Send {
        /// Whether the channel is the group's.
        shared: bool,
        /// The channel.
        name: String,
        /// The display name of the sender.
        #[serde(default)]
        sender: Option<String>,
        /// A text, an object, or a list of objects.
        content: Value,
        /// Data of the sender.
        #[serde(default)]
        metadata: Value,
        /// The id of the message that it answers.
        #[serde(default)]
        reply_to: Option<String>,
    },
    /// The newest messages.
    History {
        /// Whether the channel is the group's.
        shared: bool,
        /// The channel.
        name: String,
    },
    /// Takes the next message of a queue, or of a reader's subscription; null if there is none.
    Receive {
        /// Whether the channel is the group's.
        shared: bool,
        /// The channel.
        name: String,
        /// The subscribed reader.
        #[serde(default)]
        reader: Option<String>,
    },
    /// Subscribes a reader to a broadcast, or ends its subscription.
    Subscribe {
        /// Whether the channel is the group's.
        shared: bool,
        /// The channel.
        name: String,
        /// The reader.
        reader: String,
        /// Whether the subscription ends.
        #[serde(default)]
        end: bool,
    },
    /// The value of a key of the group's shared state, or null.
    Get {
        /// The key.
        key: String,
    },
    /// Sets a key of the group's shared state.
    Register {
        /// The key.
        key: String,
        /// The value.
        value: Value,
    },
    /// The id of the environment.
    Environment,
}

/// A session that can't send.
pub struct NoMessages;

fn none<T>() -> Result<T, Fault> {
    Err(Fault::new(Kind::Unavailable, "no messages can be sent here"))
}

impl Messages for NoMessages {
    fn own(&self) -> Result<OwnIdentity, Fault> {
        none()
    }

    fn others(&self) -> Result<Vec<OtherAgent>, Fault> {
        none()
    }

    fn channels(&self) -> Result<Vec<ChannelInfo>, Fault> {
        none()
    }

    fn send(&self, _: Outgoing) -> Soon<'_, Result<Result<Delivery, Undelivered>, Fault>> {
        Box::pin(std::future::ready(none()))
    }

    fn send_direct(&self, _: OtherAgent, _: String) -> Soon<'_, Result<Result<String, Undelivered>, Fault>> {
        Box::pin(std::future::ready(none()))
    }

    fn request(&self, _: ChannelRequest) -> Soon<'_, Result<Value, Fault>> {
        Box::pin(std::future::ready(none()))
    }
}
