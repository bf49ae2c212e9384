//! Where are things on this machine, and what does the environment say?
//!
//! The only place where haft looks at the process's environment.

use std::{env, path::PathBuf};

/// What the environment says.
#[derive(Debug, Clone)]
pub struct Place {
    /// Where state is kept.
    pub state: PathBuf,
    /// Where the user's own configuration is.
    pub config: PathBuf,
    /// The variables, as text. Which of them are secrets is decided elsewhere.
    pub variables: Vec<(String, String)>,
}

impl Place {
    /// As the process's environment has it: `HAFT_STATE_DIR` and `HAFT_CONFIG_DIR`, else
    /// the folders of the XDG rules, else those below the home folder.
    pub fn from_env() -> Self {
        let path = |name: &str| env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        let home = path("HOME").unwrap_or_else(env::temp_dir);
        let under = |own: &str, xdg: &str, rest: &str| {
            path(own).unwrap_or_else(|| path(xdg).unwrap_or_else(|| home.join(rest)).join("haft"))
        };
        let variables = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self {
            state: under("HAFT_STATE_DIR", "XDG_STATE_HOME", ".local/state"),
            config: under("HAFT_CONFIG_DIR", "XDG_CONFIG_HOME", ".config"),
            variables,
        }
    }
}
