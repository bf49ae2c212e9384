//! Tool runtime: decides whether, when and where a call runs, and runs it.

mod addresses;
mod answer_schema;
mod approval_time;
mod approve;
mod arguments;
mod call;
mod catalog;
mod deadline;
mod execution;
mod file_locks;
pub mod hooks;
mod jobs;
mod landing;
mod messages;
mod network_config;
mod notes;
mod options;
mod provenance;
mod put_back;
mod registry;
mod repair;
mod repository;
mod result_parts;
mod runtime;
mod session;
mod session_state;
mod session_triggers;
mod stored_changes;
mod too_much;

pub mod config;
pub mod mcp_client;
pub mod plugins;
pub mod schedule;
pub mod truncate;
pub mod vault;

pub use answer_schema::AnswerSchema;
pub use approve::{Approver, Request, Unattended, Verdict};
pub use call::{Answer, Call};
pub use catalog::{AgentMode, Catalog, Listing};
pub use deadline::DEADLINE;
pub use execution::{Commands, Own};
pub use jobs::{Event, OwedJob, is_of_a_job};
pub use landing::{Landing, Target, TargetLock, folders_above};
pub use network_config::NetworkConfig;
pub use registry::{Failure, Registry, Snapshot};
pub use repair::Arguments;
pub use repository::{Differs, Repository};
pub use runtime::{Runtime, Settings};
/// How far commands are confined.
pub use sandbox::SandboxMode;
pub use session::{Session, WeakSession, chosen_sandbox, pass_sandbox_on, too_wide};
pub use session_state::HookWord;
pub use session_state::Limits;
pub use session_triggers::WEBHOOK_HOST;
