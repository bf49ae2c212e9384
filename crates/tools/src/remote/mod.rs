//! SSH tools: remote commands and file transfer.

mod auth;
mod client;
mod command;
mod config;
mod destination;
mod hosts;
mod known_hosts;
mod pool;
mod secret;
mod ssh_exec;
mod stop;
mod transfer;

use std::sync::Arc;

use kit::{AnyTool, erase};

/// The tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![erase::<ssh_exec::SshExec>()]
}
