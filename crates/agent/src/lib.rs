//! The loop that puts the tools into a model's hands.

mod answer;
mod asker;
mod context;
mod event;
mod front_matter;
mod images;
mod loops;
mod markdown_files;
mod person;
mod prompt;
mod subagent;
mod transcript;
mod turn;

pub mod dialect;
pub mod model;
pub mod own_tools;
pub mod profiles;
pub mod skills;
pub mod slash;

pub use asker::{Asker, NobodyToAsk, nobody};
pub use event::{Event, Host, Shown, Silent};
pub use person::Looked;
pub use prompt::{Bill, Cost, Makings, Project, Prompt, Section};
pub use subagent::{Choose, Compose, Crew, Narrowed, Setup};
pub use transcript::{Message, Transcript};
pub use turn::{Agent, AgentError, Bounds, Ended, Outcome, Settings, Steering};
