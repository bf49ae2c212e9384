//! The configuration of a workspace as a process has read it, for processes that it starts later: an agent may have created
//! or changed the files in the meantime, and a trust that counts for one run counts for their text at its beginning.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use kit::{Fault, Kind};
use runtime::config::{
    CLAUDE, CLAUDE_SETTINGS, DOT_MCP, FILE, servers_text, text_of_another, workspace_text,
};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::{Opened, Options};
use crate::environment::Place;

/// The configuration files of a workspace, and which of them the person trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Frozen {
    /// The texts of the files that are there, by their paths in the workspace.
    files: BTreeMap<PathBuf, String>,
    pub(super) trusts_config: bool,
    pub(super) trusts_tools: bool,
    pub(super) trusts_servers: bool,
    pub(super) trusts_hooks: bool,
    /// The code of tools that the person vouches for in this run.
    pub(super) attested: Vec<String>,
}

impl Frozen {
    /// Returns the configuration of the workspace as it is. Call it before anything runs that may change it.
    pub(crate) fn of(options: &Options, place: &Place, opened: &Opened) -> Self {
        let workspace = opened.runtime.roots().workspace();
        let mut files = BTreeMap::new();
        let mut take = |path: PathBuf, text: Option<String>| {
            if let Some(text) = text {
                files.insert(path, text);
            }
        };
        take(FILE.into(), workspace_text(workspace).ok());
        take(DOT_MCP.into(), servers_text(workspace).ok().flatten());
        for name in CLAUDE_SETTINGS {
            take(Path::new(CLAUDE).join(name), text_of_another(workspace, CLAUDE, name).ok().flatten());
        }
        Self {
            files,
            trusts_config: options.trusts_config(place, workspace),
            trusts_tools: options.trusts_tools(place, workspace),
            trusts_servers: options.trusts_servers(place, workspace),
            trusts_hooks: options.trusts_hooks(place, workspace),
            attested: opened.runtime.plugins().attested_now(),
        }
    }
}

/// A folder with the configuration of a workspace as another process has read it, which stands for its own files. It is removed when it
/// is dropped.
#[derive(Debug)]
pub struct FrozenFolder {
    pub(super) frozen: Frozen,
    folder: TempDir,
}

impl FrozenFolder {
    /// Writes the files into a folder of the state folder, which no tool reaches.
    ///
    /// # Errors
    /// When that can't be written.
    pub(crate) fn new(frozen: Frozen, place: &Place) -> Result<Self, Fault> {
        let written = || -> io::Result<TempDir> {
            fs::create_dir_all(&place.state)?;
            let folder = tempfile::Builder::new().prefix("configuration-").tempdir_in(&place.state)?;
            for (path, text) in &frozen.files {
                let at = folder.path().join(path);
                at.parent().map_or(Ok(()), fs::create_dir_all)?;
                fs::write(at, text)?;
            }
            Ok(folder)
        };
        let folder = written().map_err(|error| {
            Fault::new(Kind::Unavailable, format!("can't write in `{}`: {error}", place.state.display()))
        })?;
        Ok(Self { frozen, folder })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}
