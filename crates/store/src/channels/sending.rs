//! Sending to a channel: one transaction for the message and its copies in the inboxes of the listeners.

use super::*;
use crate::{
    inbox::{self, LONGEST_MESSAGE, NewMessage, Refused, Source, message_id},
    masking::mask,
    triggers,
};
use kit::Kind;

/// One message in so many removes what is too old, in its channel and in the inboxes that it reaches.
const SWEEP: i64 = 64;

/// A message to send.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPost {
    /// The scope of the channel.
    pub scope: Scope,
    /// The channel.
    pub channel: String,
    /// The display name of the sender.
    pub sender: String,
    /// The sender's session; it does not get its own message.
    pub sender_session: Option<String>,
    /// A text, an object, or a list of objects.
    pub content: Value,
    /// Data of the sender.
    pub metadata: Value,
    /// The id of the message that it answers.
    pub reply_to: Option<String>,
    /// The idempotency key; the new message id, where there is none.
    pub key: Option<String>,
    /// Whether the sender needs an edge to the channel.
    pub needs_edge: bool,
}

/// A message that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Its id.
    pub message_id: String,
    /// The sessions whose inboxes have it.
    pub recipients: Vec<String>,
    /// Whether it is new; false, if there was a message of that key.
    pub is_new: bool,
}

/// The reason why a message was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotSent {
    /// There is no such channel.
    Unknown,
    /// The sender has no edge to it.
    NotWired,
    /// The queue has as many messages as it may have.
    QueueFull,
    /// The inbox of this listener is full.
    InboxFull(String),
}

impl Channels {
    /// Sends a message. It is queued at once, also if the future is dropped; the result comes after the commit.
    ///
    /// # Errors
    /// [`Kind::TooBig`] for more than [`LONGEST_MESSAGE`] bytes, and when the database can't be written.
    pub fn send(
        &self,
        post: NewPost,
    ) -> impl Future<Output = Result<Result<Sent, NotSent>, Fault>> + Send + use<> {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let secrets = self.store.stamp().secrets;
        let queued = ready(post, &secrets).and_then(|post| {
            let folder = self.store.folder().to_owned();
            let signal = signal_of(&post.scope.key(), &post.channel);
            self.store.then(
                move |database| whole(database, |database| send(database, &post)),
                move |result| {
                    if let Ok(Ok(sent)) = &result {
                        signals::fire(&folder, &signal);
                        sent.recipients.iter().for_each(|it| inbox::fire(&folder, it));
                    }
                    // A caller that no longer waits has dropped its receiver.
                    drop(reply.send(result));
                },
            )
        });
        async move {
            queued?;
            answer.await.map_err(|_| Fault::from(crate::queue::gone()))?
        }
    }
}

/// Masks secrets and checks the length.
fn ready(mut post: NewPost, secrets: &kit::redact::Secrets) -> Result<NewPost, Fault> {
    mask(&mut post.content, secrets, &[]);
    mask(&mut post.metadata, secrets, &[]);
    let bytes = post.content.to_string().len() + post.metadata.to_string().len();
    if bytes > LONGEST_MESSAGE {
        let what = format!("the message has {bytes} bytes; at most {LONGEST_MESSAGE} are delivered");
        return Err(Fault::new(Kind::TooBig, what).next("Put it into a file and name the file."));
    }
    Ok(post)
}

fn send(database: &Connection, post: &NewPost) -> rusqlite::Result<Result<Sent, NotSent>> {
    let scope = post.scope.key();
    let Some((is_queue, capacity)) = kind_of(database, &scope, &post.channel)? else {
        return Ok(Err(NotSent::Unknown));
    };
    if let Some(key) = &post.key {
        let known: Option<String> = database
            .prepare_cached(
                "SELECT message FROM channel_messages WHERE scope = ?1 AND channel = ?2 AND key = ?3",
            )?
            .query_row([&scope, &post.channel, key], |row| row.get(0))
            .optional()?;
        if let Some(message_id) = known {
            return Ok(Ok(Sent { message_id, recipients: Vec::new(), is_new: false }));
        }
    }
    let own = post.sender_session.as_deref();
    if post.needs_edge && !has_edge(database, &scope, &post.channel, own)? {
        return Ok(Err(NotSent::NotWired));
    }
    if is_queue && capacity > 0 && waiting(database, &scope, &post.channel)? >= capacity {
        return Ok(Err(NotSent::QueueFull));
    }
    let message = message_id("msg");
    let number = add(database, &scope, post, &message)?;
    if number % SWEEP == 0 {
        forget_old(database, &scope, &post.channel, is_queue)?;
    }
    let watchers = triggers::watchers_of(
        database,
        &triggers::OnChannel {
            scope: &scope,
            channel: &post.channel,
            sender: &post.sender,
            sender_session: own,
            content: &post.content,
            metadata: &post.metadata,
            message: &message,
            reply_to: post.reply_to.as_deref(),
        },
    )?;
    let listeners = if is_queue { Vec::new() } else { listeners(database, &scope, &post.channel)? };
    // A trigger on the channel takes the place of the copy.
    let is_reached = |it: &String| Some(it.as_str()) != own && !watchers.contains(it);
    let mut recipients: Vec<String> = listeners.into_iter().filter(is_reached).collect();
    let copies = inbox::Copies { of: &copy(post, number, &message), sweeps: number % SWEEP == 0 };
    Ok(match copies.insert(database, &recipients)? {
        Ok(()) => {
            recipients.extend(watchers);
            Ok(Sent { message_id: message, recipients, is_new: true })
        }
        Err(Refused::Full(recipient)) => Err(NotSent::InboxFull(recipient)),
        Err(Refused::Unknown | Refused::Stopped) => Err(NotSent::Unknown),
    })
}

/// Returns whether this channel is a queue, and its capacity.
fn kind_of(database: &Connection, scope: &str, channel: &str) -> rusqlite::Result<Option<(bool, u64)>> {
    database
        .prepare_cached("SELECT kind = 'queue', capacity FROM channels WHERE scope = ?1 AND name = ?2")?
        .query_row([scope, channel], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned())))
        .optional()
}

fn has_edge(
    database: &Connection,
    scope: &str,
    channel: &str,
    session: Option<&str>,
) -> rusqlite::Result<bool> {
    let Some(session) = session else { return Ok(false) };
    database
        .prepare_cached(
            "SELECT 1 FROM channel_edges WHERE scope = ?1 AND channel = ?2 AND direction = ?3 AND session = ?4",
        )?
        .exists([scope, channel, Direction::Send.name(), session])
}

/// Returns how many messages of a queue nobody has received.
fn waiting(database: &Connection, scope: &str, channel: &str) -> rusqlite::Result<u64> {
    database
        .prepare_cached(
            "SELECT count(*) FROM channel_messages WHERE scope = ?1 AND channel = ?2 AND taken_by IS NULL",
        )?
        .query_row([scope, channel], |row| row.get::<_, i64>(0).map(i64::cast_unsigned))
}

fn listeners(database: &Connection, scope: &str, channel: &str) -> rusqlite::Result<Vec<String>> {
    database
        .prepare_cached(
            "SELECT session FROM channel_edges WHERE scope = ?1 AND channel = ?2 AND direction = ?3 ORDER BY session",
        )?
        .query_map([scope, channel, Direction::Listen.name()], |row| row.get(0))?
        .collect()
}

/// Adds the message to the channel. Returns the number of its row.
fn add(database: &Connection, scope: &str, post: &NewPost, message: &str) -> rusqlite::Result<i64> {
    database
        .prepare_cached(
            "INSERT INTO channel_messages (scope, channel, message, key, at_ms, sender, sender_session, content, metadata, reply_to)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .insert(params![
            scope,
            post.channel,
            message,
            post.key.as_deref().unwrap_or(message),
            now_ms().cast_signed(),
            post.sender,
            post.sender_session,
            post.content.to_string(),
            post.metadata.to_string(),
            post.reply_to,
        ])
}

/// Returns the copy of a message for the inboxes, without its recipient.
fn copy(post: &NewPost, number: i64, message: &str) -> NewMessage {
    let text = match &post.content {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let is_empty = match &post.metadata {
        Value::Null => true,
        Value::Object(all) => all.is_empty(),
        _ => false,
    };
    NewMessage {
        sender_session: post.sender_session.clone(),
        channel: Some(post.channel.clone()),
        message: Some(message.to_owned()),
        reply_to: post.reply_to.clone(),
        metadata: (!is_empty).then(|| post.metadata.clone()),
        // In the order of sending, so that the index of keys grows at its end.
        key: Some(format!("channel {number:012}")),
        ..NewMessage::new("", Source::Channel, &post.sender, text)
    }
}

/// Removes what is older than the history, but what a queue or a reader still has to give.
fn forget_old(database: &Connection, scope: &str, channel: &str, is_queue: bool) -> rusqlite::Result<()> {
    database
        .prepare_cached(
            "DELETE FROM channel_messages WHERE scope = ?1 AND channel = ?2 AND (NOT ?4 OR taken_by IS NOT NULL) AND id < min(
               coalesce((SELECT id FROM channel_messages WHERE scope = ?1 AND channel = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3), 0),
               coalesce((SELECT min(after) + 1 FROM channel_readers WHERE scope = ?1 AND channel = ?2), 9223372036854775807))",
        )?
        .execute(params![scope, channel, HISTORY as i64 - 1, is_queue])?;
    Ok(())
}
