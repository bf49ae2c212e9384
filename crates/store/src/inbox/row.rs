//! The rows of an inbox.

use rusqlite::{Connection, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::now_ms;

/// The origin of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A person typed it at a terminal. The only source whose text counts as a person's word.
    Person,
    /// A job ended, or wrote what somebody waits for.
    Job,
    /// A trigger fired.
    Trigger,
    /// It was sent to a channel on which the recipient listens.
    Channel,
    /// It was sent to the recipient alone.
    Direct,
    /// The last text of another agent, by an output wire.
    Output,
    /// A program posted it over HTTP.
    Webhook,
}

impl Source {
    const ALL: [Self; 7] =
        [Self::Person, Self::Job, Self::Trigger, Self::Channel, Self::Direct, Self::Output, Self::Webhook];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Job => "job",
            Self::Trigger => "trigger",
            Self::Channel => "channel",
            Self::Direct => "direct",
            Self::Output => "output",
            Self::Webhook => "webhook",
        }
    }

    fn of(name: &str) -> rusqlite::Result<Self> {
        let found = Self::ALL.into_iter().find(|it| it.name() == name);
        found.ok_or_else(|| unknown(format!("no source is called `{name}`")))
    }
}

/// The state of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalState {
    /// It waits to be shown.
    Queued,
    /// A row of the transcript shows it.
    Shown,
    /// The model has answered since.
    Acted,
}

impl ArrivalState {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Shown => "shown",
            Self::Acted => "acted",
        }
    }

    fn of(name: &str) -> rusqlite::Result<Self> {
        let found = [Self::Queued, Self::Shown, Self::Acted].into_iter().find(|it| it.name() == name);
        found.ok_or_else(|| unknown(format!("no state is called `{name}`")))
    }
}

fn unknown(what: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, what.into())
}

/// A message to post. [`NewMessage::new`] leaves out what most have not.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    /// The name of the session that gets it.
    pub recipient: String,
    /// Its origin.
    pub source: Source,
    /// The display name of the sender.
    pub sender: String,
    /// The sender's session, where it is one.
    pub sender_session: Option<String>,
    /// The channel, where it came by one.
    pub channel: Option<String>,
    /// Its id; a new one, where there is none: `msg_0f1e2d3c4b5a`.
    pub message: Option<String>,
    /// The id of the message that it answers.
    pub reply_to: Option<String>,
    /// Data of the sender.
    pub metadata: Option<Value>,
    /// The text.
    pub text: String,
    /// The idempotency key, unique for each recipient; the message id, where there is none.
    pub key: Option<String>,
    /// The grants of a turn that it begins, where nobody attends that turn.
    pub grants: Option<Vec<String>>,
}

impl NewMessage {
    /// Creates a message with nothing beside its text.
    pub fn new(
        recipient: impl Into<String>,
        source: Source,
        sender: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        Self {
            recipient: recipient.into(),
            source,
            sender: sender.into(),
            sender_session: None,
            channel: None,
            message: None,
            reply_to: None,
            metadata: None,
            text: text.into(),
            key: None,
            grants: None,
        }
    }
}

/// A message that was posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    /// The number of its row.
    pub id: u64,
    /// Its message id.
    pub message: String,
    /// Whether it is new; false, if the recipient has had a message of that key.
    pub is_new: bool,
}

/// A message in an inbox.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Arrival {
    /// The number of its row; messages are shown in this order.
    pub id: u64,
    /// The session that gets it.
    pub recipient: String,
    /// When it was posted, in milliseconds since 1970.
    pub at_ms: u64,
    /// Its origin.
    pub source: Source,
    /// The display name of the sender.
    pub sender: String,
    /// The sender's session, where it is one.
    pub sender_session: Option<String>,
    /// The channel, where it came by one.
    pub channel: Option<String>,
    /// Its id.
    pub message: String,
    /// The id of the message that it answers.
    pub reply_to: Option<String>,
    /// Data of the sender.
    pub metadata: Option<Value>,
    /// The text, without secrets.
    pub text: String,
    /// The idempotency key.
    pub key: String,
    /// The grants of a turn that it begins, where nobody attends that turn.
    pub grants: Option<Vec<String>>,
    /// Its state.
    pub state: ArrivalState,
    /// When it was shown.
    pub shown_ms: Option<u64>,
    /// The row of the recipient's transcript (its context) that shows it.
    pub shown_row: Option<u64>,
    /// The journal ids of the calls of the answer that followed.
    pub calls: Vec<String>,
}

const COLUMNS: &str =
    "id, recipient, at_ms, source, sender, sender_session, channel, message, reply_to, metadata, text, key,
    grants, state, shown_ms, shown_row, calls";

/// Returns the messages that fit a condition on the recipient.
pub(super) fn select(
    database: &Connection,
    condition: &str,
    recipient: &str,
) -> rusqlite::Result<Vec<Arrival>> {
    let sql = format!("SELECT {COLUMNS} FROM inbox WHERE {condition}");
    database.prepare_cached(&sql)?.query_map([recipient], arrival)?.collect()
}

/// Returns messages of a recipient with numbers above `after`, oldest first.
pub(super) fn after(
    database: &Connection,
    recipient: &str,
    after: u64,
    limit: usize,
) -> rusqlite::Result<Vec<Arrival>> {
    let sql = format!("SELECT {COLUMNS} FROM inbox WHERE recipient = ?1 AND id > ?2 ORDER BY id LIMIT ?3");
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    database
        .prepare_cached(&sql)?
        .query_map(params![recipient, after.cast_signed(), limit], arrival)?
        .collect()
}

/// Adds a row. Returns its number.
pub(super) fn add(database: &Connection, new: &NewMessage, key: &str) -> rusqlite::Result<i64> {
    insert(database, new, key, &json!([new.recipient]).to_string())?;
    Ok(database.last_insert_rowid())
}

/// Adds a row for each of the recipients, a list in JSON. The key must be new to them.
pub(super) fn add_copies(database: &Connection, new: &NewMessage, recipients: &str) -> rusqlite::Result<()> {
    insert(database, new, new.key.as_deref().unwrap_or_default(), recipients)
}

fn insert(database: &Connection, new: &NewMessage, key: &str, recipients: &str) -> rusqlite::Result<()> {
    let metadata = new.metadata.as_ref().map(Value::to_string);
    let grants = new.grants.as_ref().map(|it| Value::from(it.clone()).to_string());
    database
        .prepare_cached(
            "INSERT INTO inbox (recipient, key, at_ms, source, sender, sender_session, channel, message, reply_to,
               metadata, text, grants)
             SELECT value, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12 FROM json_each(?1)",
        )?
        .execute(params![
            recipients,
            key,
            now_ms().cast_signed(),
            new.source.name(),
            new.sender,
            new.sender_session,
            new.channel,
            new.message.as_deref().unwrap_or_default(),
            new.reply_to,
            metadata,
            new.text,
            grants,
        ])
        .map(drop)
}

fn arrival(row: &Row<'_>) -> rusqlite::Result<Arrival> {
    let number = |at: usize| row.get::<_, Option<i64>>(at).map(|it| it.map(i64::cast_unsigned));
    let json = |at: usize| -> rusqlite::Result<Option<Value>> {
        let text: Option<String> = row.get(at)?;
        Ok(text.and_then(|it| serde_json::from_str(&it).ok()))
    };
    let texts = |value: Option<Value>| value.and_then(|it| serde_json::from_value::<Vec<String>>(it).ok());
    Ok(Arrival {
        id: row.get::<_, i64>(0)?.cast_unsigned(),
        recipient: row.get(1)?,
        at_ms: row.get::<_, i64>(2)?.cast_unsigned(),
        source: Source::of(&row.get::<_, String>(3)?)?,
        sender: row.get(4)?,
        sender_session: row.get(5)?,
        channel: row.get(6)?,
        message: row.get(7)?,
        reply_to: row.get(8)?,
        metadata: json(9)?,
        text: row.get(10)?,
        key: row.get(11)?,
        grants: texts(json(12)?),
        state: ArrivalState::of(&row.get::<_, String>(13)?)?,
        shown_ms: number(14)?,
        shown_row: number(15)?,
        calls: texts(json(16)?).unwrap_or_default(),
    })
}
