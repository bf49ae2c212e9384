//! haft runs tools for LLM agents: exact edits, sandboxed commands, guarded web access, undo.
//!
//! This is the library behind the `haft` program, for building an agent in Rust.
//!
//! ```
//! use std::sync::Arc;
//! use haft::{Options, Place, runtime::{Call, Unattended}};
//!
//! # fn main() -> Result<(), haft::kit::Fault> {
//! # // The guard deletes the folder, even if a thread of the runtime still writes there.
//! # let guard = tempfile::tempdir().unwrap();
//! # let dir = guard.path().to_owned();
//! # std::fs::write(dir.join("hello.txt"), "hello\n").unwrap();
//! # let place = Place { state: dir.join("state"), config: dir.join("config"), variables: Vec::new() };
//! let options = Options { dir: Some(dir.clone()), ..Options::default() };
//! let runtime = options.open(&place)?.runtime;
//! let session = runtime.session(None, "library", Arc::new(Unattended));
//! # let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # tokio.block_on(async {
//! let call = Call::new("read", serde_json::json!({"path": "hello.txt"}));
//! let answer = session.call(call).await;
//! assert!(answer.as_text().contains("|hello"));
//! # });
//! # Ok(())
//! # }
//! ```

mod acp_backend;
mod agent_factory;
mod agent_options;
mod ask;
mod attach;
mod client_roots;
mod client_services;
mod command_line;
mod decoders;
mod embed;
mod environment;
mod group_members;
mod help;
mod keys;
mod listing;
mod mcp_backend;
mod nav_config;
mod network_config;
mod options;
pub mod print;
mod remote;
mod session_service;
mod session_state;
mod slash;
mod state_folder;
mod terminal;
mod triggers;
pub mod verbs;
mod workspace_check;

pub use agent;
pub use client_services::ClientSlots;
pub use command_line::Haft;
pub use embed::{AgentBuilder, EmbeddedAgent, keeper};
pub use environment::{Place, program};
pub use kit;
pub use listing::Listed;
pub use mcp_backend::McpBackend;
pub use options::{Agents, ApproveArg, Broken, FrozenFolder, Opened, Options, SandboxArg};
pub use policy;
pub use runtime;
pub use sandbox;
pub use serve;
pub use store;
pub use tools;
