//! Status of tool files, for a person who asks.

use std::path::{Path, PathBuf};

use super::{Plugins, Whose, folders, interpreter, uv::Environments};

/// What there is of tools that are files, and what they run with.
#[derive(Debug)]
pub struct Status {
    /// So many tools are loaded.
    pub loaded: usize,
    /// So many files or tools could not be.
    pub failed: usize,
    /// So many files are left aside until a person trusts the workspace.
    pub aside: usize,
    /// The Python that runs a person's tools; none, if there is none.
    pub python: Option<PathBuf>,
    /// The workspace's own, which runs the tools of the workspace.
    pub own_python: Option<PathBuf>,
    /// What provides the packages that a file declares.
    pub uv: Option<PathBuf>,
}

impl Plugins {
    /// How things stand, where these are haft's variables.
    pub fn standing(&self, variables: &[(String, String)]) -> Status {
        let now = self.loaded();
        Status {
            loaded: now.tools.len(),
            failed: now.failed.len(),
            aside: now.aside,
            python: interpreter::first(variables),
            own_python: interpreter::own(self.workspace()).map(PathBuf::from),
            uv: Environments::new(&PathBuf::new(), variables).uv(),
        }
    }

    /// That the file of a tool of this name waits for a person to trust the workspace, if there is one.
    pub(crate) fn left_aside(&self, name: &str) -> Option<String> {
        let now = self.loaded();
        if now.aside == 0 {
            return None;
        }
        let untrusted = now.decided.folders.iter().filter(|it| it.whose == Whose::Untrusted);
        let files = untrusted.flat_map(|folder| folders::read(folder, self.workspace()).files);
        let path = files.map(|it| it.path).find(|path| is_of(path, name))?;
        let shown = path.strip_prefix(self.workspace()).unwrap_or(&path).display();
        Some(format!("{shown} is ignored until a person runs `haft trust`"))
    }
}

/// Is this the file of a tool of this name? One that lies in a folder of its own is called as the folder is.
fn is_of(path: &Path, name: &str) -> bool {
    let named = if path.ends_with("tool.toml") { path.parent() } else { Some(path) };
    let named = named.and_then(Path::file_name).map(|it| it.to_string_lossy());
    named.is_some_and(|it| it.split('.').next() == Some(name))
}
