//! The rows of triggers and of their history.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use serde_json::Value;

use super::KEPT_MS;
use crate::now_ms;

/// A new trigger.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTriggerRow {
    /// The session.
    pub session: String,
    /// Its id, unique in the session.
    pub id: String,
    /// Its kind, which the body explains.
    pub kind: String,
    /// Its specification.
    pub body: Value,
    /// Its origin: `tool`, `config`, `profile`, `person`.
    pub origin: String,
    /// The channel that it watches.
    pub channel: Option<String>,
    /// The secret that haft generated for it.
    pub secret: Option<String>,
    /// When it is due, in milliseconds since 1970, without jitter.
    pub due_ms: Option<u64>,
    /// The same with jitter.
    pub next_fire_ms: Option<u64>,
}

/// The state of a trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggerState {
    /// It fires.
    Armed,
    /// A person paused it.
    Paused,
    /// It fires no more.
    Done,
}

impl TriggerState {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Armed => "armed",
            Self::Paused => "paused",
            Self::Done => "done",
        }
    }

    fn of(name: &str) -> rusqlite::Result<Self> {
        let found = [Self::Armed, Self::Paused, Self::Done].into_iter().find(|it| it.name() == name);
        found.ok_or_else(|| unknown(format!("no state of a trigger is called `{name}`")))
    }
}

/// A trigger.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TriggerRow {
    /// The session.
    pub session: String,
    /// Its id, unique in the session.
    pub id: String,
    /// Its kind, which the body explains.
    pub kind: String,
    /// Its specification.
    pub body: Value,
    /// Its origin: `tool`, `config`, `profile`, `person`.
    pub origin: String,
    /// The channel that it watches.
    pub channel: Option<String>,
    /// When it was made.
    pub made_ms: u64,
    /// Its state.
    pub state: TriggerState,
    /// When it is due without jitter.
    pub due_ms: Option<u64>,
    /// When it is due.
    pub next_fire_ms: Option<u64>,
    /// The number of its fires.
    pub fires: u64,
    /// The fire whose turn is not over.
    pub busy: Option<u64>,
    /// The day of the newest fire, in its time zone.
    pub day: Option<String>,
    /// The number of fires on that day.
    pub fires_of_day: u64,
}

/// The event of a history row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryEvent {
    /// It fired.
    Fired,
    /// The turn of a fire is over.
    Ended,
    /// A turn of a fire wanted what is not among its grants.
    Denied,
    /// It was due while nobody ran the session.
    Missed,
    /// The same, and a person is to decide.
    Asks,
    /// It was due while it was paused.
    PausedFire,
    /// It was due while the turn of the fire before was not over.
    Overlap,
    /// It was due, and had fired as often as it may on a day.
    DailyCap,
    /// The session's inbox was full.
    InboxFull,
    /// Its source can't be watched.
    Error,
    /// A person paused it.
    Paused,
    /// A person armed it again.
    Resumed,
}

impl HistoryEvent {
    const ALL: [Self; 12] = [
        Self::Fired,
        Self::Ended,
        Self::Denied,
        Self::Missed,
        Self::Asks,
        Self::PausedFire,
        Self::Overlap,
        Self::DailyCap,
        Self::InboxFull,
        Self::Error,
        Self::Paused,
        Self::Resumed,
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fired => "fired",
            Self::Ended => "ended",
            Self::Denied => "denied",
            Self::Missed => "missed",
            Self::Asks => "asks",
            Self::PausedFire => "paused_fire",
            Self::Overlap => "overlap",
            Self::DailyCap => "daily_cap",
            Self::InboxFull => "inbox_full",
            Self::Error => "error",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
        }
    }

    fn of(name: &str) -> rusqlite::Result<Self> {
        let found = Self::ALL.into_iter().find(|it| it.name() == name);
        found.ok_or_else(|| unknown(format!("no event of a trigger is called `{name}`")))
    }
}

/// A row of the history of a trigger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HistoryRow {
    /// Its number.
    #[serde(skip)]
    pub id: u64,
    /// The session.
    pub session: String,
    /// The trigger.
    pub trigger: String,
    /// When it happened.
    pub at_ms: u64,
    /// The event.
    pub event: HistoryEvent,
    /// The fire that it is about.
    pub fire: Option<u64>,
    /// More about it.
    pub text: String,
    /// The delivery id of a webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,
}

fn unknown(what: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, what.into())
}

const COLUMNS: &str = "session, id, kind, body, origin, channel, made_ms, state, due_ms, next_fire_ms, fires, busy, day, fires_of_day";

/// Adds a trigger. Returns false, if the session has one of that id.
pub(super) fn insert(database: &Connection, new: &NewTriggerRow) -> rusqlite::Result<bool> {
    let added = database
        .prepare_cached(
            "INSERT OR IGNORE INTO triggers (session, id, kind, body, origin, channel, secret, made_ms, state, due_ms, next_fire_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'armed', ?9, ?10)",
        )?
        .execute(params![
            new.session,
            new.id,
            new.kind,
            new.body.to_string(),
            new.origin,
            new.channel,
            new.secret,
            now_ms().cast_signed(),
            new.due_ms.map(u64::cast_signed),
            new.next_fire_ms.map(u64::cast_signed),
        ])?;
    Ok(added > 0)
}

pub(super) fn get(database: &Connection, session: &str, id: &str) -> rusqlite::Result<Option<TriggerRow>> {
    let sql = format!("SELECT {COLUMNS} FROM triggers WHERE session = ?1 AND id = ?2");
    database.prepare_cached(&sql)?.query_row(params![session, id], trigger).optional()
}

pub(super) fn select(database: &Connection, session: Option<&str>) -> rusqlite::Result<Vec<TriggerRow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM triggers WHERE ?1 IS NULL OR session = ?1 ORDER BY made_ms, session, id"
    );
    database.prepare_cached(&sql)?.query_map([session], trigger)?.collect()
}

fn trigger(row: &Row<'_>) -> rusqlite::Result<TriggerRow> {
    let number = |at: usize| row.get::<_, Option<i64>>(at).map(|it| it.map(i64::cast_unsigned));
    Ok(TriggerRow {
        session: row.get(0)?,
        id: row.get(1)?,
        kind: row.get(2)?,
        body: serde_json::from_str(&row.get::<_, String>(3)?).unwrap_or_default(),
        origin: row.get(4)?,
        channel: row.get(5)?,
        made_ms: number(6)?.unwrap_or_default(),
        state: TriggerState::of(&row.get::<_, String>(7)?)?,
        due_ms: number(8)?,
        next_fire_ms: number(9)?,
        fires: number(10)?.unwrap_or_default(),
        busy: number(11)?,
        day: row.get(12)?,
        fires_of_day: number(13)?.unwrap_or_default(),
    })
}

/// Adds a history row, and removes those of the workspace that are too old.
pub(super) fn note(
    database: &Connection,
    (session, trigger): (&str, &str),
    event: HistoryEvent,
    fire: Option<u64>,
    text: &str,
    delivery: Option<&str>,
) -> rusqlite::Result<()> {
    let now = now_ms();
    database
        .prepare_cached(
            "INSERT INTO trigger_history (session, trigger, at_ms, event, fire, text, delivery)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            session,
            trigger,
            now.cast_signed(),
            event.name(),
            fire.map(u64::cast_signed),
            text,
            delivery
        ])?;
    database
        .prepare_cached("DELETE FROM trigger_history WHERE at_ms < ?1")?
        .execute([now.saturating_sub(KEPT_MS).cast_signed()])?;
    Ok(())
}

pub(super) fn has_delivery(
    database: &Connection,
    (session, trigger): (&str, &str),
    delivery: &str,
) -> rusqlite::Result<bool> {
    database
        .prepare_cached(
            "SELECT 1 FROM trigger_history WHERE session = ?1 AND trigger = ?2 AND delivery = ?3",
        )?
        .exists(params![session, trigger, delivery])
}

const OF_HISTORY: &str = "id, session, trigger, at_ms, event, fire, text, delivery";

pub(super) fn history(
    database: &Connection,
    session: &str,
    trigger: &str,
    limit: usize,
) -> rusqlite::Result<Vec<HistoryRow>> {
    let sql = format!(
        "SELECT {OF_HISTORY} FROM trigger_history WHERE session = ?1 AND trigger = ?2 ORDER BY id DESC LIMIT ?3"
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut found: Vec<HistoryRow> = database
        .prepare_cached(&sql)?
        .query_map(params![session, trigger, limit], history_row)?
        .collect::<rusqlite::Result<_>>()?;
    found.reverse();
    Ok(found)
}

pub(super) fn untold(database: &Connection, session: Option<&str>) -> rusqlite::Result<Vec<HistoryRow>> {
    let sql = format!(
        "SELECT {OF_HISTORY} FROM trigger_history WHERE told_ms IS NULL AND (?1 IS NULL OR session = ?1)
           AND event IN ('denied', 'asks', 'error', 'inbox_full') ORDER BY id"
    );
    database.prepare_cached(&sql)?.query_map([session], history_row)?.collect()
}

fn history_row(row: &Row<'_>) -> rusqlite::Result<HistoryRow> {
    let number = |at: usize| row.get::<_, Option<i64>>(at).map(|it| it.map(i64::cast_unsigned));
    Ok(HistoryRow {
        id: number(0)?.unwrap_or_default(),
        session: row.get(1)?,
        trigger: row.get(2)?,
        at_ms: number(3)?.unwrap_or_default(),
        event: HistoryEvent::of(&row.get::<_, String>(4)?)?,
        fire: number(5)?,
        text: row.get(6)?,
        delivery: row.get(7)?,
    })
}
