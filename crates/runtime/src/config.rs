//! What did the person who runs haft decide?
//!
//! Two files: the user's own, which is believed, and the workspace's `haft.toml`, which
//! came with whatever was cloned. The workspace's may narrow what is allowed; where it
//! would widen it, it counts only once the person has trusted this very text.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use kit::{Fault, Kind, files::OtherNames, files::RootSpec};
use serde::Deserialize;

use crate::policy::{Approve, Sandbox};

/// What one file says. A key it doesn't know is an error: a typo must not pass as a default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The only tools there are; all, if this is not given.
    pub tools: Option<Vec<String>>,
    /// The toolset to show.
    pub toolset: Option<String>,
    /// More folders that may be reached, `PATH` or `PATH:ro`.
    #[serde(default)]
    pub roots: Vec<String>,
    /// What may be changed at all.
    pub sandbox: Option<Sandbox>,
    /// What to do where a person has to be asked.
    pub approve: Option<Approve>,
    /// Whether files are read that have names outside the roots.
    pub hard_links: Option<HardLinks>,
    /// After how many seconds a call is stopped.
    pub deadline_seconds: Option<u64>,
}

/// Whether files are read that have names outside the roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HardLinks {
    /// They are not.
    Refuse,
    /// They are.
    Allow,
}

impl From<HardLinks> for OtherNames {
    fn from(links: HardLinks) -> Self {
        match links {
            HardLinks::Refuse => Self::Refuse,
            HardLinks::Allow => Self::Allow,
        }
    }
}

/// A configuration file's name, in the workspace and in the user's folder alike.
pub const FILE: &str = "haft.toml";

impl Config {
    /// What the file says; nothing, if there is none.
    ///
    /// # Errors
    /// When it can't be read, or is no such configuration; the line is named.
    pub fn read(path: &Path) -> Result<Self, Fault> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => {
                return Err(Fault::new(
                    Kind::Unavailable,
                    format!("can't read `{}`: {error}", path.display()),
                ));
            }
        };
        toml::from_str(&text).map_err(|error| {
            Fault::bad_args(format!("`{}` is not a configuration of haft: {error}", path.display()))
                .next("haft.example.toml lists every key.".to_owned())
        })
    }

    /// What holds: the user's file, narrowed by the workspace's, and widened by it only if
    /// that is trusted. Gives what was left aside, one line each.
    #[must_use]
    pub fn with_workspace(mut self, workspace: Self, trusted: bool) -> (Self, Vec<String>) {
        let mut aside = Vec::new();
        let mut widens = |what: &str| {
            if !trusted {
                aside.push(format!(
                    "{what} in the workspace's haft.toml is left aside until you run `haft trust`"
                ));
            }
            trusted
        };
        if let Some(names) = workspace.tools {
            self.tools = Some(match self.tools {
                None => names,
                Some(mine) => names.into_iter().filter(|name| mine.contains(name)).collect(),
            });
        }
        self.toolset = workspace.toolset.or(self.toolset);
        self.deadline_seconds = workspace.deadline_seconds.or(self.deadline_seconds);
        if !workspace.roots.is_empty() && widens("`roots`") {
            self.roots.extend(workspace.roots);
        }
        if let Some(sandbox) = workspace.sandbox {
            let narrows = rank(sandbox) <= rank(self.sandbox.unwrap_or_default());
            if narrows || widens("`sandbox`") {
                self.sandbox = Some(sandbox);
            }
        }
        if let Some(approve) = workspace.approve
            && (approve != Approve::Auto
                || self.approve == Some(Approve::Auto)
                || widens("`approve = \"auto\"`"))
        {
            // Never asking is narrower than asking.
            let narrows = self.approve != Some(Approve::Never) || trusted;
            self.approve = if narrows { Some(approve) } else { self.approve };
        }
        if let Some(links) = workspace.hard_links
            && (links == HardLinks::Refuse || widens("`hard_links = \"allow\"`"))
        {
            self.hard_links = Some(links);
        }
        (self, aside)
    }
}

fn rank(sandbox: Sandbox) -> u8 {
    match sandbox {
        Sandbox::ReadOnly => 0,
        Sandbox::Workspace => 1,
        Sandbox::Full => 2,
    }
}

/// A root as it is written: `PATH`, or `PATH:ro` for one that nothing may change.
/// Relative ones are meant from `base`.
pub fn parse_root(text: &str, base: &Path) -> RootSpec {
    let (path, read_only) = match text.strip_suffix(":ro") {
        Some(path) => (path, true),
        None => (text.strip_suffix(":rw").unwrap_or(text), false),
    };
    RootSpec { path: base.join(path), read_only }
}

/// The workspaces whose configuration the person has trusted, each by its exact text.
pub struct Trust {
    file: PathBuf,
}

impl Trust {
    /// The list kept in this state folder.
    pub fn in_state(state: &Path) -> Self {
        Self { file: state.join("trusted") }
    }

    /// Is the workspace's configuration trusted as it is now?
    pub fn holds(&self, workspace: &Path) -> bool {
        let mark = mark(workspace);
        fs::read_to_string(&self.file).is_ok_and(|text| text.lines().any(|line| line == mark))
    }

    /// Trusts it as it is now.
    ///
    /// # Errors
    /// When the list can't be written.
    pub fn add(&self, workspace: &Path) -> Result<(), Fault> {
        use io::Write;
        if self.holds(workspace) {
            return Ok(());
        }
        let write = || {
            if let Some(folder) = self.file.parent() {
                fs::create_dir_all(folder)?;
            }
            // One line in one write: two that add at once both stay whole.
            let mut file = fs::OpenOptions::new().append(true).create(true).open(&self.file)?;
            file.write_all(format!("{}\n", mark(workspace)).as_bytes())?;
            file.sync_all()
        };
        write().map_err(|error: io::Error| {
            Fault::new(Kind::Unavailable, format!("can't write `{}`: {error}", self.file.display()))
                .caused_by(error)
        })
    }
}

/// A text that changes with the configuration: a later pull doesn't inherit the trust.
fn mark(workspace: &Path) -> String {
    let text = fs::read(workspace.join(FILE)).unwrap_or_default();
    let hash = blake3::hash(&text).to_hex();
    format!("{hash} {}", workspace.display().to_string().escape_default())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn parse(text: &str) -> Config {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_workspace_narrows_at_once_and_widens_only_when_trusted() {
        let widening =
            parse("roots = [\"/\"]\nsandbox = \"full\"\napprove = \"auto\"\nhard_links = \"allow\"");
        let (config, aside) = Config::default().with_workspace(widening.clone(), false);
        assert_eq!(config, Config::default());
        assert_eq!(aside.len(), 4, "{aside:?}");
        let (config, aside) = Config::default().with_workspace(widening.clone(), true);
        assert_eq!((config, aside.len()), (widening, 0));

        let narrowing = parse("tools = [\"read\"]\nsandbox = \"read-only\"\napprove = \"never\"");
        let (config, aside) = Config::default().with_workspace(narrowing.clone(), false);
        assert_eq!((config, aside.len()), (narrowing, 0));
    }

    #[test]
    fn a_workspace_cannot_bring_back_a_tool_that_the_user_left_out() {
        let mine = parse("tools = [\"read\", \"grep\"]\napprove = \"never\"");
        let (config, _) =
            mine.with_workspace(parse("tools = [\"read\", \"edit\"]\napprove = \"ask\""), false);
        assert_eq!(config.tools.unwrap(), ["read"]);
        assert_eq!(config.approve, Some(Approve::Never));
    }

    #[test]
    fn a_typo_is_an_error_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), "tools = []\ntoolz = []\n").unwrap();
        let fault = Config::read(&dir.path().join(FILE)).unwrap_err();
        assert!(fault.what.contains("toolz") && fault.what.contains("line 2"), "{}", fault.what);
    }

    #[test]
    fn trust_ends_when_the_configuration_changes() {
        let (state, workspace) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let trust = Trust::in_state(state.path());
        fs::write(workspace.path().join(FILE), "tools = []").unwrap();
        assert!(!trust.holds(workspace.path()));
        trust.add(workspace.path()).unwrap();
        assert!(trust.holds(workspace.path()));
        fs::write(workspace.path().join(FILE), "roots = [\"/\"]").unwrap();
        assert!(!trust.holds(workspace.path()));
    }

    #[test]
    fn a_root_may_be_read_only() {
        let root = |text| parse_root(text, Path::new("/ws"));
        assert_eq!(root("../lib:ro"), RootSpec { path: "/ws/../lib".into(), read_only: true });
        assert_eq!(root("/data"), RootSpec { path: "/data".into(), read_only: false });
    }
}
