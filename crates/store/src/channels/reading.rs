//! Reading from a channel: its history, a queue's next message, and the subscriptions of readers.

use super::*;

/// Time after which a subscription that nobody reads from ends, in milliseconds.
const UNREAD: u64 = 24 * 60 * 60 * 1000;

const MESSAGE: &str = "SELECT id, channel, message, at_ms, sender, sender_session, content, metadata, reply_to FROM channel_messages";

impl Channels {
    /// Returns the newest messages of a channel, oldest first: at most the last [`HISTORY`]. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn history(&self, scope: &Scope, channel: &str, limit: usize) -> Result<Vec<ChannelMessage>, Fault> {
        let (scope, channel) = (scope.key(), channel.to_owned());
        let limit = limit.min(HISTORY);
        let mut found = self.store.read(move |database| {
            let sql = format!("{MESSAGE} WHERE scope = ?1 AND channel = ?2 ORDER BY id DESC LIMIT {limit}");
            database
                .prepare_cached(&sql)?
                .query_map([&scope, &channel], message)?
                .collect::<rusqlite::Result<Vec<_>>>()
        })?;
        found.reverse();
        Ok(found)
    }

    /// Returns the messages of a channel whose row number is above `after`, oldest first. For a watcher that keeps its own
    /// number, such as a trigger. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn after(&self, scope: &Scope, channel: &str, after: u64) -> Result<Vec<ChannelMessage>, Fault> {
        let (scope, channel) = (scope.key(), channel.to_owned());
        self.store.read(move |database| {
            let sql = format!(
                "{MESSAGE} WHERE scope = ?1 AND channel = ?2 AND id > ?3 ORDER BY id LIMIT {HISTORY}"
            );
            database
                .prepare_cached(&sql)?
                .query_map(params![scope, channel, after.cast_signed()], message)?
                .collect()
        })
    }

    /// Takes the oldest message of a queue that nobody has received. No other receiver gets it.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn receive(
        &self,
        scope: &Scope,
        channel: &str,
        receiver: &str,
    ) -> impl Future<Output = Result<Option<ChannelMessage>, Fault>> + Send + use<> {
        let (scope, channel, receiver) = (scope.key(), channel.to_owned(), receiver.to_owned());
        self.store.ask(move |database| {
            let sql = format!(
                "{MESSAGE} WHERE scope = ?1 AND channel = ?2 AND taken_by IS NULL ORDER BY id LIMIT 1"
            );
            let found = database.prepare_cached(&sql)?.query_row([&scope, &channel], message).optional()?;
            if let Some(found) = &found {
                database
                    .prepare_cached("UPDATE channel_messages SET taken_by = ?2 WHERE id = ?1")?
                    .execute(params![found.id.cast_signed(), receiver])?;
            }
            Ok(found)
        })
    }

    /// Subscribes a reader to a broadcast: it gets what is sent from now on. A reader that is subscribed stays where it is.
    /// Returns whether it is new.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn subscribe(
        &self,
        scope: &Scope,
        channel: &str,
        reader: &str,
    ) -> impl Future<Output = Result<bool, Fault>> + Send + use<> {
        let (scope, channel, reader) = (scope.key(), channel.to_owned(), reader.to_owned());
        self.store.ask(move |database| {
            let now = now_ms();
            database
                .prepare_cached("DELETE FROM channel_readers WHERE seen_ms < ?1")?
                .execute([now.saturating_sub(UNREAD).cast_signed()])?;
            let added = database
                .prepare_cached(
                    "INSERT OR IGNORE INTO channel_readers (scope, channel, reader, after, seen_ms) VALUES (?1, ?2, ?3,
                       coalesce((SELECT max(id) FROM channel_messages WHERE scope = ?1 AND channel = ?2), 0), ?4)",
                )?
                .execute(params![scope, channel, reader, now.cast_signed()])?;
            Ok(added > 0)
        })
    }

    /// Takes the next message for a subscribed reader, but for those of the sender of this display name, its own.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn next(
        &self,
        scope: &Scope,
        channel: &str,
        reader: &str,
    ) -> impl Future<Output = Result<Option<ChannelMessage>, Fault>> + Send + use<> {
        let (scope, channel, reader) = (scope.key(), channel.to_owned(), reader.to_owned());
        self.store.ask(move |database| {
            let after: Option<i64> = database
                .prepare_cached(
                    "SELECT after FROM channel_readers WHERE scope = ?1 AND channel = ?2 AND reader = ?3",
                )?
                .query_row([&scope, &channel, &reader], |row| row.get(0))
                .optional()?;
            let Some(after) = after else { return Ok(None) };
            let sql = format!(
                "{MESSAGE} WHERE scope = ?1 AND channel = ?2 AND id > ?3 AND sender <> ?4 ORDER BY id LIMIT 1"
            );
            let found = database
                .prepare_cached(&sql)?
                .query_row(params![scope, channel, after, reader], message)
                .optional()?;
            if let Some(found) = &found {
                database
                    .prepare_cached(
                        "UPDATE channel_readers SET after = ?4, seen_ms = ?5
                         WHERE scope = ?1 AND channel = ?2 AND reader = ?3",
                    )?
                    .execute(params![
                        scope,
                        channel,
                        reader,
                        found.id.cast_signed(),
                        now_ms().cast_signed()
                    ])?;
            }
            Ok(found)
        })
    }

    /// Ends the subscription of a reader.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn unsubscribe(
        &self,
        scope: &Scope,
        channel: &str,
        reader: &str,
    ) -> impl Future<Output = Result<(), Fault>> + Send + use<> {
        let (scope, channel, reader) = (scope.key(), channel.to_owned(), reader.to_owned());
        self.store.ask(move |database| {
            database
                .prepare_cached(
                    "DELETE FROM channel_readers WHERE scope = ?1 AND channel = ?2 AND reader = ?3",
                )?
                .execute([&scope, &channel, &reader])?;
            Ok(())
        })
    }
}

fn message(row: &Row<'_>) -> rusqlite::Result<ChannelMessage> {
    let json = |text: String| serde_json::from_str(&text).unwrap_or(Value::Null);
    Ok(ChannelMessage {
        id: row.get::<_, i64>(0)?.cast_unsigned(),
        channel: row.get(1)?,
        message_id: row.get(2)?,
        at_ms: row.get::<_, i64>(3)?.cast_unsigned(),
        sender: row.get(4)?,
        sender_id: row.get(5)?,
        content: json(row.get(6)?),
        metadata: json(row.get(7)?),
        reply_to: row.get(8)?,
    })
}
