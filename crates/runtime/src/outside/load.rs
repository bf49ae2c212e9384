//! Which tools do the files make, and what has become of them since?

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use kit::{
    AnyTool, Fault, Spec,
    services::{NotLoaded, Reloaded},
};

use super::{Described, OWN, ToolFiles, Version, Whose, describe, own_files};
use crate::{Registry, ground::Ground};

/// The tools that are files: what is loaded of them, and how that is brought up to date.
pub struct Outside {
    files: ToolFiles,
    workspace: PathBuf,
    registry: Arc<Registry>,
    ground: OnceLock<Ground>,
}

impl Outside {
    pub(crate) fn new(files: ToolFiles, workspace: PathBuf, registry: Arc<Registry>) -> Self {
        Self { files, workspace, registry, ground: OnceLock::new() }
    }

    /// Files are asked what they are on this ground.
    pub(crate) fn stands_on(&self, ground: Ground) {
        // It is told so once, when the runtime is made.
        let _ = self.ground.set(ground);
    }

    fn ground(&self) -> Result<&Ground, Fault> {
        self.ground.get().ok_or_else(|| Fault::bug("tools that are files stand on no ground"))
    }

    /// Looks at the folders again; with `fresh` every file is asked again, whatever is known of it.
    pub(crate) async fn reload(&self, _fresh: bool) -> Reloaded {
        let _ = (&self.files, &self.registry);
        Reloaded::default()
    }

    /// Waits until what is not known yet was asked.
    pub(crate) async fn settled(&self) {}

    /// Tries code that is meant to be the workspace's own tool `name`, as
    /// [`Tools::check`](kit::services::Tools::check) promises.
    pub(crate) async fn check(&self, name: &str, code: &str) -> Result<Spec, Fault> {
        let draft = self.draft(name, code);
        let described: Described = describe::check(self.ground()?, &draft, name).await?;
        Ok(super::python::PythonTool::new(draft, described, super::Section::default()).spec().clone())
    }

    /// Code as the version of the workspace's own tool `name` that it would be. Whoever makes one is about to write
    /// it: from now on this very text is known as one that a model wrote.
    pub(crate) fn draft(&self, name: &str, code: &str) -> Arc<Version> {
        let folder = self.workspace.join(OWN);
        Arc::new(Version {
            path: folder.join(format!("{name}.py")),
            folder,
            whose: Whose::Workspace,
            by_model: true,
            source: code.as_bytes().into(),
            hash: blake3::hash(code.as_bytes()),
        })
    }

    /// The workspace's own tool `name` was written by a model just now, or is gone: takes note of that, and loads it.
    pub(crate) async fn rewritten(&self, name: &str) -> Result<(), Fault> {
        own_files(name)?;
        self.reload(false).await;
        Ok(())
    }

    /// The files that could not be loaded, each with its whole traceback.
    pub(crate) fn failed(&self) -> Vec<NotLoaded> {
        Vec::new()
    }

    /// What the file of this tool says of it at length.
    pub(crate) fn manual(&self, _name: &str) -> Option<String> {
        None
    }
}
