//! Sessions of a server behind the Agent Client Protocol: an editor drives the sessions that the server runs, as far as its role
//! goes.
//!
//! The server's agents run them, so they go on when the connection ends, and nothing of the editor counts but its words: no
//! folders of its own, no MCP servers, no sandbox, no unsaved texts.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use kit::{Fault, Kind};
use serve::acp::v1::{McpServer, SessionId};
use sessions::{Guard, Handle, Sessions};

use super::{Asked, opening::Opening};
use crate::agent_factory::AgentFactory;

/// The workspaces of a server, as one connection may use them.
pub(crate) struct Hosted {
    /// The name of whoever holds the connection's token.
    pub(crate) who: String,
    /// Whether they may decide approvals.
    pub(crate) decides: bool,
    /// The workspaces.
    pub(crate) workspaces: Vec<HostedWorkspace>,
}

/// A workspace of a server.
#[derive(Clone)]
pub(crate) struct HostedWorkspace {
    /// Its agents.
    pub(crate) factory: Arc<AgentFactory>,
    /// Its sessions.
    pub(crate) sessions: Sessions,
    /// Checks the operations of the connection.
    pub(crate) guard: Guard,
}

impl HostedWorkspace {
    fn path(&self) -> &Path {
        self.factory.opened.runtime.roots().workspace()
    }

    /// Opens a session: a new one without a name.
    pub(super) async fn attach(&self, name: &SessionId, who: &str) -> Result<Handle, Fault> {
        Ok(self.sessions.open(Some(&name.0), who).await?.guarded(self.guard.clone()))
    }
}

impl Hosted {
    /// Returns the workspace in this folder.
    pub(super) fn workspace(&self, cwd: &Path) -> Result<&HostedWorkspace, Fault> {
        let is = |folder: &Path| self.workspaces.iter().find(|it| it.path() == folder);
        // Another spelling of it, such as through a symlink, is the same folder.
        let found = is(cwd).or_else(|| is(&cwd.canonicalize().ok()?));
        found.ok_or_else(|| {
            let all: Vec<String> = self.folders().iter().map(|it| it.display().to_string()).collect();
            let what = format!("this server does not serve {}", cwd.display());
            Fault::new(Kind::Denied, what)
                .next(format!("`cwd` is one of its workspaces: {}.", all.join(", ")))
        })
    }

    /// Returns the folders of all workspaces.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        self.workspaces.iter().map(|it| it.path().to_owned()).collect()
    }

    /// Checks the parameters with which a session is opened.
    pub(super) fn opening(&self, asked: Asked) -> Result<Opening, Fault> {
        let Asked { cwd, dirs, servers } = asked;
        let cwd = self.workspace(&cwd)?.path().to_owned();
        if !dirs.is_empty() {
            let what = "the sessions of this server have no additional directories of an editor";
            return Err(Fault::denied(what).next("Leave `additionalDirectories` out."));
        }
        let names: Vec<&str> = servers.iter().filter_map(name_of).collect();
        let notes = (!names.is_empty()).then(|| {
            let names = names.join(", ");
            format!("this server starts no MCP servers of an editor ({names}); its haft.toml names those of its sessions")
        });
        let notes = notes.into_iter().collect();
        Ok(Opening { cwd, dirs: Vec::new(), servers: Vec::new(), notes, sandbox: None })
    }
}

fn name_of(server: &McpServer) -> Option<&str> {
    match server {
        McpServer::Stdio(it) => Some(&it.name),
        McpServer::Http(it) => Some(&it.name),
        McpServer::Sse(it) => Some(&it.name),
        _ => None,
    }
}
