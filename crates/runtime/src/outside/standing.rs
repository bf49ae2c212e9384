//! How do things stand with tools that are files, for a person who asks?

use std::path::PathBuf;

use super::{Outside, interpreter, uv::Environments};

/// What there is of tools that are files, and what they run with.
#[derive(Debug)]
pub struct Standing {
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

impl Outside {
    /// How things stand, where these are haft's variables.
    pub fn standing(&self, variables: &[(String, String)]) -> Standing {
        let now = self.loaded();
        Standing {
            loaded: now.tools.len(),
            failed: now.failed.len(),
            aside: now.aside,
            python: interpreter::first(variables),
            own_python: interpreter::own(self.workspace()).map(PathBuf::from),
            uv: Environments::new(&PathBuf::new(), variables).uv(),
        }
    }
}
