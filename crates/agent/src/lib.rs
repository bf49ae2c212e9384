//! The loop that puts the tools into a model's hands.

mod answer;
mod asker;
mod context;
mod event;
mod images;
mod loops;
mod prompt;
mod subagent;
mod transcript;
mod turn;

pub mod dialect;
pub mod model;
pub mod own_tools;
pub mod profiles;

pub use asker::{Asker, NobodyToAsk, nobody};
pub use event::{Event, Host, Shown, Silent};
pub use prompt::{Bill, Cost, Makings, Project, Prompt, Section};
pub use runtime::changes::{Change, ChangeKind};
pub use subagent::{Choose, Compose, Crew, Setup};
pub use transcript::{Message, Transcript};
pub use turn::{Agent, AgentError, Bounds, Ended, Outcome, Settings, Steering};
