//! MCP client: the servers that haft uses, and calls of their tools.
//!
//! A server that is configured is not started for that: its tools are listed by what it said the last time, and it runs
//! from the first call on, in a sandbox of its own. What it says of its tools counts as it was first said; anything else
//! waits for a person.

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
pub(crate) use session_access::{FindSession, OwnTools, SessionAccess};
pub(super) use start::Start;

use crate::{
    config::{ServerSection, Variables},
    provenance::Whose,
};

/// A server that haft may be a client of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// What it is called: the first half of its tools' names.
    pub name: String,
    /// How it is reached, and what it may do.
    pub section: ServerSection,
    /// Who said so. The first start of one that came with the workspace is asked about.
    pub whose: Whose,
    /// The file that says so, as it is told.
    pub file: String,
}
