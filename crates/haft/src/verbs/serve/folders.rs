//! Folders that the owner opens while the server runs: those that the person trusts or has used haft in.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use kit::{Fault, Kind, services::Soon};
use parking_lot::Mutex;
use web::{Folders, Workspace};

use super::{OpenAgents, Served, ServedProtocols, is_outside};
use crate::{Options, Place, agent_factory::AgentOptions, print, workspace_check};

/// Maximum number of folders that are opened: each costs threads and open files until the server ends.
const MOST: usize = 64;

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
            let what = format!("the server has opened {MOST} folders, and opens no more");
            return Err(Fault::denied(what)
                .next("Start another server, or this one again with `--workspace PATH` for each folder that is needed."));
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
    /// Refuses a folder that the person does not know, and one with what no workspace may have.
    fn check(&self, path: &Path) -> Result<(), Fault> {
        if !workspace_check::is_known(&self.place, path) {
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
        workspace_check::known(&self.place)
    }

    fn open<'a>(&'a self, path: &'a Path) -> Soon<'a, Result<Workspace, Fault>> {
        Box::pin(self.served(path))
    }
}
