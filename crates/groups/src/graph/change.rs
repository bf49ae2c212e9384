//! Changes of a topology. Each is all or nothing, and says which graphs it merged or split.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Channel, Graph, Names, Topology, new_graph_id};
use crate::wiring::Wire;

/// The effect of a change on the graphs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// `nothing`, `merge` or `split`.
    pub kind: Change,
    /// The graphs before, where they changed.
    pub old_graph_ids: Vec<String>,
    /// The graphs after.
    pub new_graph_ids: Vec<String>,
    /// The members whose surroundings changed.
    pub affected: BTreeSet<String>,
}

/// Whether a change merged or split graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Neither.
    Nothing,
    /// Two graphs became one.
    Merge,
    /// One graph became several.
    Split,
}

/// The direction of an edge between a member and a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The member may send.
    Send,
    /// The member listens.
    Listen,
}

/// Why a change is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// There is no member of this id.
    #[error("there is no agent `{0}` in the group")]
    NoMember(String),
    /// There is no graph of this id.
    #[error("there is no graph `{0}` in the group")]
    NoGraph(String),
    /// The graph has no such channel.
    #[error("this graph has no channel '{0}'")]
    NoChannel(String),
    /// The graph has the channel already.
    #[error("the channel name '{0}' is taken in your graph")]
    IsChannel(String),
    /// The graph has a member of this name or id already.
    #[error("the agent name '{name}' is taken in graph '{graph}'")]
    IsMember {
        /// The graph.
        graph: String,
        /// The name.
        name: String,
    },
    /// No other member fits.
    #[error("population cap reached ({0}/{1}). Remove a member with group_remove_node first.")]
    Full(usize, usize),
    /// Both graphs have a channel of this name.
    #[error("the two graphs stay apart, as both use these channel names: {0:?}")]
    Collide(Vec<String>),
}

impl Change {
    /// Returns its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Merge => "merge",
            Self::Split => "split",
        }
    }
}

impl Direction {
    /// Returns its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Listen => "listen",
        }
    }
}

impl Delta {
    fn nothing(graph: &str, affected: BTreeSet<String>) -> Self {
        let ids = vec![graph.to_owned()];
        Self { kind: Change::Nothing, old_graph_ids: ids.clone(), new_graph_ids: ids, affected }
    }
}

impl Topology {
    /// Adds an empty graph. Returns its id.
    pub fn add_graph(&mut self, cap: usize) -> String {
        let id = new_graph_id();
        self.graphs.insert(id.clone(), Graph { cap, ..Graph::default() });
        id
    }

    /// Adds a member to a graph, linked to its parent if it has one there.
    ///
    /// # Errors
    /// When the graph is full, or has a member of that name.
    pub fn add_member(
        &mut self,
        graph: &str,
        id: &str,
        names: Names,
        parent: Option<&str>,
    ) -> Result<(), Broken> {
        let all = &self.names;
        let here = self.graphs.get_mut(graph).ok_or_else(|| Broken::NoGraph(graph.to_owned()))?;
        let is_taken = |it: &String| all.get(it).is_some_and(|it| it.name == names.name);
        if here.is_full() {
            return Err(Broken::Full(here.members.len(), here.cap));
        }
        if all.contains_key(id) || here.members.iter().any(is_taken) {
            return Err(Broken::IsMember { graph: graph.to_owned(), name: names.name });
        }
        here.members.insert(id.to_owned());
        here.listen.entry(id.to_owned()).or_default();
        here.send.entry(id.to_owned()).or_default();
        if let Some(parent) = parent.filter(|it| *it != id && here.members.contains(*it)) {
            here.parents.insert(id.to_owned(), parent.to_owned());
        }
        self.names.insert(id.to_owned(), names);
        Ok(())
    }

    /// Removes a member with its edges, links and wires. The graph may split.
    ///
    /// # Errors
    /// When there is no such member.
    pub fn remove_member(&mut self, id: &str) -> Result<Delta, Broken> {
        let graph_id = self.id_of(id)?;
        self.names.remove(id);
        let Some(graph) = self.graphs.get_mut(&graph_id) else { return Err(Broken::NoGraph(graph_id)) };
        graph.members.remove(id);
        graph.listen.remove(id);
        graph.send.remove(id);
        graph.wires.remove(id);
        graph.parents.retain(|child, parent| child != id && parent != id);
        for wires in graph.wires.values_mut() {
            wires.retain(|it| it.to != id);
        }
        if graph.members.is_empty() {
            self.graphs.remove(&graph_id);
            return Ok(Delta::nothing(&graph_id, BTreeSet::from([id.to_owned()])));
        }
        Ok(self.settle(&graph_id, BTreeSet::from([id.to_owned()])))
    }

    /// Adds a channel.
    ///
    /// # Errors
    /// When there is one of that name.
    pub fn add_channel(&mut self, graph: &str, name: &str, channel: Channel) -> Result<(), Broken> {
        let here = self.graphs.get_mut(graph).ok_or_else(|| Broken::NoGraph(graph.to_owned()))?;
        if here.channels.contains_key(name) {
            return Err(Broken::IsChannel(name.to_owned()));
        }
        here.channels.insert(name.to_owned(), channel);
        Ok(())
    }

    /// Removes a channel with its edges. The graph may split.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn remove_channel(&mut self, graph: &str, name: &str) -> Result<Delta, Broken> {
        let here = self.graphs.get_mut(graph).ok_or_else(|| Broken::NoGraph(graph.to_owned()))?;
        if here.channels.remove(name).is_none() {
            return Err(Broken::NoChannel(name.to_owned()));
        }
        let mut affected = BTreeSet::new();
        for (member, edges) in here.listen.iter_mut().chain(&mut here.send) {
            if edges.remove(name) {
                affected.insert(member.clone());
            }
        }
        Ok(self.settle(graph, affected))
    }

    /// Adds or removes the edge of a member to a channel of its graph. The graph may split.
    ///
    /// # Errors
    /// When there is no such member or channel.
    pub fn set_edge(
        &mut self,
        member: &str,
        channel: &str,
        direction: Direction,
        is_there: bool,
    ) -> Result<Delta, Broken> {
        let graph_id = self.id_of(member)?;
        let Some(graph) = self.graphs.get_mut(&graph_id) else { return Err(Broken::NoGraph(graph_id)) };
        if !graph.channels.contains_key(channel) {
            return Err(Broken::NoChannel(channel.to_owned()));
        }
        let edges = match direction {
            Direction::Listen => graph.listen.entry(member.to_owned()).or_default(),
            Direction::Send => graph.send.entry(member.to_owned()).or_default(),
        };
        let affected = BTreeSet::from([member.to_owned()]);
        if is_there {
            edges.insert(channel.to_owned());
            return Ok(Delta::nothing(&graph_id, affected));
        }
        edges.remove(channel);
        Ok(self.settle(&graph_id, affected))
    }

    /// Connects a sender with a receiver by a channel, which is added if there is none. Merges their graphs.
    ///
    /// # Errors
    /// When there is no such member, or both graphs have channels of the same name, or they don't fit into one.
    pub fn connect(&mut self, sender: &str, receiver: &str, channel: &str) -> Result<Delta, Broken> {
        let delta = self.merge(sender, receiver)?;
        let graph_id = self.id_of(sender)?;
        if let Some(graph) = self.graphs.get_mut(&graph_id) {
            graph.channels.entry(channel.to_owned()).or_default();
            graph.send.entry(sender.to_owned()).or_default().insert(channel.to_owned());
            graph.listen.entry(receiver.to_owned()).or_default().insert(channel.to_owned());
        }
        Ok(delta)
    }

    /// Adds an output wire. One that is there already stays as it is. Returns its id.
    ///
    /// # Errors
    /// When there is no such member.
    pub fn add_wire(&mut self, from: &str, wire: Wire) -> Result<String, Broken> {
        let graph_id = self.id_of(from)?;
        let id = wire.id();
        if let Some(graph) = self.graphs.get_mut(&graph_id) {
            let wires = graph.wires.entry(from.to_owned()).or_default();
            if wires.iter().all(|it| it.id() != id) {
                wires.push(wire);
            }
        }
        Ok(id)
    }

    /// Removes an output wire. Returns whether there was one.
    ///
    /// # Errors
    /// When there is no such member.
    pub fn remove_wire(&mut self, from: &str, edge: &str) -> Result<bool, Broken> {
        let graph_id = self.id_of(from)?;
        let wires = self.graphs.get_mut(&graph_id).and_then(|it| it.wires.get_mut(from));
        Ok(wires.is_some_and(|wires| {
            let before = wires.len();
            wires.retain(|it| it.id() != edge);
            wires.len() < before
        }))
    }

    /// Makes a member the root: privileged, listening to every channel, and all others may report to it.
    ///
    /// # Errors
    /// When there is no such member.
    pub fn assign_root(&mut self, root: &str) -> Result<(), Broken> {
        let graph_id = self.id_of(root)?;
        if let Some(names) = self.names.get_mut(root) {
            names.is_privileged = true;
        }
        let Some(graph) = self.graphs.get_mut(&graph_id) else { return Err(Broken::NoGraph(graph_id)) };
        graph.channels.entry(REPORT.to_owned()).or_insert_with(|| Channel {
            description: "Results and questions for the root".to_owned(),
            direct: false,
        });
        let channels: Vec<String> = graph.channels.keys().cloned().collect();
        graph.listen.entry(root.to_owned()).or_default().extend(channels);
        for member in graph.members.iter().filter(|it| *it != root) {
            graph.send.entry(member.clone()).or_default().insert(REPORT.to_owned());
        }
        Ok(())
    }

    fn id_of(&self, member: &str) -> Result<String, Broken> {
        let found = self.graph_of(member).map(|it| it.0.clone());
        found.ok_or_else(|| Broken::NoMember(member.to_owned()))
    }

    /// Merges the graph of `other` into that of `one`.
    fn merge(&mut self, one: &str, other: &str) -> Result<Delta, Broken> {
        let (into, from) = (self.id_of(one)?, self.id_of(other)?);
        if into == from {
            return Ok(Delta::nothing(&into, BTreeSet::from([one.to_owned(), other.to_owned()])));
        }
        let (Some(here), Some(there)) = (self.graphs.get(&into), self.graphs.get(&from)) else {
            return Err(Broken::NoGraph(from));
        };
        let both: Vec<String> =
            here.channels.keys().filter(|it| there.channels.contains_key(*it)).cloned().collect();
        if !both.is_empty() {
            return Err(Broken::Collide(both));
        }
        let name = |it: &String| self.names.get(it).map(|it| it.name.clone());
        let names: BTreeSet<String> = here.members.iter().filter_map(name).collect();
        if let Some(twice) = there.members.iter().filter_map(name).find(|it| names.contains(it)) {
            return Err(Broken::IsMember { graph: into, name: twice });
        }
        let all = here.members.len() + there.members.len();
        let cap = match (here.cap, there.cap) {
            (0, cap) | (cap, 0) => cap,
            (one, other) => one.min(other),
        };
        if cap > 0 && all > cap {
            return Err(Broken::Full(all, cap));
        }
        let (Some(there), Some(here)) = (self.graphs.remove(&from), self.graphs.get_mut(&into)) else {
            return Err(Broken::NoGraph(from));
        };
        here.members.extend(there.members);
        here.channels.extend(there.channels);
        here.listen.extend(there.listen);
        here.send.extend(there.send);
        here.parents.extend(there.parents);
        here.wires.extend(there.wires);
        here.cap = cap;
        Ok(Delta {
            kind: Change::Merge,
            affected: here.members.clone(),
            old_graph_ids: vec![into.clone(), from],
            new_graph_ids: vec![into],
        })
    }

    /// Splits a graph that is no longer connected. The largest part keeps the id.
    fn settle(&mut self, graph_id: &str, affected: BTreeSet<String>) -> Delta {
        let Some(graph) = self.graphs.get(graph_id) else { return Delta::nothing(graph_id, affected) };
        let parts = graph.components();
        if parts.len() <= 1 {
            return Delta::nothing(graph_id, affected);
        }
        let all = &affected | &graph.members;
        let graphs: Vec<Graph> = parts.iter().map(|it| graph.part(it)).collect();
        let mut ids = Vec::new();
        for (at, part) in graphs.into_iter().enumerate() {
            let id = if at == 0 { graph_id.to_owned() } else { new_graph_id() };
            self.graphs.insert(id.clone(), part);
            ids.push(id);
        }
        Delta {
            kind: Change::Split,
            old_graph_ids: vec![graph_id.to_owned()],
            new_graph_ids: ids,
            affected: all,
        }
    }
}

/// The channel by which every member reports to the root.
pub const REPORT: &str = "report_to_root";
