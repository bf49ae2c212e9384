//! Folders that the owner opens while the server runs: those that the person trusts or has used haft in.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use kit::{Fault, services::Soon};
use parking_lot::Mutex;
use web::{Folders, Workspace};

use super::{OpenAgents, Served, ServedProtocols, is_outside};
use crate::{Options, Place, agent_factory::AgentOptions, print, workspace_check};

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
        if !workspace_check::is_known(&self.place, path) {
            let what = format!("`{}` is not a folder that you trust or have used haft in", path.display());
            return Err(Fault::denied(what).next(format!(
                "Run haft there once in a terminal, or `haft trust`; or start the server with `--workspace {}`.",
                path.display()
            )));
        }
        let options = Options { dir: Some(path.to_owned()), ..self.options.clone() };
        let dirs = [options.workspace()?];
        if let Some(file) = &self.tokens {
            is_outside(file, &dirs)?;
        }
        let served = Served::open(&self.agent, &options, &self.place, &self.open_agents).await?;
        served.agents.serve_files_at(&self.url);
        let workspace = served.workspace();
        self.protocols.add(&served, workspace.id.clone());
        print::err(&format!("haft: serving the sessions of {}, too", served.path().display()));
        self.opened.lock().push(served);
        Ok(workspace)
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
