//! The shape of a group: its members and graphs, and the channels, edges and wires between them, written as a whole.

use std::collections::{BTreeMap, BTreeSet};

use kit::redact::Secrets;
use rusqlite::{Connection, params};
use serde_json::Value;

use super::{
    MemberRecord, mask,
    rows::{json, members},
};
use crate::now_ms;

/// Everything about a group that a change of its graph may change.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shape {
    /// Its graphs.
    pub graphs: Vec<GraphRecord>,
    /// Its members, in their order. Flags and use of those that are there already stay as they are.
    pub members: Vec<MemberRecord>,
    /// Its channels.
    pub channels: Vec<ChannelRecord>,
    /// Its edges.
    pub edges: Vec<EdgeRecord>,
    /// Its output wires, in their order.
    pub wires: Vec<WireRecord>,
}

/// A graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphRecord {
    /// Its id.
    pub id: String,
    /// Maximum number of members; 0 means no limit.
    pub cap: u64,
}

/// A channel of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelRecord {
    /// The graph.
    pub graph: String,
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub description: String,
}

/// An edge between a member and a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeRecord {
    /// The graph.
    pub graph: String,
    /// The channel.
    pub channel: String,
    /// The session of the member.
    pub session: String,
    /// Whether the member listens; else it may send.
    pub listens: bool,
}

/// An output wire.
#[derive(Debug, Clone, PartialEq)]
pub struct WireRecord {
    /// The id of its source.
    pub source: String,
    /// Its fields.
    pub body: Value,
}

/// The scope of a graph's channels. It is that of [`Scope::Environment`](crate::channels::Scope) of `env_<graph>`.
fn scope(graph: &str) -> String {
    format!("environment env_{graph}")
}

/// Replaces the shape of a group. A channel that is in another graph now keeps its history.
pub(super) fn write(
    database: &Connection,
    group: &str,
    shape: &Shape,
    secrets: &Secrets,
) -> rusqlite::Result<()> {
    let before: Vec<String> = database
        .prepare_cached("SELECT id FROM group_graphs WHERE grp = ?1")?
        .query_map([group], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    channels(database, shape, &before)?;
    database.prepare_cached("DELETE FROM group_graphs WHERE grp = ?1")?.execute([group])?;
    for graph in &shape.graphs {
        database
            .prepare_cached("INSERT INTO group_graphs (grp, id, cap) VALUES (?1, ?2, ?3)")?
            .execute(params![group, graph.id, graph.cap.cast_signed()])?;
    }
    write_members(database, group, shape, secrets)?;
    database.prepare_cached("DELETE FROM group_wires WHERE grp = ?1")?.execute([group])?;
    for (place, wire) in shape.wires.iter().enumerate() {
        database
            .prepare_cached("INSERT INTO group_wires (grp, place, source, body) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![group, place as i64, wire.source, wire.body.to_string()])?;
    }
    Ok(())
}

/// Moves, adds and removes channels, and replaces their edges.
fn channels(database: &Connection, shape: &Shape, before: &[String]) -> rusqlite::Result<()> {
    let mut there: BTreeMap<(String, String), ()> = BTreeMap::new();
    for graph in before {
        let scope = scope(graph);
        let names: Vec<String> = database
            .prepare_cached("SELECT name FROM channels WHERE scope = ?1")?
            .query_map([&scope], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        there.extend(names.into_iter().map(|name| ((scope.clone(), name), ())));
        database.prepare_cached("DELETE FROM channel_edges WHERE scope = ?1")?.execute([&scope])?;
    }
    let wanted: BTreeSet<(String, String)> =
        shape.channels.iter().map(|it| (scope(&it.graph), it.name.clone())).collect();
    for channel in &shape.channels {
        let to = scope(&channel.graph);
        let at_home = there.remove(&(to.clone(), channel.name.clone())).is_some();
        // Not one that another graph of the group goes on to have under the same name.
        let moved = there.keys().find(|it| it.1 == channel.name && !wanted.contains(*it)).cloned();
        match moved.filter(|_| !at_home) {
            Some(from) => {
                there.remove(&from);
                database
                    .prepare_cached("UPDATE channels SET scope = ?3 WHERE scope = ?1 AND name = ?2")?
                    .execute([&from.0, &from.1, &to])?;
                for table in ["channel_messages", "channel_readers"] {
                    let sql = format!("UPDATE {table} SET scope = ?3 WHERE scope = ?1 AND channel = ?2");
                    database.prepare_cached(&sql)?.execute([&from.0, &from.1, &to])?;
                }
            }
            None => {
                database
                    .prepare_cached(
                        "INSERT OR IGNORE INTO channels (scope, name, kind, description, capacity, created_ms)
                         VALUES (?1, ?2, 'broadcast', ?3, 0, ?4)",
                    )?
                    .execute(params![to, channel.name, channel.description, now_ms().cast_signed()])?;
            }
        }
        database
            .prepare_cached("UPDATE channels SET description = ?3 WHERE scope = ?1 AND name = ?2")?
            .execute([&to, &channel.name, &channel.description])?;
    }
    for (scope, name) in there.into_keys() {
        database
            .prepare_cached("DELETE FROM channels WHERE scope = ?1 AND name = ?2")?
            .execute([&scope, &name])?;
        for table in ["channel_messages", "channel_readers"] {
            let sql = format!("DELETE FROM {table} WHERE scope = ?1 AND channel = ?2");
            database.prepare_cached(&sql)?.execute([&scope, &name])?;
        }
    }
    for edge in &shape.edges {
        let direction = if edge.listens { "listen" } else { "send" };
        database
            .prepare_cached(
                "INSERT OR IGNORE INTO channel_edges (scope, channel, session, direction) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute([&scope(&edge.graph), &edge.channel, &edge.session, direction])?;
    }
    Ok(())
}

fn write_members(
    database: &Connection,
    group: &str,
    shape: &Shape,
    secrets: &Secrets,
) -> rusqlite::Result<()> {
    let known: Vec<(String, String)> = database
        .prepare_cached("SELECT id, session FROM group_members WHERE grp = ?1")?
        .query_map([group], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (id, session) in known.iter().filter(|known| shape.members.iter().all(|it| it.id != known.0)) {
        database
            .prepare_cached("DELETE FROM group_members WHERE grp = ?1 AND id = ?2")?
            .execute([group, id])?;
        database.prepare_cached("DELETE FROM members WHERE session = ?1")?.execute([session])?;
    }
    for (place, member) in shape.members.iter().enumerate() {
        let mut spec = member.spec.clone();
        mask(&mut spec, secrets, &[]);
        database
            .prepare_cached(
                "INSERT INTO group_members
                   (grp, id, place, name, session, graph, parent, privileged, spec, running, paused, killed)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
                 ON CONFLICT (grp, id) DO UPDATE SET place = excluded.place, name = excluded.name,
                   graph = excluded.graph, parent = excluded.parent, privileged = excluded.privileged",
            )?
            .execute(params![
                group,
                member.id,
                place as i64,
                member.name,
                member.session,
                member.graph,
                member.parent,
                member.privileged,
                spec.to_string(),
                member.running,
                member.paused,
                member.killed
            ])?;
        let parent = shape.members.iter().find(|it| Some(&it.id) == member.parent.as_ref());
        database
            .prepare_cached(
                "INSERT INTO members (session, environment, id, name, parent, privileged, running)
                 VALUES (?1, 'env_' || ?2, ?3, ?4, ?5, ?6, ?7)
                 ON CONFLICT (session) DO UPDATE SET environment = excluded.environment, name = excluded.name,
                   parent = excluded.parent, privileged = excluded.privileged",
            )?
            .execute(params![
                member.session,
                member.graph,
                member.id,
                member.name,
                parent.map(|it| &it.session),
                member.privileged,
                member.running
            ])?;
    }
    Ok(())
}

/// Reads the shape of a group.
pub(super) fn read(database: &Connection, group: &str) -> rusqlite::Result<Shape> {
    let graphs: Vec<GraphRecord> = database
        .prepare_cached("SELECT id, cap FROM group_graphs WHERE grp = ?1 ORDER BY id")?
        .query_map([group], |row| {
            Ok(GraphRecord { id: row.get(0)?, cap: row.get::<_, i64>(1)?.cast_unsigned() })
        })?
        .collect::<rusqlite::Result<_>>()?;
    let mut shape = Shape { members: members(database, group)?, ..Shape::default() };
    for graph in &graphs {
        let scope = scope(&graph.id);
        let channels = database
            .prepare_cached("SELECT name, description FROM channels WHERE scope = ?1 ORDER BY name")?
            .query_map([&scope], |row| {
                Ok(ChannelRecord { graph: graph.id.clone(), name: row.get(0)?, description: row.get(1)? })
            })?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        shape.channels.extend(channels);
        let edges = database
            .prepare_cached(
                "SELECT channel, session, direction FROM channel_edges WHERE scope = ?1
                 ORDER BY channel, session, direction",
            )?
            .query_map([&scope], |row| {
                Ok(EdgeRecord {
                    graph: graph.id.clone(),
                    channel: row.get(0)?,
                    session: row.get(1)?,
                    listens: row.get::<_, String>(2)? == "listen",
                })
            })?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        shape.edges.extend(edges);
    }
    shape.graphs = graphs;
    shape.wires = database
        .prepare_cached("SELECT source, body FROM group_wires WHERE grp = ?1 ORDER BY place")?
        .query_map([group], |row| Ok(WireRecord { source: row.get(0)?, body: json(row, 1)? }))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(shape)
}
