//! Triggers of sessions: what begins their turns by itself, and the history of each fire and each non-fire.
//!
//! A fire is one transaction: it claims the row by compare-and-swap, adds the history row, and posts the message to the
//! session's inbox under the key of this fire. So a fire is neither doubled nor lost, whichever process dies when.

mod channel;
mod row;
#[cfg(test)]
mod tests;

use std::{convert::Infallible, future::Future};

use kit::Fault;
use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::watch;

use super::{
    Store,
    inbox::{self, NewMessage},
    masking::mask,
    now_ms,
    savepoint::whole,
    signals,
};
pub(crate) use channel::{OnChannel, watchers_of};
pub use row::{HistoryEvent, HistoryRow, NewTriggerRow, TriggerRow, TriggerState};

/// How long history rows are kept, in milliseconds: 90 days. A delivery id is known for as long.
const KEPT_MS: u64 = 90 * 24 * 3_600 * 1_000;

/// The file in a workspace's folder that changes when a process adds, changes or removes a trigger.
pub const TRIGGERS_CHANGED: &str = "triggers_changed";

/// The triggers of one workspace's sessions.
#[derive(Clone)]
pub struct Triggers {
    store: Store,
}

/// The state of a row that a claim expects: compare-and-swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The number of its fires.
    pub fires: u64,
    /// When it is due.
    pub next_fire_ms: Option<u64>,
}

/// The due time that a claim leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It stays due when it was, if ever: a trigger without a schedule.
    Same,
    /// It is due next at `next_fire_ms`; without jitter it would be at `due_ms`.
    Due {
        /// Without jitter.
        due_ms: u64,
        /// With jitter.
        next_fire_ms: u64,
    },
    /// It is over.
    Done,
}

/// A fire of a trigger.
#[derive(Debug, Clone)]
pub struct Fire {
    /// The session.
    pub session: String,
    /// The trigger.
    pub id: String,
    /// The state it was read in; without it, whichever it is in: a delivery, a person's fire.
    pub expected: Option<Expected>,
    /// When it fires.
    pub at_ms: u64,
    /// The day of that, in the trigger's time zone.
    pub day: String,
    /// The due time after it.
    pub then: Then,
    /// Whether it may fire while the turn of the fire before is not over.
    pub overlaps: bool,
    /// The maximum number of fires a day.
    pub max_per_day: Option<u64>,
    /// Whether a person fires it: then neither a pause nor a limit holds it back.
    pub by_person: bool,
    /// The delivery id, which counts once.
    pub delivery: Option<String>,
    /// The message for the session; its key is that of the fire.
    pub message: NewMessage,
    /// Its text in the history.
    pub note: String,
}

/// The outcome of a [`Fire`].
#[derive(Debug, Clone, PartialEq)]
pub enum Fired {
    /// It fired.
    Yes {
        /// The number of the fire.
        number: u64,
        /// Its message.
        message: Box<NewMessage>,
    },
    /// It did not fire, and the history says why.
    No(HistoryEvent),
    /// The row is not as expected: another process claimed it, or it was changed.
    Lost,
    /// This delivery was accepted before.
    Known,
    /// There is no such trigger.
    Gone,
}

impl Store {
    /// Returns the triggers of this workspace's sessions.
    pub fn triggers(&self) -> Triggers {
        Triggers { store: self.clone() }
    }
}

impl Triggers {
    /// Adds a trigger. Returns false, if the session has one of that id.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn add(&self, mut new: NewTriggerRow) -> impl Future<Output = Result<bool, Fault>> + Send + use<> {
        let stamp = self.store.stamp();
        self.change(new.session.clone(), move |database| {
            mask(&mut new.body, &stamp.secrets, &[]);
            row::insert(database, &new)
        })
    }

    /// Removes a trigger with its history. Returns false, if there is none.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn remove(
        &self,
        session: &str,
        id: &str,
    ) -> impl Future<Output = Result<bool, Fault>> + Send + use<> {
        let (owner, id) = (session.to_owned(), id.to_owned());
        self.change(session.to_owned(), move |database| {
            let removed = database
                .prepare_cached("DELETE FROM triggers WHERE session = ?1 AND id = ?2")?
                .execute(params![owner, id])?;
            database
                .prepare_cached("DELETE FROM trigger_history WHERE session = ?1 AND trigger = ?2")?
                .execute(params![owner, id])?;
            Ok(removed > 0)
        })
    }

    /// Replaces the body of a trigger, and when it is due. Returns false, if there is none.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn replace(
        &self,
        mut new: NewTriggerRow,
    ) -> impl Future<Output = Result<bool, Fault>> + Send + use<> {
        let stamp = self.store.stamp();
        self.change(new.session.clone(), move |database| {
            mask(&mut new.body, &stamp.secrets, &[]);
            let changed = database
                .prepare_cached(
                    "UPDATE triggers SET kind = ?3, body = ?4, channel = ?5, due_ms = ?6, next_fire_ms = ?7,
                       state = CASE state WHEN 'done' THEN 'armed' ELSE state END
                     WHERE session = ?1 AND id = ?2",
                )?
                .execute(params![
                    new.session,
                    new.id,
                    new.kind,
                    new.body.to_string(),
                    new.channel,
                    new.due_ms.map(u64::cast_signed),
                    new.next_fire_ms.map(u64::cast_signed)
                ])?;
            Ok(changed > 0)
        })
    }

    /// Pauses a trigger, or arms it again, then due as given. Returns false, if it is in no state for that.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn set_paused(
        &self,
        session: &str,
        id: &str,
        paused: bool,
        due: Option<(u64, u64)>,
        text: &str,
    ) -> impl Future<Output = Result<bool, Fault>> + Send + use<> {
        let (owner, id, text) = (session.to_owned(), id.to_owned(), text.to_owned());
        self.change(session.to_owned(), move |database| {
            let (from, to) = if paused { ("armed", "paused") } else { ("paused", "armed") };
            let changed = database
                .prepare_cached(
                    "UPDATE triggers SET state = ?4, due_ms = coalesce(?5, due_ms),
                       next_fire_ms = coalesce(?6, next_fire_ms)
                     WHERE session = ?1 AND id = ?2 AND state = ?3",
                )?
                .execute(params![
                    owner,
                    id,
                    from,
                    to,
                    due.map(|it| it.0.cast_signed()),
                    due.map(|it| it.1.cast_signed())
                ])?;
            if changed > 0 {
                let event = if paused { HistoryEvent::Paused } else { HistoryEvent::Resumed };
                row::note(database, (&owner, &id), event, None, &text, None)?;
            }
            Ok(changed > 0)
        })
    }

    /// Returns the triggers of a session, or of all, in the order in which they were made. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn list(&self, session: Option<&str>) -> Result<Vec<TriggerRow>, Fault> {
        let session = session.map(str::to_owned);
        self.store.read(move |database| row::select(database, session.as_deref()))
    }

    /// Returns a trigger. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn get(&self, session: &str, id: &str) -> Result<Option<TriggerRow>, Fault> {
        let (session, id) = (session.to_owned(), id.to_owned());
        self.store.read(move |database| row::get(database, &session, &id))
    }

    /// Returns the generated secret of a trigger. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn secret(&self, session: &str, id: &str) -> Result<Option<String>, Fault> {
        let (session, id) = (session.to_owned(), id.to_owned());
        self.store.read(move |database| {
            let secret = database
                .prepare_cached("SELECT secret FROM triggers WHERE session = ?1 AND id = ?2")?
                .query_row(params![session, id], |row| row.get::<_, Option<String>>(0))
                .optional()?;
            Ok(secret.flatten())
        })
    }

    /// Returns the sessions that a daemon has to run: those with an armed trigger that does not belong to a profile, and
    /// those with a message that waits. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn sessions_to_run(&self) -> Result<Vec<String>, Fault> {
        self.store.read(|database| {
            database
                .prepare_cached(
                    "SELECT session FROM triggers WHERE state = 'armed' AND origin <> 'profile'
                     UNION SELECT recipient FROM inbox WHERE state = 'queued' AND source <> 'job' ORDER BY 1",
                )?
                .query_map([], |row| row.get(0))?
                .collect()
        })
    }

    /// Fires a trigger, or notes why it does not fire.
    ///
    /// # Errors
    /// When the database can't be written, or the message is too long.
    pub fn fire(&self, fire: Fire) -> impl Future<Output = Result<Fired, Fault>> + Send + use<> {
        let prepared = inbox::prepared(vec![fire.message.clone()], &self.store.stamp().secrets);
        let session = fire.session.clone();
        let broken = kit::deliberate_faults::is_broken("trigger-claim");
        let later = self.store.inbox();
        let done = prepared.map(|mut messages| {
            let message = messages.pop();
            self.change(session.clone(), move |database| match &message {
                Some(message) => whole_fire(database, &fire, message, !broken),
                None => Ok(Fired::Gone),
            })
        });
        let folder = self.store.folder().to_owned();
        async move {
            let fired = done?.await?;
            // A test asks for a message that is not in the transaction of its claim.
            if broken && let Fired::Yes { message, .. } = &fired {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                later.post(NewMessage::clone(message)).await?;
            }
            if matches!(fired, Fired::Yes { .. }) {
                inbox::fire(&folder, &session);
            }
            Ok(fired)
        }
    }

    /// Lets a trigger pass without a fire, by compare-and-swap: it was missed.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn pass(
        &self,
        session: &str,
        id: &str,
        expected: Expected,
        then: Then,
        event: HistoryEvent,
        text: &str,
    ) -> impl Future<Output = Result<bool, Fault>> + Send + use<> {
        let (owner, id, text) = (session.to_owned(), id.to_owned(), text.to_owned());
        self.change(session.to_owned(), move |database| {
            let claimed = claim(database, (&owner, &id), Some(expected), then, None)?;
            if claimed.is_some() {
                row::note(database, (&owner, &id), event, None, &text, None)?;
            }
            Ok(claimed.is_some())
        })
    }

    /// Adds a history row about a fire. Nothing happens where the trigger is gone. It is queued at once.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn note(
        &self,
        session: &str,
        id: &str,
        event: HistoryEvent,
        fire: Option<u64>,
        text: &str,
    ) -> impl Future<Output = Result<(), Fault>> + Send + use<> {
        let (session, id) = (session.to_owned(), id.to_owned());
        let text = self.store.stamp().secrets.mask(text).into_owned();
        self.store.ask(move |database| {
            if row::get(database, &session, &id)?.is_some() {
                row::note(database, (&session, &id), event, fire, &text, None)?;
            }
            Ok(())
        })
    }

    /// Notes that the turn of a fire is over: the next one may begin. It is queued at once.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn turn_ended(
        &self,
        session: &str,
        id: &str,
        fire: u64,
        text: &str,
    ) -> impl Future<Output = Result<(), Fault>> + Send + use<> {
        let (owner, id) = (session.to_owned(), id.to_owned());
        let text = self.store.stamp().secrets.mask(text).into_owned();
        self.change(session.to_owned(), move |database| {
            let ended = database
                .prepare_cached(
                    "UPDATE triggers SET busy = NULL WHERE session = ?1 AND id = ?2 AND busy <= ?3",
                )?
                .execute(params![owner, id, fire.cast_signed()])?;
            if ended > 0 {
                row::note(database, (&owner, &id), HistoryEvent::Ended, Some(fire), &text, None)?;
            }
            Ok(())
        })
    }

    /// Frees the triggers of a session whose last fire was shown by a process that died before its turn was over. Called by
    /// whoever begins to run the session.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn recover(&self, session: &str) -> impl Future<Output = Result<(), Fault>> + Send + use<> {
        let session = session.to_owned();
        self.store.ask(move |database| {
            for row in row::select(database, Some(&session))? {
                let Some(fire) = row.busy else { continue };
                let waits = database
                    .prepare_cached(
                        "SELECT 1 FROM inbox WHERE recipient = ?1 AND key = ?2 AND state = 'queued'",
                    )?
                    .exists(params![session, fire_key(&row, fire)])?;
                if !waits {
                    database
                        .prepare_cached("UPDATE triggers SET busy = NULL WHERE session = ?1 AND id = ?2")?
                        .execute(params![session, row.id])?;
                    let text = "the process that ran its turn ended";
                    row::note(database, (&session, &row.id), HistoryEvent::Ended, Some(fire), text, None)?;
                }
            }
            Ok(())
        })
    }

    /// Returns the newest history rows of a trigger, oldest first. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn history(&self, session: &str, id: &str, limit: usize) -> Result<Vec<HistoryRow>, Fault> {
        let (session, id) = (session.to_owned(), id.to_owned());
        self.store.read(move |database| row::history(database, &session, &id, limit))
    }

    /// Returns the history rows that a person has to learn of, oldest first: refusals, missed fires that ask, errors. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn untold(&self, session: Option<&str>) -> Result<Vec<HistoryRow>, Fault> {
        let session = session.map(str::to_owned);
        self.store.read(move |database| row::untold(database, session.as_deref()))
    }

    /// Notes that these history rows were reported to a person.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn told(&self, rows: &[u64]) -> impl Future<Output = Result<(), Fault>> + Send + use<> {
        let rows = rows.to_vec();
        self.store.ask(move |database| {
            for id in rows {
                database
                    .prepare_cached(
                        "UPDATE trigger_history SET told_ms = ?2 WHERE id = ?1 AND told_ms IS NULL",
                    )?
                    .execute(params![id.cast_signed(), now_ms().cast_signed()])?;
            }
            Ok(())
        })
    }

    /// Returns a counter that changes when a trigger of this session changes in this process.
    pub fn changes(&self, session: &str) -> watch::Receiver<u64> {
        signals::subscribe(self.store.folder(), &signal_of(session))
    }

    /// Wakes the engine of this session in this process: another process changed a trigger.
    pub fn notify(&self, session: &str) {
        signals::fire(self.store.folder(), &signal_of(session));
    }

    /// Queues a change, and tells the engines of the session in all processes after the commit.
    fn change<T, F>(
        &self,
        session: String,
        work: F,
    ) -> impl Future<Output = Result<T, Fault>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let folder = self.store.folder().to_owned();
        let done = self.store.ask(move |database| {
            match whole(database, |database| work(database).map(Ok::<T, Infallible>))? {
                Ok(done) => Ok(done),
            }
        });
        async move {
            let done = done.await?;
            signals::fire(&folder, &signal_of(&session));
            // Engines of other processes watch this file; without it they look for themselves.
            if let Err(error) = std::fs::write(folder.join(TRIGGERS_CHANGED), session) {
                tracing::warn!(%error, "other processes are not told of a changed trigger");
            }
            Ok(done)
        }
    }
}

/// Returns the idempotency key of a fire's message. A trigger that was removed and made again is another one.
fn fire_key(row: &TriggerRow, fire: u64) -> String {
    format!("trigger {} of {} fire {fire}", row.id, row.made_ms)
}

/// Returns the trigger and the fire of a message's key, if it has one.
pub fn fire_of(key: &str) -> Option<(&str, u64)> {
    let (trigger, fire) = key.strip_prefix("trigger ")?.rsplit_once(" fire ")?;
    Some((trigger.rsplit_once(" of ")?.0, fire.parse().ok()?))
}

fn signal_of(session: &str) -> String {
    format!("triggers {session}")
}

/// Fires within a transaction of the writer.
///
/// `posts`: whether it posts the message as well, as it has to; only a test leaves that for later.
fn whole_fire(
    database: &Connection,
    fire: &Fire,
    message: &NewMessage,
    posts: bool,
) -> rusqlite::Result<Fired> {
    let of = (fire.session.as_str(), fire.id.as_str());
    let Some(row) = row::get(database, of.0, of.1)? else { return Ok(Fired::Gone) };
    if let Some(delivery) = &fire.delivery
        && row::has_delivery(database, of, delivery)?
    {
        return Ok(Fired::Known);
    }
    let today = if row.day.as_deref() == Some(&fire.day) { row.fires_of_day } else { 0 };
    let held = match row.state {
        _ if fire.by_person => None,
        TriggerState::Done => return Ok(Fired::Lost),
        TriggerState::Paused => Some(HistoryEvent::PausedFire),
        TriggerState::Armed if !fire.overlaps && row.busy.is_some() => Some(HistoryEvent::Overlap),
        TriggerState::Armed if fire.max_per_day.is_some_and(|most| today >= most) => {
            Some(HistoryEvent::DailyCap)
        }
        TriggerState::Armed => None,
    };
    if let Some(event) = held {
        // A paused trigger with a schedule is due again when it is resumed.
        if row.state == TriggerState::Armed && claim(database, of, fire.expected, fire.then, None)?.is_none()
        {
            return Ok(Fired::Lost);
        }
        row::note(database, of, event, None, &fire.note, fire.delivery.as_deref())?;
        return Ok(Fired::No(event));
    }
    let Some(number) = claim(database, of, fire.expected, fire.then, Some((&fire.day, today + 1)))? else {
        return Ok(Fired::Lost);
    };
    let message = NewMessage { key: Some(fire_key(&row, number)), ..message.clone() };
    if posts && inbox::insert_all(database, std::slice::from_ref(&message))?.is_err() {
        row::note(database, of, HistoryEvent::InboxFull, Some(number), &fire.note, fire.delivery.as_deref())?;
        database
            .prepare_cached("UPDATE triggers SET busy = NULL WHERE session = ?1 AND id = ?2")?
            .execute(params![of.0, of.1])?;
        return Ok(Fired::No(HistoryEvent::InboxFull));
    }
    row::note(database, of, HistoryEvent::Fired, Some(number), &fire.note, fire.delivery.as_deref())?;
    Ok(Fired::Yes { number, message: Box::new(message) })
}

/// Claims a row by compare-and-swap. Returns the number of its fires, if the row was as expected. `counts`: the day, and how
/// many fires that one has with this one.
fn claim(
    database: &Connection,
    (session, id): (&str, &str),
    expected: Option<Expected>,
    then: Then,
    counts: Option<(&str, u64)>,
) -> rusqlite::Result<Option<u64>> {
    let (due, next) = match then {
        Then::Due { due_ms, next_fire_ms } => (Some(due_ms.cast_signed()), Some(next_fire_ms.cast_signed())),
        Then::Same | Then::Done => (None, None),
    };
    database
        .prepare_cached(
            "UPDATE triggers SET
               fires = fires + ?3, busy = CASE WHEN ?3 THEN fires + 1 ELSE busy END,
               day = coalesce(?4, day), fires_of_day = coalesce(?5, fires_of_day),
               due_ms = CASE ?6 WHEN 'same' THEN due_ms ELSE ?7 END,
               next_fire_ms = CASE ?6 WHEN 'same' THEN next_fire_ms ELSE ?8 END,
               state = CASE ?6 WHEN 'done' THEN 'done' ELSE state END
             WHERE session = ?1 AND id = ?2 AND (?9 IS NULL OR (state = 'armed' AND fires = ?9 AND next_fire_ms IS ?10))
             RETURNING fires",
        )?
        .query_row(
            params![
                session,
                id,
                i64::from(counts.is_some()),
                counts.map(|it| it.0),
                counts.map(|it| it.1.cast_signed()),
                match then {
                    Then::Same => "same",
                    Then::Due { .. } => "due",
                    Then::Done => "done",
                },
                due,
                next,
                expected.map(|it| it.fires.cast_signed()),
                expected.and_then(|it| it.next_fire_ms).map(u64::cast_signed),
            ],
            |row| row.get::<_, i64>(0),
        )
        .optional()
        .map(|it| it.map(i64::cast_unsigned))
}
