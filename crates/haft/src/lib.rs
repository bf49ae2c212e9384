//! haft runs tools for LLM agents: exact edits, sandboxed commands, guarded web access, undo.
//!
//! This is the library behind the `haft` program, for building an agent in Rust.
//!
//! ```
//! use std::sync::Arc;
//! use haft::{Options, Place, runtime::{Call, Unattended}};
//!
//! # fn main() -> Result<(), haft::kit::Fault> {
//! # // It goes with this guard, whatever a thread of the runtime still writes there.
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

mod agency;
mod ask;
mod attach;
mod beyond;
mod command_line;
mod decoders;
mod embed;
mod following;
mod for_clients;
mod help;
mod keys;
mod listing;
mod nav_config;
mod options;
mod place;
pub mod print;
mod slash;
mod standing;
mod state_folder;
mod terminal;
mod through_client;
pub mod verbs;
mod workspace_check;

pub use agent;
pub use command_line::Haft;
pub use embed::{AgentBuilder, EmbeddedAgent, keeper};
pub use for_clients::ForClients;
pub use kit;
pub use listing::Listed;
pub use options::{Agents, ApproveArg, Broken, Opened, Options, SandboxArg};
pub use place::{Place, program};
pub use policy;
pub use runtime;
pub use sandbox;
pub use serve;
pub use store;
pub use through_client::Desk;
pub use tools;
