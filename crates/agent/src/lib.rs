//! The agent loop: runs a model with the tools of a session.

mod answer;
mod arrivals;
mod asker;
mod compaction;
mod conversations;
mod driver;
mod event;
mod front_matter;
mod images;
mod input;
mod loop_detection;
mod markdown_files;
mod person_calls;
mod prompt;
mod subagent;
mod summary_line;
mod transcript;
mod turn;
mod unattended;

pub mod dialect;
pub mod model;
pub mod profiles;
pub mod provider_tools;
pub mod skills;
pub mod slash;

/// The decoders of untrusted bytes that an agent needs.
pub static DECODERS: &[kit::decoders::Entry] = &[kit::decoders::Entry::of::<images::Fit>()];

pub use arrivals::InboxBounds;
pub use asker::{Asker, NobodyToAsk, nobody};
pub use compaction::{
    compacted_since,
    size::{Context, ContextPart, ContextUsed},
};
pub use conversations::{Conversation, conversation, conversations, find_conversations, named, title};
pub use driver::{Driver, Driving, Settled};
pub use event::{Event, Observer, Shown, Silent};
pub use input::Input;
pub use person_calls::Looked;
pub use prompt::{Bill, Cost, Makings, Project, Prompt, Section, System};
pub use store::{
    Archived,
    changes::{Change, ChangeKind},
};
pub use subagent::{Choose, Compose, Crew, Elsewhere, Narrowed, Setup};
pub use summary_line::{is_frame, is_in_background, summary_line};
pub use transcript::{
    CUT_OFF, Entry, Fork, HistoryItem, Line, Message, ToolCall, Transcript, calls, fork, history, lines,
    rewound_after,
};
pub use turn::{
    Agent, AgentError, Bounds, ChangedBy, Compacted, Ended, Outcome, Rewound, Settings, Steering,
};
