//! The graph of a group: members, channels, listen and send edges, parent links, output wires.
//!
//! Two members belong to the same graph if a chain of channels and parent links connects them. So a change may merge two
//! graphs into one, and split one into several. This is data only: nothing here runs an agent.

mod change;
mod components;
mod target;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::wiring::Wire;
pub use change::{Broken, Change, Delta, Direction, REPORT};
pub use target::Unresolved;

/// All graphs of one group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// The graphs, by their ids.
    pub graphs: BTreeMap<String, Graph>,
    /// The names of all members, by their ids.
    pub names: BTreeMap<String, Names>,
}

/// The names by which others reach a member.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// Its name.
    pub name: String,
    /// Whether it may change the group.
    pub is_privileged: bool,
}

/// One connected component.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Graph {
    /// The ids of its members.
    pub members: BTreeSet<String>,
    /// Its channels, by their names.
    pub channels: BTreeMap<String, Channel>,
    /// The channels that each member listens to.
    pub listen: BTreeMap<String, BTreeSet<String>>,
    /// The channels that each member may send to.
    pub send: BTreeMap<String, BTreeSet<String>>,
    /// The parent of each member that another one started.
    pub parents: BTreeMap<String, String>,
    /// The output wires of each member, in their order.
    pub wires: BTreeMap<String, Vec<Wire>>,
    /// Maximum number of members; 0 means no limit.
    pub cap: usize,
}

/// A channel. Each message reaches every listener but its sender.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    /// Its purpose.
    pub description: String,
    /// Whether it is the channel of one member, which has its name.
    pub direct: bool,
}

/// The description of a member's direct channel.
pub fn direct_description(member: &str) -> String {
    format!("Direct channel to {member}")
}

/// Returns 12 hexadecimal digits of a new id.
pub fn hex12() -> String {
    let mut bytes = [0; 6];
    // Without randomness the time still tells ids apart.
    if getrandom::fill(&mut bytes).is_err() {
        let now = store::now_ms().to_be_bytes();
        bytes.copy_from_slice(now.last_chunk::<6>().unwrap_or(&[0; 6]));
    }
    bytes.iter().fold(String::new(), |all, it| format!("{all}{it:02x}"))
}

/// Returns a new id of a graph.
pub fn new_graph_id() -> String {
    format!("graph_{}", hex12())
}

/// Returns a new id for a member of this name: the name with 8 hexadecimal digits.
pub fn new_member_id(name: &str) -> String {
    let clean: String =
        name.chars().map(|it| if it.is_alphanumeric() || "-_".contains(it) { it } else { '_' }).collect();
    let clean = if clean.is_empty() { "agent" } else { &clean };
    let hex = hex12();
    format!("{clean}_{}", hex.get(..8).unwrap_or(&hex))
}

impl Topology {
    /// Returns the id and the graph of a member.
    pub fn graph_of(&self, member: &str) -> Option<(&String, &Graph)> {
        self.graphs.iter().find(|(_, graph)| graph.members.contains(member))
    }

    /// Returns the name of a member; its id, if it is unknown.
    pub fn name<'a>(&'a self, member: &'a str) -> &'a str {
        self.names.get(member).map_or(member, |it| &it.name)
    }

    /// Returns whether a member may change the group.
    pub fn is_privileged(&self, member: &str) -> bool {
        self.names.get(member).is_some_and(|it| it.is_privileged)
    }

    /// Returns the privileged members of a graph.
    pub fn privileged_of<'a>(&'a self, graph: &'a Graph) -> impl Iterator<Item = &'a str> {
        graph.members.iter().map(String::as_str).filter(|it| self.is_privileged(it))
    }

    /// Returns the parent of a member.
    pub fn parent_of(&self, member: &str) -> Option<&str> {
        self.graph_of(member)?.1.parents.get(member).map(String::as_str)
    }

    /// Returns how many members are above this one.
    pub fn depth_of(&self, member: &str) -> usize {
        let (mut at, mut depth) = (member, 0);
        while let Some(parent) = self.parent_of(at) {
            (at, depth) = (parent, depth + 1);
            // A cycle can't come up by the changes here, but may be in a file.
            if depth > self.names.len() {
                break;
            }
        }
        depth
    }
}

impl Graph {
    /// Returns the channels that a member listens to.
    pub fn listens(&self, member: &str) -> impl Iterator<Item = &str> {
        self.listen.get(member).into_iter().flatten().map(String::as_str)
    }

    /// Returns the channels that a member may send to.
    pub fn sends(&self, member: &str) -> impl Iterator<Item = &str> {
        self.send.get(member).into_iter().flatten().map(String::as_str)
    }

    /// Returns the members that listen to a channel.
    pub fn listeners<'a>(&'a self, channel: &'a str) -> impl Iterator<Item = &'a str> {
        self.listen.iter().filter(move |it| it.1.contains(channel)).map(|it| it.0.as_str())
    }

    /// Returns the members that may send to a channel.
    pub fn senders<'a>(&'a self, channel: &'a str) -> impl Iterator<Item = &'a str> {
        self.send.iter().filter(move |it| it.1.contains(channel)).map(|it| it.0.as_str())
    }

    /// Returns the wires of a member.
    pub fn wires_of(&self, member: &str) -> &[Wire] {
        self.wires.get(member).map_or(&[], Vec::as_slice)
    }

    /// Returns whether no other member fits.
    pub fn is_full(&self) -> bool {
        self.cap > 0 && self.members.len() >= self.cap
    }
}
