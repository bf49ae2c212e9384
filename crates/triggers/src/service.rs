//! Service for the triggers of a session: makes, lists, pauses, fires and removes them for people, tools and configuration.

use kit::{Fault, Kind};
use serde_json::json;
use store::{
    Expected, Fire, Fired, HistoryEvent, NewMessage, NewTriggerRow, Source, Store, Then, TriggerRow,
    TriggerState, Triggers,
};

use crate::{
    Schedule, Spec, What, name,
    spec::{instant, millis, named, short},
};

/// The triggers of a workspace.
#[derive(Clone)]
pub struct Service {
    store: Store,
}

/// A trigger that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Added {
    /// Its id.
    pub id: String,
    /// Its arguments in one line.
    pub arguments: String,
    /// The secret that haft generated for it: shown this one time.
    pub secret: Option<String>,
}

/// A request whose signature was verified.
#[derive(Debug)]
pub struct Delivered<'a> {
    /// The delivery id.
    pub id: String,
    /// The name of its event, where the sender gives one.
    pub event: Option<String>,
    /// The body.
    pub body: &'a [u8],
}

/// The cause of a fire, beside its trigger.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cause {
    /// Text below the prompt.
    pub(crate) text: String,
    /// The text in the history.
    pub(crate) note: String,
    /// The delivery id.
    pub(crate) delivery: Option<String>,
    /// Whether a person fires it.
    pub(crate) by_person: bool,
}

impl Service {
    /// Creates the service of a workspace.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    pub(crate) fn rows(&self) -> Triggers {
        self.store.triggers()
    }

    /// Makes a trigger. `origin` says who: `tool`, `config`, `profile`, `person`.
    ///
    /// # Errors
    /// [`Kind::BadArgs`] for a name that is none or is taken, or a time that is over; when the database can't be written.
    pub async fn add(
        &self,
        session: &str,
        name: Option<&str>,
        spec: &Spec,
        origin: &str,
        now_ms: u64,
    ) -> Result<Added, Fault> {
        let id = named(name)?;
        let (row, secret) = self.row(session, &id, spec, origin, now_ms)?;
        if !self.rows().add(row).await? {
            return Err(Fault::bad_args(format!("trigger `{id}` already exists"))
                .next("Choose another `name`, or remove that trigger first."));
        }
        Ok(Added { id, arguments: spec.in_line(), secret })
    }

    /// Makes the triggers of a configuration in a session, changes those that differ, and removes those of the same origin that
    /// are not in it any more.
    ///
    /// # Errors
    /// When one of them is not a trigger, or the database can't be written.
    pub async fn settle(
        &self,
        session: &str,
        origin: &str,
        wanted: &[(String, Spec)],
        now_ms: u64,
    ) -> Result<(), Fault> {
        let known = self.list(Some(session)).await?;
        for old in known.iter().filter(|it| it.origin == origin) {
            if !wanted.iter().any(|(id, _)| *id == old.id) {
                self.rows().remove(session, &old.id).await?;
            }
        }
        for (id, spec) in wanted {
            let (row, _) = self.row(session, &name::checked(id)?, spec, origin, now_ms)?;
            match known.iter().find(|it| it.id == *id) {
                None => {
                    self.rows().add(row).await?;
                }
                Some(old) if old.origin != origin => {
                    let what =
                        format!("trigger `{id}` of the {origin} exists already in the session `{session}`");
                    return Err(
                        Fault::bad_args(what).next(format!("Remove it: `haft triggers remove {id}`."))
                    );
                }
                // What is due stays due: a restart does not begin it anew.
                Some(old) if old.body == row.body => {}
                Some(_) => {
                    self.rows().replace(row).await?;
                }
            }
        }
        Ok(())
    }

    fn row(
        &self,
        session: &str,
        id: &str,
        spec: &Spec,
        origin: &str,
        now_ms: u64,
    ) -> Result<(NewTriggerRow, Option<String>), Fault> {
        let due = spec.first_due(id, now_ms)?;
        let secret = match &spec.what {
            What::Webhook { secret: None, .. } => Some(name::secret()?),
            _ => None,
        };
        let channel = match &spec.what {
            What::WatchChannel { channel_name, .. } => Some(channel_name.clone()),
            _ => None,
        };
        let row = NewTriggerRow {
            session: session.to_owned(),
            id: id.to_owned(),
            kind: spec.what.tool().to_owned(),
            body: json!(spec),
            origin: origin.to_owned(),
            channel,
            secret: secret.clone(),
            due_ms: due.map(|it| it.0),
            next_fire_ms: due.map(|it| it.1),
        };
        Ok((row, secret))
    }

    /// Removes a trigger. Returns false, if there is none.
    ///
    /// # Errors
    /// When the database can't be written.
    pub async fn remove(&self, session: &str, id: &str) -> Result<bool, Fault> {
        self.rows().remove(session, id).await
    }

    /// Returns the triggers of a session, or of all.
    ///
    /// # Errors
    /// When the database can't be read.
    pub async fn list(&self, session: Option<&str>) -> Result<Vec<TriggerRow>, Fault> {
        let (rows, session) = (self.rows(), session.map(str::to_owned));
        blocking(move || rows.list(session.as_deref())).await
    }

    /// Returns a trigger by its id, of this session or of the only one that has it.
    ///
    /// # Errors
    /// [`Kind::NotFound`] with the ids that there are, [`Kind::Ambiguous`] with the sessions.
    pub async fn find(&self, session: Option<&str>, id: &str) -> Result<TriggerRow, Fault> {
        let all = self.list(session).await?;
        let mut found: Vec<&TriggerRow> = all.iter().filter(|it| it.id == id).collect();
        match (found.pop(), found.as_slice()) {
            (Some(one), []) => Ok(one.clone()),
            (Some(_), _) => {
                let sessions: Vec<&str> =
                    all.iter().filter(|it| it.id == id).map(|it| it.session.as_str()).collect();
                Err(Fault::new(
                    Kind::Ambiguous,
                    format!("trigger `{id}` is in the sessions {}", sessions.join(", ")),
                )
                .next("Name the session with `--session`."))
            }
            (None, _) => {
                let ids: Vec<&str> = all.iter().map(|it| it.id.as_str()).collect();
                let there = if ids.is_empty() { "there is none".to_owned() } else { ids.join(", ") };
                Err(Fault::not_found(format!("Trigger not found: {id}")).next(format!("Triggers: {there}.")))
            }
        }
    }

    /// Pauses a trigger.
    ///
    /// # Errors
    /// [`Kind::Stale`] when it is not armed.
    pub async fn pause(&self, row: &TriggerRow) -> Result<(), Fault> {
        match self.rows().set_paused(&row.session, &row.id, true, None, "").await? {
            true => Ok(()),
            false => Err(Fault::new(Kind::Stale, format!("trigger `{}` is {}", row.id, row.state.name()))),
        }
    }

    /// Arms a paused trigger again. It is due at the next time of its schedule from now on. Returns how many times passed
    /// meanwhile.
    ///
    /// # Errors
    /// [`Kind::Stale`] when it is not paused.
    pub async fn resume(&self, row: &TriggerRow, now_ms: u64) -> Result<usize, Fault> {
        let spec = Spec::of_body(&row.body)?;
        let zone = spec.zone()?;
        let (mut due, mut passed) = (None, 0);
        if let (Some(schedule), Some(next)) = (spec.schedule(&zone)?, row.next_fire_ms) {
            let at = row.due_ms.unwrap_or(next);
            passed = if next > now_ms { 0 } else { count(&schedule, at, now_ms, &zone) };
            if passed > 0 {
                // A time that occurs once is due now: else it would never be.
                let next = schedule.next_of(instant(at), instant(now_ms), &zone).map_or(now_ms, millis);
                due = Some((next, spec.with_jitter(next, &row.id, row.fires + 1)));
            }
        }
        let text = if passed == 0 { String::new() } else { format!("{passed} left out while it was paused") };
        match self.rows().set_paused(&row.session, &row.id, false, due, &text).await? {
            true => Ok(passed),
            false => Err(Fault::new(Kind::Stale, format!("trigger `{}` is {}", row.id, row.state.name()))),
        }
    }

    /// Fires a trigger for a person, in whichever state it is.
    ///
    /// # Errors
    /// When it is gone, or the session's inbox is full.
    pub async fn fire_now(&self, row: &TriggerRow, now_ms: u64) -> Result<u64, Fault> {
        let spec = Spec::of_body(&row.body)?;
        let cause = Cause { note: "fired by a person".to_owned(), by_person: true, ..Cause::default() };
        match self.fire(row, &spec, None, Then::Same, now_ms, cause).await? {
            Fired::Yes { number, .. } => Ok(number),
            Fired::No(HistoryEvent::InboxFull) => {
                Err(Fault::new(Kind::Unavailable, format!("the inbox of `{}` is full", row.session)))
            }
            _ => Err(Fault::not_found(format!("Trigger not found: {}", row.id))),
        }
    }

    /// Fires a webhook for a request whose signature was verified. The same delivery counts once.
    ///
    /// # Errors
    /// When it can't be stored.
    pub async fn deliver(
        &self,
        row: &TriggerRow,
        spec: &Spec,
        delivered: Delivered<'_>,
    ) -> Result<Fired, Fault> {
        let body = String::from_utf8_lossy(delivered.body);
        let event =
            delivered.event.as_deref().map_or_else(String::new, |it| format!(", event {}", short(it, 60)));
        let cause = Cause {
            text: format!("The request (delivery {}{event}):\n{body}", short(&delivered.id, 80)),
            note: format!("delivery {}{event}, {} bytes", short(&delivered.id, 80), delivered.body.len()),
            delivery: Some(delivered.id),
            by_person: false,
        };
        self.fire(row, spec, None, Then::Same, store::now_ms(), cause).await
    }

    /// Fires a trigger, or notes why it doesn't fire.
    pub(crate) async fn fire(
        &self,
        row: &TriggerRow,
        spec: &Spec,
        expected: Option<Expected>,
        then: Then,
        now_ms: u64,
        cause: Cause,
    ) -> Result<Fired, Fault> {
        let mut text = spec.common.prompt.clone().unwrap_or_default();
        if !cause.text.is_empty() {
            text = format!("{text}\n\n{}", cause.text);
        }
        let source = match spec.what {
            What::Webhook { .. } => Source::Webhook,
            _ => Source::Trigger,
        };
        let message = NewMessage {
            grants: Some(spec.common.grants.clone()),
            ..NewMessage::new(&row.session, source, &row.id, text)
        };
        self.rows()
            .fire(Fire {
                session: row.session.clone(),
                id: row.id.clone(),
                expected,
                at_ms: now_ms,
                day: spec.zone()?.to_datetime(instant(now_ms)).date().to_string(),
                then,
                overlaps: spec.overlaps(),
                max_per_day: spec.max_per_day(),
                by_person: cause.by_person,
                delivery: cause.delivery,
                message,
                note: short(&cause.note, 400),
            })
            .await
    }

    /// Returns the line for a model about a trigger.
    pub fn line(row: &TriggerRow) -> String {
        let what = Spec::of_body(&row.body).map_or_else(
            |fault| fault.what,
            |spec| {
                let prompt = spec.common.prompt.as_deref().map(|it| format!(", prompt '{}'", short(it, 80)));
                format!("{spec}{}", prompt.unwrap_or_default())
            },
        );
        let next = match (row.state, row.next_fire_ms) {
            (TriggerState::Armed, Some(at)) => {
                format!(", next {}", instant(at).strftime("%Y-%m-%dT%H:%M:%SZ"))
            }
            _ => String::new(),
        };
        let fires = if row.fires == 1 { "1 fire".to_owned() } else { format!("{} fires", row.fires) };
        format!("{}: {} {}, {what}{next}, {fires}", row.id, row.state.name(), row.kind)
    }
}

/// Counts the times from `due` until `now`, at most 1,000.
pub(crate) fn count(schedule: &Schedule, due_ms: u64, now_ms: u64, zone: &jiff::tz::TimeZone) -> usize {
    const MOST: usize = 1_000;
    let mut at = Some(instant(due_ms));
    let mut count = 0;
    while let Some(due) = at.filter(|it| millis(*it) <= now_ms && count < MOST) {
        count += 1;
        at = schedule.next_of(due, due, zone);
    }
    count
}

/// Runs work that blocks.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Fault::bug(format!("the triggers were not read: {error}"))))
}
