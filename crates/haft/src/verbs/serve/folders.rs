//! Folders that the owner opens while the server runs, and closes: those that the person trusts or has used haft in.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use kit::{Fault, Kind, services::Soon};
use parking_lot::Mutex;
use web::{Folders, Workspace};

use super::{OpenAgents, Served, ServedProtocols, is_outside};
use crate::{Options, Place, agent_factory::AgentOptions, print, workspace_check::known};

/// Maximum number of folders that are open: each costs threads and open files.
const MOST: usize = 64;

/// So many sessions are named that keep a folder from being closed.
const NAMED: usize = 5;

/// Opens folders as the server opened its first ones.
pub(super) struct OpenableFolders {
    pub(super) options: Options,
    pub(super) agent: AgentOptions,
    pub(super) place: Place,
    /// The file of tokens, which may lie in no served folder.
    pub(super) tokens: Option<PathBuf>,
    /// The address of the server.
    pub(super) url: String,
    pub(super) open_agents: Arc<OpenAgents>,
    pub(super) protocols: Arc<ServedProtocols>,
    pub(super) opened: Mutex<Vec<Served>>,
}

impl OpenableFolders {
    /// Takes those that were opened: the server ends.
    pub(super) fn take_opened(&self) -> Vec<Served> {
        std::mem::take(&mut self.opened.lock())
    }

    async fn served(&self, path: &Path) -> Result<Workspace, Fault> {
        if self.opened.lock().len() >= MOST {
            let what = format!("the server has {MOST} folders open, and opens no more");
            return Err(Fault::denied(what)
                .next("Close one with DELETE /api/v1/workspaces/ID, or start another server."));
        }
        self.check(path)?;
        // `--trust` is about the workspaces of the command line.
        let options = Options { dir: Some(path.to_owned()), trust: false, ..self.options.clone() };
        let served = Served::open(&self.agent, &options, &self.place, &self.open_agents).await?;
        // A process may have put another folder in the place of the one that was checked.
        let is_it = served.path() == path && self.check(served.path()).is_ok();
        if !is_it {
            served.end().await;
            let what = format!("`{}` became another folder while it was opened", path.display());
            return Err(Fault::new(Kind::Stale, what).next("Look at what is there now, and open that."));
        }
        served.agents.serve_files_at(&self.url);
        let workspace = served.workspace();
        self.protocols.add(&served, workspace.id.clone(), options);
        print::err(&format!("haft: serving the sessions of {}, too", served.path().display()));
        self.opened.lock().push(served);
        Ok(workspace)
    }
}

impl OpenableFolders {
    async fn closed(&self, path: &Path) -> Result<(), Fault> {
        let found = {
            let mut opened = self.opened.lock();
            opened.iter().position(|it| it.path() == path).map(|at| opened.swap_remove(at))
        };
        let Some(served) = found else {
            let what =
                format!("`{}` was not opened while this server ran, or is being closed", path.display());
            return Err(Fault::not_found(what).next("GET /api/v1/workspaces lists those that are `opened`."));
        };
        let id = served.workspace().id;
        // From now on none of its sessions is opened; so those that are idle stay so.
        served.agents.close();
        if let Err(fault) = self.let_go(&served, &id).await {
            served.agents.reopen();
            self.opened.lock().push(served);
            return Err(fault);
        }
        self.protocols.remove(&id).await;
        self.open_agents.forget_workspace(path);
        print::err(&format!("haft: serving the sessions of {} no more", path.display()));
        served.end().await;
        Ok(())
    }

    /// Closes the sessions of a folder.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] while a session or an MCP client works in it.
    async fn let_go(&self, served: &Served, id: &str) -> Result<(), Fault> {
        let path = served.path();
        let of_clients = self.protocols.working(id).await?;
        if !of_clients.is_empty() {
            let what = format!("MCP clients work in `{}`: {}", path.display(), named(&of_clients));
            return Err(Fault::new(Kind::Unavailable, what)
                .next("Wait until their calls and jobs have ended, decide what waits for approval, or revoke their token; then close it again."));
        }
        let mut working = self.open_agents.working(path).await?;
        if working.is_empty() {
            working = self.open_agents.close_all(path).await;
        }
        if working.is_empty() {
            return Ok(());
        }
        let what = format!(
            "{} in `{}` have a turn, an approval, a question, a job or a trigger: {}",
            kit::counted(working.len(), "session"),
            path.display(),
            named(&working)
        );
        Err(Fault::new(Kind::Unavailable, what).next(
            "Stop the turn (POST /api/v1/sessions/ID/cancel) and the jobs of each, remove its triggers, or wait; then close it again.",
        ))
    }

    /// Refuses a folder that the person does not know, and one with what no workspace may have.
    fn check(&self, path: &Path) -> Result<(), Fault> {
        if !known::contains(&self.place, path) {
            let what = format!("`{}` is not a folder that you trust or have used haft in", path.display());
            return Err(Fault::denied(what).next(format!(
                "Run `haft call info '{{}}'` there once in a terminal; or start the server with `--workspace {}`.",
                path.display()
            )));
        }
        match &self.tokens {
            Some(file) => is_outside(file, &[path.to_owned()]),
            None => Ok(()),
        }
    }
}

impl Folders for OpenableFolders {
    fn list(&self) -> Vec<PathBuf> {
        known::all(&self.place)
    }

    fn open<'a>(&'a self, path: &'a Path) -> Soon<'a, Result<Workspace, Fault>> {
        Box::pin(self.served(path))
    }

    fn close<'a>(&'a self, path: &'a Path) -> Soon<'a, Result<(), Fault>> {
        Box::pin(self.closed(path))
    }
}

/// Returns the first of these names.
fn named(sessions: &[String]) -> String {
    let first: Vec<String> = sessions.iter().take(NAMED).map(|it| format!("`{it}`")).collect();
    let more = sessions.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", first.join(", "))
}
