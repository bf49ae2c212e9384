//! MCP client: the servers that haft uses, and calls of their tools.
//!
//! haft does not start a configured server to list its tools: it lists the stored definitions, and starts the
//! server at the first call, in a sandbox of its own. Tool definitions are pinned on first use; a change
//! needs a person's approval.

mod connect;
mod connections;
mod definition;
mod definition_store;
mod handler;
mod http;
mod imported;
mod link;
mod names;
mod notifications;
mod oauth;
mod result;
mod servers;
mod service;
mod session_access;
mod start;
#[cfg(test)]
mod test_server;
mod tool;
mod variables;
mod wire;

pub(crate) use connections::Connections;
pub use http::check_address;
pub use imported::{configured, granted, imported, serves_haft};
pub use oauth::{Logins, Redirect, Signing};
pub use servers::Servers;
pub(crate) use service::ServersOf;
pub(crate) use session_access::{FindSession, SessionAccess, SessionTools};
pub(super) use start::Start;

use crate::{
    config::{ServerSection, Variables},
    provenance::Whose,
};

/// An MCP server that haft may connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its name: the first half of its tools' names.
    pub name: String,
    /// How haft reaches it, and what it may do.
    pub section: ServerSection,
    /// The origin of its configuration. The first start of a workspace's server needs permission.
    pub whose: Whose,
    /// The file with its configuration, as shown to a person.
    pub file: String,
}
