//! Rows of groups, their members and their events.

use kit::redact::Secrets;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use super::{EVENTS, mask};
use crate::now_ms;

/// A group.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupRecord {
    /// Its name.
    pub name: String,
    /// The file of its recipe.
    pub file: String,
    /// The recipe.
    pub recipe: Value,
    /// The limits of the whole group.
    pub limits: Value,
    /// `running`, `paused`, `stopped` or `done`.
    pub state: String,
    /// The number of changes of its shape.
    pub generation: u64,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// The use of all members, those that left among them.
    pub used: Used,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberRecord {
    /// Its id.
    pub id: String,
    /// Its display name.
    pub name: String,
    /// Its session.
    pub session: String,
    /// Its graph.
    pub graph: String,
    /// The id of the member that started it.
    pub parent: Option<String>,
    /// Whether it may change the group.
    pub privileged: bool,
    /// Its config.
    pub spec: Value,
    /// Whether it runs; kept by [`Groups::set_flags`](super::Groups::set_flags) once it is there.
    pub running: bool,
    /// Whether it admits no turn.
    pub paused: bool,
    /// Whether it was killed.
    pub killed: bool,
    /// The number of the row of its log up to which everything is done.
    pub seen: u64,
    /// Its use.
    pub used: Used,
}

/// The use of a member.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Used {
    /// Turns.
    pub turns: u64,
    /// Tokens, of requests and answers together.
    pub tokens: u64,
    /// Model responses.
    pub steps: u64,
    /// Dollars, where they are known.
    pub cost: f64,
}

/// An event of a group to be appended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewGroupEvent {
    /// Its kind: `creature_added`, `topology_changed`.
    pub kind: String,
    /// The id of the member that it is about.
    pub member: Option<String>,
    /// The graph that it is about.
    pub graph: Option<String>,
    /// Everything else.
    pub body: Value,
}

/// An event of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupEvent {
    /// Its number.
    pub seq: u64,
    /// When it happened, in milliseconds since 1970.
    pub at_ms: u64,
    /// The event.
    pub event: NewGroupEvent,
}

impl std::ops::AddAssign for Used {
    fn add_assign(&mut self, more: Self) {
        self.turns += more.turns;
        self.tokens += more.tokens;
        self.steps += more.steps;
        self.cost += more.cost;
    }
}

const GROUP: &str =
    "SELECT name, file, recipe, limits, state, generation, created_ms, turns, tokens, steps, cost
  FROM groups";

pub(super) fn group(database: &Connection, name: &str) -> rusqlite::Result<Option<GroupRecord>> {
    database.prepare_cached(&format!("{GROUP} WHERE name = ?1"))?.query_row([name], record).optional()
}

pub(super) fn groups(database: &Connection) -> rusqlite::Result<Vec<GroupRecord>> {
    database
        .prepare_cached(&format!("{GROUP} ORDER BY created_ms DESC, name"))?
        .query_map([], record)?
        .collect()
}

fn record(row: &Row<'_>) -> rusqlite::Result<GroupRecord> {
    Ok(GroupRecord {
        name: row.get(0)?,
        file: row.get(1)?,
        recipe: json(row, 2)?,
        limits: json(row, 3)?,
        state: row.get(4)?,
        generation: row.get::<_, i64>(5)?.cast_unsigned(),
        created_ms: row.get::<_, i64>(6)?.cast_unsigned(),
        used: Used {
            turns: row.get::<_, i64>(7)?.cast_unsigned(),
            tokens: row.get::<_, i64>(8)?.cast_unsigned(),
            steps: row.get::<_, i64>(9)?.cast_unsigned(),
            cost: row.get(10)?,
        },
    })
}

/// Reads a column of JSON. What can't be read is null: a newer haft may have another form.
pub(super) fn json(row: &Row<'_>, at: usize) -> rusqlite::Result<Value> {
    Ok(serde_json::from_str(&row.get::<_, String>(at)?).unwrap_or_default())
}

pub(super) fn members(database: &Connection, name: &str) -> rusqlite::Result<Vec<MemberRecord>> {
    database
        .prepare_cached(
            "SELECT g.id, g.name, g.session, g.graph, g.parent, g.privileged, g.spec, g.running, g.paused, g.killed,
               g.seen, g.turns, g.tokens, g.steps, g.cost
             FROM group_members g WHERE g.grp = ?1 ORDER BY g.place",
        )?
        .query_map([name], |row| {
            let number = |at: usize| row.get::<_, i64>(at).map(i64::cast_unsigned);
            Ok(MemberRecord {
                id: row.get(0)?,
                name: row.get(1)?,
                session: row.get(2)?,
                graph: row.get(3)?,
                parent: row.get(4)?,
                privileged: row.get(5)?,
                spec: json(row, 6)?,
                running: row.get(7)?,
                paused: row.get(8)?,
                killed: row.get(9)?,
                seen: number(10)?,
                used: Used { turns: number(11)?, tokens: number(12)?, steps: number(13)?, cost: row.get(14)? },
            })
        })?
        .collect()
}

pub(super) fn add_events(
    database: &Connection,
    name: &str,
    events: &[NewGroupEvent],
    secrets: &Secrets,
) -> rusqlite::Result<()> {
    for event in events {
        let mut body = event.body.clone();
        mask(&mut body, secrets, &[]);
        database
            .prepare_cached(
                "INSERT INTO group_events (grp, at_ms, kind, member, graph, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                name,
                now_ms().cast_signed(),
                event.kind,
                event.member,
                event.graph,
                body.to_string()
            ])?;
        if database.last_insert_rowid() % 64 == 0 {
            database
                .prepare_cached(
                    "DELETE FROM group_events WHERE grp = ?1 AND seq < (
                       SELECT seq FROM group_events WHERE grp = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)",
                )?
                .execute(params![name, EVENTS])?;
        }
    }
    Ok(())
}

pub(super) fn events(
    database: &Connection,
    name: &str,
    after: u64,
    limit: usize,
) -> rusqlite::Result<Vec<GroupEvent>> {
    database
        .prepare_cached(
            "SELECT seq, at_ms, kind, member, graph, body FROM group_events
             WHERE grp = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
        )?
        .query_map(params![name, after.cast_signed(), i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
            Ok(GroupEvent {
                seq: row.get::<_, i64>(0)?.cast_unsigned(),
                at_ms: row.get::<_, i64>(1)?.cast_unsigned(),
                event: NewGroupEvent {
                    kind: row.get(2)?,
                    member: row.get(3)?,
                    graph: row.get(4)?,
                    body: json(row, 5)?,
                },
            })
        })?
        .collect()
}
