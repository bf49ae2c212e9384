//! The loop that puts the tools into a model's hands.

mod answer;
mod asker;
mod context;
mod conversations;
mod driver;
mod event;
mod front_matter;
mod images;
mod input;
mod loops;
mod markdown_files;
mod person;
mod prompt;
mod subagent;
mod telling;
mod transcript;
mod turn;

pub mod dialect;
pub mod model;
pub mod own_tools;
pub mod profiles;
pub mod skills;
pub mod slash;

/// The decoders of foreign bytes that an agent needs.
pub static DECODERS: &[kit::decoders::Entry] = &[kit::decoders::Entry::of::<images::Fit>()];

pub use asker::{Asker, NobodyToAsk, nobody};
pub use context::size::{Context, ContextPart, ContextUsed};
pub use conversations::{Conversation, conversations, find_conversations, title};
pub use driver::{Driver, Driving, Settled};
pub use event::{Event, Host, Shown, Silent};
pub use input::Input;
pub use person::Looked;
pub use prompt::{Bill, Cost, Makings, Project, Prompt, Section, System};
pub use store::changes::{Change, ChangeKind};
pub use subagent::{Choose, Compose, Crew, Narrowed, Setup};
pub use telling::{is_frame, is_in_background, telling};
pub use transcript::{Message, Transcript};
pub use turn::{
    Agent, AgentError, Bounds, ChangedBy, Compacted, Ended, Outcome, Rewound, Settings, Steering,
};
