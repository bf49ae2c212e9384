//! The loop that puts the tools into a model's hands.

mod answer;
mod context;
mod event;
mod images;
mod loops;
mod prompt;
mod transcript;
mod turn;

pub mod dialect;
pub mod model;
pub mod own_tools;

pub use event::{Event, Host, Silent};
pub use prompt::{Bill, Cost, Makings, Project, Prompt, Section};
pub use transcript::{Message, Transcript};
pub use turn::{Agent, AgentError, Bounds, Ended, Outcome, Settings, Steering};
