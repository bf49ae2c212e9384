//! Groups of agents: members, graphs, wires, events, and what each member has used.
//!
//! A change of a graph is one transaction with its channels, edges and members, which [`Channels`](crate::channels::Channels) owns.
//! Each change names the generation that it was made on, so that two processes can't change a group at once.

mod rows;
mod shape;
#[cfg(test)]
mod tests;

use std::future::Future;

use kit::{Fault, Kind};
use rusqlite::{OptionalExtension, params};
use serde_json::Value;

use super::{
    Store,
    inbox::{self, NewMessage},
    masking::mask,
    now_ms,
    savepoint::whole,
};
pub use rows::{GroupEvent, GroupRecord, MemberRecord, NewGroupEvent, Used};
pub use shape::{ChannelRecord, EdgeRecord, GraphRecord, Shape, WireRecord};

/// Number of events that a group keeps.
const EVENTS: i64 = 5_000;

/// The groups of one workspace.
#[derive(Clone)]
pub struct Groups {
    store: Store,
}

/// The end of a turn, or another step of a member, with what follows from it.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// The member.
    pub member: String,
    /// The number of the row of its log up to which everything is done.
    pub seen: u64,
    /// Whether the row is the end of a turn.
    pub is_turn: bool,
    /// The use of the member since.
    pub used: Used,
    /// Messages that follow from it.
    pub messages: Vec<NewMessage>,
    /// Events that follow from it.
    pub events: Vec<NewGroupEvent>,
}

impl Store {
    /// Returns the groups of this workspace.
    pub fn groups(&self) -> Groups {
        Groups { store: self.clone() }
    }
}

impl Groups {
    /// Adds a group with its first graph. Returns its generation, or nothing if there is a group of that name.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn add(
        &self,
        mut record: GroupRecord,
        shape: Shape,
        events: Vec<NewGroupEvent>,
    ) -> impl Future<Output = Result<Option<u64>, Fault>> + Send + use<> {
        let stamp = self.store.stamp();
        self.store.ask(move |database| {
            mask(&mut record.recipe, &stamp.secrets, &[]);
            let done = whole(database, |database| {
                let added = database
                    .prepare_cached(
                        "INSERT OR IGNORE INTO groups (name, file, recipe, limits, state, generation, created_ms)
                         VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6)",
                    )?
                    .execute(params![
                        record.name,
                        record.file,
                        record.recipe.to_string(),
                        record.limits.to_string(),
                        record.state,
                        now_ms().cast_signed()
                    ])?;
                if added == 0 {
                    return Ok(Err(()));
                }
                shape::write(database, &record.name, &shape, &stamp.secrets)?;
                rows::add_events(database, &record.name, &events, &stamp.secrets)?;
                Ok(Ok(1))
            })?;
            Ok(done.ok())
        })
    }

    /// Replaces the shape of a group that was read at this generation. Returns the next one.
    ///
    /// # Errors
    /// [`Kind::Stale`] when the group was changed since, and when the database can't be written.
    pub fn change(
        &self,
        name: &str,
        generation: u64,
        shape: Shape,
        events: Vec<NewGroupEvent>,
    ) -> impl Future<Output = Result<u64, Fault>> + Send + use<> {
        let name = name.to_owned();
        let stamp = self.store.stamp();
        let shown = name.clone();
        let done = self.store.ask(move |database| {
            whole(database, |database| {
                let changed = database
                    .prepare_cached(
                        "UPDATE groups SET generation = generation + 1 WHERE name = ?1 AND generation = ?2",
                    )?
                    .execute(params![name, generation.cast_signed()])?;
                if changed == 0 {
                    return Ok(Err(()));
                }
                shape::write(database, &name, &shape, &stamp.secrets)?;
                rows::add_events(database, &name, &events, &stamp.secrets)?;
                Ok(Ok(()))
            })
        });
        async move {
            match done.await? {
                Ok(()) => Ok(generation + 1),
                Err(()) => Err(Fault::new(
                    Kind::Stale,
                    format!("another process changed the group `{shown}` meanwhile"),
                )),
            }
        }
    }

    /// Records a step of a member, with the messages and events that follow from it, in one transaction. Returns false, and
    /// changes nothing, if the step was recorded before.
    ///
    /// # Errors
    /// When an inbox is full, or the database can't be written.
    pub fn step(&self, name: &str, step: Step) -> impl Future<Output = Result<bool, Fault>> + Send + use<> {
        let (name, folder) = (name.to_owned(), self.store.folder().to_owned());
        let stamp = self.store.stamp();
        let recipients: Vec<String> = step.messages.iter().map(|it| it.recipient.clone()).collect();
        let ready = inbox::prepared(step.messages, &stamp.secrets);
        let queued = ready.map(|ready| {
            self.store.ask(move |database| {
                whole(database, |database| {
                    let Used { tokens, steps, cost, .. } = step.used;
                    let changed = database
                        .prepare_cached(
                            "UPDATE group_members SET seen = ?3, turns = turns + ?4, tokens = tokens + ?5,
                               steps = steps + ?6, cost = cost + ?7
                             WHERE grp = ?1 AND id = ?2 AND seen < ?3",
                        )?
                        .execute(params![
                            name,
                            step.member,
                            step.seen.cast_signed(),
                            step.is_turn,
                            tokens.cast_signed(),
                            steps.cast_signed(),
                            cost
                        ])?;
                    if changed == 0 {
                        return Ok(Err(None));
                    }
                    database
                        .prepare_cached(
                            "UPDATE groups SET turns = turns + ?2, tokens = tokens + ?3, steps = steps + ?4, cost = cost + ?5
                             WHERE name = ?1",
                        )?
                        .execute(params![name, step.is_turn, tokens.cast_signed(), steps.cast_signed(), cost])?;
                    if let Err(refused) = inbox::insert_all(database, &ready)? {
                        return Ok(Err(Some(format!("{refused:?}"))));
                    }
                    rows::add_events(database, &name, &step.events, &stamp.secrets)?;
                    Ok(Ok(()))
                })
            })
        });
        async move {
            match queued?.await? {
                Ok(()) => {
                    recipients.iter().for_each(|it| inbox::fire(&folder, it));
                    Ok(true)
                }
                Err(None) => Ok(false),
                Err(Some(why)) => {
                    Err(Fault::new(Kind::Unavailable, format!("a message was not accepted: {why}")))
                }
            }
        }
    }

    /// Sets the flags of a member: whether it runs, admits turns, and was killed.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn set_flags(
        &self,
        name: &str,
        member: &str,
        (running, paused, killed): (bool, bool, bool),
        events: Vec<NewGroupEvent>,
    ) -> impl Future<Output = Result<(), Fault>> + Send + use<> {
        let (name, member) = (name.to_owned(), member.to_owned());
        let stamp = self.store.stamp();
        self.store.ask(move |database| {
            database
                .prepare_cached(
                    "UPDATE group_members SET running = ?3, paused = ?4, killed = ?5 WHERE grp = ?1 AND id = ?2",
                )?
                .execute(params![name, member, running, paused, killed])?;
            database
                .prepare_cached(
                    "UPDATE members SET running = ?3 WHERE session =
                       (SELECT session FROM group_members WHERE grp = ?1 AND id = ?2)",
                )?
                .execute(params![name, member, running])?;
            rows::add_events(database, &name, &events, &stamp.secrets)
        })
    }

    /// Sets the state of a group: `running`, `paused`, `stopped`, `done`.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn set_state(
        &self,
        name: &str,
        state: &str,
        events: Vec<NewGroupEvent>,
    ) -> impl Future<Output = Result<(), Fault>> + Send + use<> {
        let (name, state) = (name.to_owned(), state.to_owned());
        let stamp = self.store.stamp();
        self.store.ask(move |database| {
            database
                .prepare_cached("UPDATE groups SET state = ?2 WHERE name = ?1")?
                .execute([&name, &state])?;
            rows::add_events(database, &name, &events, &stamp.secrets)
        })
    }

    /// Sets the limits of a group.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn set_limits(
        &self,
        name: &str,
        limits: &Value,
    ) -> impl Future<Output = Result<(), Fault>> + Send + use<> {
        let (name, limits) = (name.to_owned(), limits.to_string());
        self.store.ask(move |database| {
            database
                .prepare_cached("UPDATE groups SET limits = ?2 WHERE name = ?1")?
                .execute([&name, &limits])?;
            Ok(())
        })
    }

    /// Appends events.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn note(
        &self,
        name: &str,
        events: Vec<NewGroupEvent>,
    ) -> impl Future<Output = Result<(), Fault>> + Send + use<> {
        let name = name.to_owned();
        let stamp = self.store.stamp();
        self.store.ask(move |database| rows::add_events(database, &name, &events, &stamp.secrets))
    }

    /// Returns a group. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn get(&self, name: &str) -> Result<Option<GroupRecord>, Fault> {
        let name = name.to_owned();
        self.store.read(move |database| rows::group(database, &name))
    }

    /// Returns all groups, the newest first. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn list(&self) -> Result<Vec<GroupRecord>, Fault> {
        self.store.read(rows::groups)
    }

    /// Returns the members, graphs, channels, edges and wires of a group. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn shape(&self, name: &str) -> Result<Shape, Fault> {
        let name = name.to_owned();
        self.store.read(move |database| shape::read(database, &name))
    }

    /// Returns the group of a member's session, and its id there. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn of_session(&self, session: &str) -> Result<Option<(String, String)>, Fault> {
        let session = session.to_owned();
        self.store.read(move |database| {
            database
                .prepare_cached("SELECT grp, id FROM group_members WHERE session = ?1")?
                .query_row([&session], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
        })
    }

    /// Returns the events after a number, oldest first. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn events(&self, name: &str, after: u64, limit: usize) -> Result<Vec<GroupEvent>, Fault> {
        let name = name.to_owned();
        self.store.read(move |database| rows::events(database, &name, after, limit))
    }
}
