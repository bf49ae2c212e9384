//! Access to the MCP servers that haft is a client of.

use super::Soon;
use crate::{Fault, Spec};

/// The MCP servers that a session can ask.
pub trait Servers: Send + Sync {
    /// All of them, in the order of their names. Starts nothing.
    fn list(&self) -> Vec<ServerInfo>;

    /// The same, once each of which nothing is known was asked: except for those that a person has to be asked about.
    fn checked(&self) -> Soon<'_, Vec<ServerInfo>> {
        Box::pin(std::future::ready(self.list()))
    }

    /// Starts one, or reaches it, if that is not so already.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) with the names there are; and when it can't be started.
    fn connect<'a>(&'a self, server: &'a str) -> Soon<'a, Result<ServerInfo, Fault>>;

    /// Adds one for this session, and starts it.
    ///
    /// # Errors
    /// When its name is taken, or it can't be started: then it is not added.
    fn add(&self, server: NewServer) -> Soon<'_, Result<ServerInfo, Fault>>;

    /// The tools of one, under the names by which they are called. It is started only where nobody knows them yet.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect).
    fn tools<'a>(&'a self, server: &'a str) -> Soon<'a, Result<Vec<Spec>, Fault>>;

    /// The name by which a tool of a server is called, by the server's own name for it. The server is started only where
    /// nobody knows its tools yet.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) with the names there are; and those of [`connect`](Self::connect).
    fn name_of<'a>(&'a self, server: &'a str, tool: &'a str) -> Soon<'a, Result<String, Fault>>;

    /// Ends the connection to one, and its process. One that was added by [`add`](Self::add) is gone; another one is
    /// started by the next call of a tool of it. False, if there was no connection.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) with the names there are.
    fn disconnect<'a>(&'a self, server: &'a str) -> Soon<'a, Result<bool, Fault>>;
}

/// A server that nobody configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewServer {
    /// What to call it.
    pub name: String,
    /// The program that is the server, and its arguments; empty, where it has an address.
    pub command: Vec<String>,
    /// Where it is, if it runs elsewhere.
    pub url: Option<String>,
}

/// How things stand with a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// Its name.
    pub name: String,
    /// How far it has come.
    pub state: ServerState,
    /// What starts it, or where it is.
    pub about: String,
    /// How many tools of it there are; none, where nobody knows.
    pub tools: Option<usize>,
    /// What is wrong with it, or should be known of it, one thing each.
    pub notes: Vec<String>,
}

/// How far a server has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// It is not to be used.
    Disabled,
    /// It is configured, and nobody knows its tools yet.
    Configured,
    /// Its tools are known, and it does not run.
    Known,
    /// It runs, and was not called yet.
    Started,
    /// It runs, and has answered a call.
    Invoked,
    /// It ended, or could not be started.
    Failed,
}

impl ServerState {
    /// The word for it.
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

/// Where there are no servers.
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
