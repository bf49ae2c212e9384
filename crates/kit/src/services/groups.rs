//! The group that an agent belongs to: its members, channels and wires.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Soon;
use crate::{Fault, Kind};

/// The tools of an agent that may change its group.
pub const PRIVILEGED_TOOLS: [&str; 11] = [
    "group_status",
    "group_spawn_child",
    "group_add_node",
    "group_remove_node",
    "group_start_node",
    "group_stop_node",
    "group_pause_node",
    "group_resume_node",
    "group_kill_node",
    "group_channel",
    "group_wire",
];

/// The group of a session's agent.
pub trait Groups: Send + Sync {
    /// Does this in the group, in the name of the session's agent. Returns the result as the model reads it.
    ///
    /// # Errors
    /// [`Kind::Denied`] for an agent that may not change its group, and the reasons of each action.
    fn act(&self, act: GroupAct) -> Soon<'_, Result<Value, Fault>>;
}

/// An action in a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupAct {
    /// Shows the group.
    Status {
        /// How many of the newest messages of each channel are shown.
        history: Option<usize>,
        /// Whether the configs that can be started are shown.
        spawnable: bool,
    },
    /// Adds a member.
    Add(NewNode),
    /// Changes the life of a member.
    Life {
        /// Its id or name.
        member: String,
        /// The change.
        change: LifeChange,
    },
    /// Changes a channel, or an edge of a member.
    Channel {
        /// The channel.
        channel: String,
        /// The change.
        change: ChannelChange,
    },
    /// Adds or removes an output wire.
    Wire {
        /// The id or name of its source; the caller, if there is none.
        from: Option<String>,
        /// The change.
        change: WireChange,
    },
}

/// A member to be added.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewNode {
    /// Its config: a creature's folder, `@package/creatures/NAME`, or a profile.
    pub config: String,
    /// Its first task.
    pub task: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its folder.
    pub pwd: Option<String>,
    /// Whether the result says that the task was delivered.
    pub says_delivered: bool,
}

/// A change of a member's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LifeChange {
    /// It ends and leaves the group.
    Remove,
    /// It runs again.
    Start,
    /// It ends; its session stays.
    Stop,
    /// It admits no further turn.
    Pause,
    /// It admits turns again.
    Resume,
    /// It ends at once, with everything it started.
    Kill,
}

impl LifeChange {
    /// Returns the verb.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Remove => "remove",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Kill => "kill",
        }
    }
}

/// A change of a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChannelChange {
    /// Creates it.
    Create {
        /// Its purpose.
        description: String,
    },
    /// Deletes it.
    Delete,
    /// Adds or removes an edge.
    Edge {
        /// The id or name of the member.
        member: String,
        /// Whether the member listens; else it may send.
        listens: bool,
        /// Whether the edge is to be there.
        is_there: bool,
    },
}

/// A change of an output wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WireChange {
    /// Adds one.
    Add {
        /// The id or name of its target.
        to: String,
        /// Whether the text goes along.
        with_content: bool,
        /// Its template.
        prompt: Option<String>,
        /// Whether that is Jinja.
        is_jinja: bool,
        /// Whether a wire to the source itself counts.
        allow_self_trigger: bool,
    },
    /// Removes one.
    Remove {
        /// Its id.
        edge: String,
    },
}

/// An agent outside of groups.
pub struct NoGroup;

impl Groups for NoGroup {
    fn act(&self, _: GroupAct) -> Soon<'_, Result<Value, Fault>> {
        let fault = Fault::new(Kind::Unavailable, "you are in no group");
        Box::pin(std::future::ready(Err(fault.next("A group is started with `haft group run`."))))
    }
}
