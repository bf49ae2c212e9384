//! The loop that puts the tools into a model's hands.

mod answer;
mod asker;
mod event;
mod transcript;
mod turn;

pub mod model;

pub use asker::{Asker, NobodyToAsk, nobody};
pub use event::{Event, Host, Shown, Silent};
pub use transcript::{Message, Transcript};
pub use turn::{Agent, AgentError, Bounds, Ended, Outcome};
