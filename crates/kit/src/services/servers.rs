//! Access to the MCP servers that haft is a client of.

use super::Soon;
use crate::{Fault, Spec};

/// The MCP servers of a session.
pub trait Servers: Send + Sync {
    /// Returns all of them, in the order of their names. Starts nothing.
    fn list(&self) -> Vec<ServerInfo>;

    /// Like [`list`](Self::list), after starting those whose tools are unknown, except for those that need a
    /// person's approval.
    fn checked(&self) -> Soon<'_, Vec<ServerInfo>> {
        Box::pin(std::future::ready(self.list()))
    }

    /// Starts a server, or connects to it, if that is not so already.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) with the existing names; and when it can't be started.
    fn connect<'a>(&'a self, server: &'a str) -> Soon<'a, Result<ServerInfo, Fault>>;

    /// Adds a server for this session, and starts it.
    ///
    /// # Errors
    /// When its name is taken, or it can't be started: then it is not added.
    fn add(&self, server: NewServer) -> Soon<'_, Result<ServerInfo, Fault>>;

    /// Returns the tools of a server, under the names by which they are called. Starts it only if they are unknown.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect).
    fn tools<'a>(&'a self, server: &'a str) -> Soon<'a, Result<Vec<Spec>, Fault>>;

    /// Returns the name by which a tool is called, from the server's own name for it. Starts the server only
    /// if its tools are unknown.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) with the existing names; and those of [`connect`](Self::connect).
    fn name_of<'a>(&'a self, server: &'a str, tool: &'a str) -> Soon<'a, Result<String, Fault>>;

    /// Ends the connection to a server, and its process. A server that [`add`](Self::add) added is removed;
    /// any other is started by the next call of one of its tools. Returns false if there was no connection.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) with the existing names.
    fn disconnect<'a>(&'a self, server: &'a str) -> Soon<'a, Result<bool, Fault>>;
}

/// A server that is not in the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewServer {
    /// Its name.
    pub name: String,
    /// Its program and arguments; empty, if it has an address.
    pub command: Vec<String>,
    /// Its address, if it runs elsewhere.
    pub url: Option<String>,
}

/// The status of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: ServerState,
    /// Its command line or its address.
    pub about: String,
    /// Number of its tools; `None`, if they are unknown.
    pub tools: Option<usize>,
    /// Errors and notes, one line each.
    pub notes: Vec<String>,
}

/// The state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// Switched off.
    Disabled,
    /// Configured; its tools are unknown.
    Configured,
    /// Its tools are known, and it does not run.
    Known,
    /// Running, and not called yet.
    Started,
    /// Running, and has answered a call.
    Invoked,
    /// It ended, or could not be started.
    Failed,
}

impl ServerState {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Configured => "configured",
            Self::Known => "known",
            Self::Started => "started",
            Self::Invoked => "in use",
            Self::Failed => "failed",
        }
    }
}

/// A session without servers.
pub struct NoServers;

impl NoServers {
    fn none(server: &str) -> Fault {
        Fault::not_found(format!("there is no server `{server}`")).next("No servers are configured here.")
    }
}

impl Servers for NoServers {
    fn list(&self) -> Vec<ServerInfo> {
        Vec::new()
    }

    fn connect<'a>(&'a self, server: &'a str) -> Soon<'a, Result<ServerInfo, Fault>> {
        Box::pin(async move { Err(Self::none(server)) })
    }

    fn add(&self, server: NewServer) -> Soon<'_, Result<ServerInfo, Fault>> {
        Box::pin(async move { Err(Self::none(&server.name)) })
    }

    fn tools<'a>(&'a self, server: &'a str) -> Soon<'a, Result<Vec<Spec>, Fault>> {
        Box::pin(async move { Err(Self::none(server)) })
    }

    fn name_of<'a>(&'a self, server: &'a str, _: &'a str) -> Soon<'a, Result<String, Fault>> {
        Box::pin(async move { Err(Self::none(server)) })
    }

    fn disconnect<'a>(&'a self, server: &'a str) -> Soon<'a, Result<bool, Fault>> {
        Box::pin(async move { Err(Self::none(server)) })
    }
}
