//! The process's environment: the folders for state and configuration, and the variables.
//!
//! Nothing else in haft reads the environment, except for `HAFT_LOG`.

use std::{
    env,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use kit::{Fault, Kind};

/// Folders and variables from the process's environment.
#[derive(Debug, Clone)]
pub struct Place {
    /// The folder for state.
    pub state: PathBuf,
    /// The folder of the user's own configuration.
    pub config: PathBuf,
    /// The variables, as text. Other modules decide which of them are secrets.
    pub variables: Vec<(String, String)>,
}

impl Place {
    /// Reads the process's environment: `HAFT_STATE_DIR` and `HAFT_CONFIG_DIR`, else the XDG folders, else those below
    /// the home folder.
    ///
    /// # Errors
    /// When none of these is set. There is no folder to fall back on that others can't write to.
    pub fn from_env() -> Result<Self, Fault> {
        let path = |name: &str| env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        let home = path("HOME").or_else(home_of_this_user);
        let under = |own: &str, xdg: &str, rest: &str| {
            path(own)
                .or_else(|| path(xdg).map(|folder| folder.join("haft")))
                .or_else(|| home.as_ref().map(|home| home.join(rest).join("haft")))
                .ok_or_else(|| {
                    Fault::new(
                        Kind::Unavailable,
                        format!("neither {own} nor HOME is set, and this user has no home folder"),
                    )
                    .next(format!("Set {own} to a folder of your own."))
                })
        };
        let variables = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Ok(Self {
            state: under("HAFT_STATE_DIR", "XDG_STATE_HOME", ".local/state")?,
            config: under("HAFT_CONFIG_DIR", "XDG_CONFIG_HOME", ".config")?,
            variables,
        })
    }
}

impl Place {
    /// Returns the value of this variable, unless it is empty.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        let found = self.variables.iter().find(|(it, value)| it == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the first of these programs that is on the PATH.
    pub(crate) fn on_path(&self, names: &[&str]) -> Option<PathBuf> {
        let folders = std::env::split_paths(self.variable("PATH").unwrap_or_default());
        let folders: Vec<PathBuf> = folders.filter(|it| it.is_absolute()).collect();
        names.iter().find_map(|name| folders.iter().map(|it| it.join(name)).find(|it| runs(it)))
    }

    /// Returns the person's home folder; the root, if there is none.
    pub(crate) fn home(&self) -> PathBuf {
        self.variable("HOME")
            .map(PathBuf::from)
            .or_else(home_of_this_user)
            .unwrap_or_else(|| PathBuf::from("/"))
    }
}

impl Place {
    /// Returns the home folders of the user who runs haft: from `HOME`, from `/etc/passwd`, and of the user who called
    /// `sudo`.
    pub(crate) fn homes(&self) -> Vec<PathBuf> {
        let by_variable = self.variable("HOME").map(PathBuf::from);
        let by_sudo = self.variable("SUDO_UID").and_then(|it| it.parse().ok()).and_then(home_of);
        [by_variable, home_of_this_user(), by_sudo].into_iter().flatten().collect()
    }
}

fn runs(path: &Path) -> bool {
    path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

/// Returns the program as a person can type it here: `haft` if the shell finds it, else with its path.
pub fn program() -> String {
    let typed = env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let is_path = typed.components().count() > 1;
    if !is_path {
        return typed.to_str().filter(|it| !it.is_empty()).unwrap_or("haft").to_owned();
    }
    let this = env::current_exe().and_then(|it| it.canonicalize());
    let folders = env::var_os("PATH").map(|it| env::split_paths(&it).collect::<Vec<_>>()).unwrap_or_default();
    let name = typed.file_name().unwrap_or_default();
    let is_this = |folder: &Path| {
        this.as_ref().is_ok_and(|this| folder.join(name).canonicalize().is_ok_and(|it| it == *this))
    };
    if folders.iter().any(|it| is_this(it)) {
        return name.to_string_lossy().into_owned();
    }
    // A program that cargo builds is started by its absolute path.
    let here = env::current_dir().unwrap_or_default();
    let path = typed.strip_prefix(&here).ok().filter(|it| it.components().count() > 1).unwrap_or(&typed);
    kit::quote::quote(&path.to_string_lossy())
}

/// Returns this user's home folder in `/etc/passwd`, for a process without `HOME`.
fn home_of_this_user() -> Option<PathBuf> {
    home_of(rustix::process::getuid().as_raw())
}

/// Returns the home folder of this user in `/etc/passwd`.
fn home_of(user: u32) -> Option<PathBuf> {
    let user = user.to_string();
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let home = users.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2) == Some(&user.as_str())).then(|| fields.get(5).map(PathBuf::from)).flatten()
    })?;
    (home.is_absolute() && home.is_dir()).then_some(home)
}
