//! Status of tool files, for a person.

use std::path::{Path, PathBuf};

use super::{Plugins, Whose, folders, interpreter, uv::Environments};

/// The state of tool files, and the programs that run them.
#[derive(Debug)]
pub struct Status {
    /// The number of loaded tools.
    pub loaded: usize,
    /// The number of files or tools that could not be loaded.
    pub failed: usize,
    /// The number of files that are ignored until a person trusts the workspace.
    pub aside: usize,
    /// The Python that runs a person's tools; none, if there is none.
    pub python: Option<PathBuf>,
    /// The workspace's own Python, which runs the tools of the workspace.
    pub own_python: Option<PathBuf>,
    /// The program that provides declared packages.
    pub uv: Option<PathBuf>,
}

impl Plugins {
    /// Returns the status, with these variables of haft.
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

    /// Returns a line if the file of a tool of this name waits until a person trusts the workspace.
    pub(crate) fn left_aside(&self, name: &str) -> Option<String> {
        let now = self.loaded();
        if now.aside == 0 {
            return None;
        }
        let untrusted = now.decided.folders.iter().filter(|it| it.whose == Whose::Untrusted);
        let files =
            untrusted.flat_map(|folder| folders::read(folder, self.workspace(), &mut |_, _| None).files);
        let path = files.map(|it| it.path).find(|path| is_of(path, name))?;
        let shown = path.strip_prefix(self.workspace()).unwrap_or(&path).display();
        Some(format!("{shown} is ignored until a person runs `haft trust`"))
    }
}

/// Returns whether this is the file of a tool of this name. A `tool.toml` has the name of its folder.
fn is_of(path: &Path, name: &str) -> bool {
    let named = if path.ends_with("tool.toml") { path.parent() } else { Some(path) };
    let named = named.and_then(Path::file_name).map(|it| it.to_string_lossy());
    named.is_some_and(|it| it.split('.').next() == Some(name))
}
