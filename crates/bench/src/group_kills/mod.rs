//! Random groups of agents whose process is killed at random steps: each message is shown once, and each trigger fires once.
//!
//! A group is a plan that a seed decides: members, channels, wires and triggers. A process runs it with models that answer at
//! once, and is killed several times; the last process runs it to its end. What the store has then is compared with the plan.

mod check;
mod member;
mod model;
mod plan;
mod process;
mod run;

pub use check::{Counts, check};
pub use plan::{Plan, Random};
pub use process::{run_group, run_member};
pub use run::{Kills, one_run};

/// The error of a run that could not be made.
pub type Trouble = Box<dyn std::error::Error + Send + Sync>;
