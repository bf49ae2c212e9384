//! Calls that ran at the same time and changed the same path: an undo of one leaves the changes of the other.

use std::{collections::HashMap, path::PathBuf, time::UNIX_EPOCH};

use kit::{
    Fault,
    tracking::{Metadata, Node},
};

use super::{Entry, Fold, Tracked, TrackedCall};

/// A change of a path by another call that ran at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meanwhile {
    /// The entry of the call that is undone.
    pub(super) entry: usize,
    /// The other call.
    pub(super) call: String,
    /// Whether the other call changed the path after this one.
    pub(super) is_later: bool,
    /// Whether its change is undone.
    pub(super) is_undone: bool,
    /// Whether an undo of the whole call was made, also if it left this path alone.
    pub(super) is_tried: bool,
    /// The state in which the other call found the path.
    pub(super) found: Node,
}

impl Tracked {
    /// Returns what other calls changed of the paths of this one while it ran.
    ///
    /// # Errors
    /// When the logs can't be read.
    pub(super) fn meanwhile(&self, call: &str, fold: &Fold) -> Result<Vec<Meanwhile>, Fault> {
        let Some(own) = self.call(call)? else { return Ok(Vec::new()) };
        let settled_ms = self.settled_at(call).map_or(u64::MAX, |it| {
            u64::try_from(it.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
        });
        let mut others = self.calls(self.names()?)?;
        others.retain(|it| {
            it.call != call && it.depth % 2 == 0 && it.began_ms < settled_ms && it.at_ms >= own.began_ms
        });
        if others.is_empty() {
            return Ok(Vec::new());
        }
        let mut entries: HashMap<PathBuf, usize> = HashMap::new();
        for (number, entry) in fold.entries.iter().enumerate() {
            if !matches!(entry.node, Node::Folder(_)) && !fold.is_replaced(entry) {
                entries.insert(fold.present(&entry.path, entry.segment), number);
            }
        }
        let mut found = Vec::new();
        for other in others {
            let Some(theirs) = self.fold(&other.call)? else { continue };
            let undone = self.undone(&other.call)?.unwrap_or_default();
            for (number, their) in theirs.entries.iter().enumerate() {
                let path = theirs.present(&their.path, their.segment);
                let Some(entry) = entries.get(&path) else { continue };
                let Some(ours) = fold.entries.get(*entry) else { continue };
                found.push(Meanwhile {
                    entry: *entry,
                    call: other.call.clone(),
                    is_later: is_later((ours, &own), (their, &other)),
                    is_undone: undone.entries.contains(&number),
                    is_tried: undone.whole,
                    found: their.node.clone(),
                });
            }
        }
        Ok(found)
    }
}

/// Returns whether the other call changed the path after this one did: it found another state.
fn is_later((ours, own): (&Entry, &TrackedCall), (their, other): (&Entry, &TrackedCall)) -> bool {
    match (about(&ours.node), about(&their.node)) {
        (Some(ours), Some(theirs)) if ours.changed != theirs.changed => theirs.changed > ours.changed,
        // The file that this call found was made while the other one ran, or was there before.
        (Some(ours), None) => milliseconds(ours) < other.began_ms,
        (None, Some(theirs)) => milliseconds(theirs) >= own.began_ms,
        _ => other.at_ms > own.at_ms,
    }
}

fn about(node: &Node) -> Option<&Metadata> {
    match node {
        Node::Absent => None,
        Node::File(about) | Node::Folder(about) | Node::Special(about) => Some(about),
        Node::Link { metadata, .. } => Some(metadata),
    }
}

/// Returns the time at which a file was changed last.
fn milliseconds(about: &Metadata) -> u64 {
    let (seconds, nanoseconds) = about.changed;
    u64::try_from(seconds).unwrap_or_default() * 1_000 + u64::from(nanoseconds) / 1_000_000
}
