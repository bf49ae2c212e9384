//! Python interpreters: which one runs a file.

use std::path::{Path, PathBuf};

use kit::{Fault, Kind};
use parking_lot::Mutex;

use super::{Version, Whose, pyenv};
use sandbox::environment::environment;

/// The names under which haft looks for Python.
const NAMES: [&str; 2] = ["python3", "python"];

/// The interpreters that a session has found.
#[derive(Default)]
pub(super) struct Interpreters {
    /// The program that the names resolved to: a name may be a shim, which takes time to resolve.
    found: Mutex<Option<String>>,
}

impl Interpreters {
    /// Returns the interpreters to try for a version of a file, in order.
    pub(super) fn of(
        &self,
        version: &Version,
        workspace: &Path,
        variables: &[(String, String)],
    ) -> Vec<String> {
        if version.whose != Whose::Person
            && let Some(own) = own(workspace)
        {
            return vec![own];
        }
        match &*self.found.lock() {
            Some(found) => vec![found.clone()],
            None => names(workspace, variables),
        }
    }

    /// Records the program that this name resolved to.
    pub(super) fn remember(&self, name: &str, executable: &str) {
        if NAMES.contains(&name) && Path::new(executable).is_absolute() {
            *self.found.lock() = Some(executable.to_owned());
        }
    }

    /// Forgets the program, which may have been removed.
    pub(super) fn forget(&self) {
        *self.found.lock() = None;
    }
}

/// Returns the names to try if nothing is known, for programs with these variables.
pub(super) fn names(workspace: &Path, variables: &[(String, String)]) -> Vec<String> {
    let [first, _] = NAMES;
    let known = pyenv::python(first, workspace, variables).map(|it| it.display().to_string());
    known.into_iter().chain(NAMES.map(str::to_owned)).collect()
}

/// Returns the interpreter of the workspace, if it has one.
pub(super) fn own(workspace: &Path) -> Option<String> {
    let own = [".venv/bin/python", "venv/bin/python"].map(|it| workspace.join(it));
    own.iter().find(|it| it.is_file()).map(|it| it.display().to_string())
}

/// Returns the first interpreter that exists, with these variables of haft.
pub(super) fn first(variables: &[(String, String)]) -> Option<PathBuf> {
    let variables = environment(variables, &[]);
    let (_, path) = variables.iter().find(|(name, _)| name == "PATH")?;
    let folders: Vec<&Path> = path.split(':').map(Path::new).filter(|it| it.is_absolute()).collect();
    let mut programs = NAMES.iter().flat_map(|name| folders.iter().map(move |it| it.join(name)));
    programs.find(|it| it.is_file())
}

/// Returns the fault if there is none.
pub(super) fn none(names: &[String]) -> Fault {
    Fault::new(Kind::Unavailable, format!("there is no Python here: looked for `{}`", names.join("`, `")))
        .next("A person can install python3, or make a `.venv` in the workspace.")
}
