//! The public types: work, workers, leases, states, events.

use std::{collections::BTreeSet, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{BlobId, Key};

/// The size of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grain {
    /// An agent's task: a whole session.
    Session,
    /// One call of a tool.
    Call,
}

/// One piece of work, as its sender offers it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    pub key: Key,
    pub grain: Grain,
    /// Labels that a worker must have, all of them.
    pub labels: BTreeSet<String>,
    /// Further things that a worker must have, all of them.
    pub needs: Vec<Need>,
    /// The protocol between sender and worker; a worker takes its own number only.
    pub protocol: u32,
    /// The sender's version of haft, for people.
    pub haft: String,
    /// The task itself, which the engine does not read. A large one travels as a blob without the caller noticing.
    pub task: Value,
    /// The manifest of the workspace's snapshot.
    pub snapshot: Option<BlobId>,
    /// The sender's limits: a worker may only narrow its own by them.
    pub limits: Value,
    /// Whether the work may run again although it may have begun.
    pub idempotent: bool,
}

/// Something that a worker must have to be given a piece of work. Compared by equality, so a tool of another version, by its
/// hash, does not fit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Need {
    Tool { name: String, hash: String },
    Secret { name: String },
    McpServer { name: String, hash: String },
    Profile { name: String },
}

/// A worker, as it announces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    /// Unique among all workers of the engine, and new for each process.
    pub id: String,
    pub host: String,
    pub labels: BTreeSet<String>,
    /// How many pieces of work it runs at once.
    pub slots: u32,
    pub busy: u32,
    /// Its version of haft.
    pub version: String,
    pub protocol: u32,
    /// It finishes its work and takes no more.
    pub draining: bool,
    pub has: Vec<Need>,
}

impl Worker {
    /// Returns whether this worker may take the work: it has all labels and needs, and speaks the same protocol.
    pub fn fits(&self, work: &Work) -> bool {
        Route::of(work).fits(self)
    }
}

/// The demands of a piece of work on a worker. Work with the same demands shares a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Route {
    pub(crate) labels: BTreeSet<String>,
    pub(crate) needs: BTreeSet<Need>,
    pub(crate) protocol: u32,
}

impl Route {
    pub(crate) fn of(work: &Work) -> Self {
        let needs = work.needs.iter().cloned().collect();
        Self { labels: work.labels.clone(), needs, protocol: work.protocol }
    }

    /// Returns the name of its queue.
    pub(crate) fn hash(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        blake3::hash(&text).to_hex().chars().take(32).collect()
    }

    pub(crate) fn fits(&self, worker: &Worker) -> bool {
        self.protocol == worker.protocol
            && self.labels.is_subset(&worker.labels)
            && self.needs.iter().all(|it| worker.has.contains(it))
    }
}

/// The end of a piece of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// Its result, and the patch of the workspace. A large result travels as a blob without the caller noticing.
    Done {
        result: Value,
        patch: Option<BlobId>,
    },
    Failed {
        error: String,
    },
    /// The worker was lost after the work had begun: it may have happened, wholly or in part.
    Interrupted,
    /// Cancelled before it began, or by the worker that ran it.
    Cancelled,
}

/// The state of a piece of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum State {
    /// It waits for a worker.
    Offered,
    /// A worker has it. Once `begun`, it may have happened.
    Leased {
        worker: String,
        begun: bool,
    },
    Ended(Outcome),
}

/// The state of a piece of work, with its revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    #[serde(flatten)]
    pub state: State,
    pub cancel_requested: bool,
    /// The revision of its record: it grows with each change.
    pub revision: u64,
    /// How often it was offered again after a worker lost it.
    pub retries: u32,
}

impl Status {
    /// Returns whether it differs by its revision at most.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (&self.state, self.cancel_requested, self.retries)
            == (&other.state, other.cancel_requested, other.retries)
    }
}

/// One numbered row of a piece of work, in order from 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub number: u64,
    pub value: Value,
}

/// One item of [`Engine::watch`](crate::Engine::watch).
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    State(Status),
    Event(Event),
}

/// Why a worker must stop a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Someone cancelled it: stop, then finish it with [`Outcome::Cancelled`] or what there is.
    Cancelled,
    /// Another holder took it over, or it ended: stop; nothing of it is accepted any more.
    Lost,
}

/// A request to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// Finish what runs and take no more.
    Drain,
    /// Cancel what runs, and end.
    Stop,
}

/// One piece of work of [`Engine::list`](crate::Engine::list).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    pub key: Key,
    pub grain: Grain,
    pub labels: BTreeSet<String>,
    pub status: Status,
}

/// A content to store.
#[derive(Clone, Debug)]
pub enum Source {
    Bytes(Vec<u8>),
    File(PathBuf),
}
