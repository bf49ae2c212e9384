//! Connected components of a graph: which members a chain of channels and parent links connects.

use std::collections::{BTreeMap, BTreeSet};

use super::Graph;

impl Graph {
    /// Returns the components, the largest first; of two alike, the one with the first id.
    pub(super) fn components(&self) -> Vec<BTreeSet<String>> {
        let mut neighbours: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut by_channel: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (member, channels) in self.listen.iter().chain(&self.send) {
            for channel in channels.iter().filter(|it| self.channels.contains_key(*it)) {
                by_channel.entry(channel).or_default().push(member);
            }
        }
        let links = self.parents.iter().map(|(child, parent)| vec![child.as_str(), parent.as_str()]);
        for together in by_channel.into_values().chain(links) {
            // The first stands for all: that connects them, and costs less than each with each.
            let Some((first, others)) = together.split_first() else { continue };
            for other in others {
                neighbours.entry(first).or_default().insert(other);
                neighbours.entry(other).or_default().insert(first);
            }
        }
        let mut left: BTreeSet<&str> = self.members.iter().map(String::as_str).collect();
        let mut all = Vec::new();
        while let Some(first) = left.pop_first() {
            let (mut found, mut queue) = (BTreeSet::new(), vec![first]);
            while let Some(member) = queue.pop() {
                found.insert(member.to_owned());
                for next in neighbours.get(member).into_iter().flatten() {
                    if left.remove(next) {
                        queue.push(next);
                    }
                }
            }
            all.push(found);
        }
        all.sort_by_key(|it| std::cmp::Reverse(it.len()));
        all
    }

    /// Returns the part of this graph with these members.
    pub(super) fn part(&self, members: &BTreeSet<String>) -> Self {
        let of = |edges: &BTreeMap<String, BTreeSet<String>>| -> BTreeMap<String, BTreeSet<String>> {
            edges.iter().filter(|it| members.contains(it.0)).map(|it| (it.0.clone(), it.1.clone())).collect()
        };
        let (listen, send) = (of(&self.listen), of(&self.send));
        let used: BTreeSet<&String> = listen.values().chain(send.values()).flatten().collect();
        Self {
            channels: self
                .channels
                .iter()
                .filter(|it| used.contains(it.0))
                .map(|it| (it.0.clone(), it.1.clone()))
                .collect(),
            parents: self
                .parents
                .iter()
                .filter(|it| members.contains(it.0) && members.contains(it.1))
                .map(|it| (it.0.clone(), it.1.clone()))
                .collect(),
            wires: self
                .wires
                .iter()
                .filter(|it| members.contains(it.0))
                .map(|it| (it.0.clone(), it.1.clone()))
                .collect(),
            members: members.clone(),
            listen,
            send,
            cap: self.cap,
        }
    }
}
