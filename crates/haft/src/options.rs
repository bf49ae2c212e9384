//! Global options, and the runtime that they make together with the configuration.

mod frozen;
mod hooks;
mod open;
mod tool_sources;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::{Args, ValueEnum};
use kit::{Fault, Kind};
use policy::Approve;
use runtime::{
    config::{Config, Trust},
    mcp_client::Server,
};
use sandbox::SandboxMode;

pub(crate) use frozen::Frozen;
pub use frozen::FrozenFolder;
pub(crate) use hooks::HooksFound;
pub use open::{Agents, Broken, Opened};
pub(crate) use tool_sources::tool_folders;

use crate::Place;

/// The maximum length of a session's name, in characters.
const SESSION_NAME: usize = 100;

/// Options that every verb takes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct Options {
    /// Workspace: the folder that tools work in [default: the current folder]
    #[arg(long, global = true, value_name = "PATH")]
    pub dir: Option<PathBuf>,
    /// Additional folder that tools may reach, `PATH:ro` for read-only; repeatable
    #[arg(long = "root", global = true, value_name = "PATH[:ro]")]
    pub roots: Vec<String>,
    /// Files that tools may change [default: workspace]
    #[arg(long, global = true, value_enum)]
    pub sandbox: Option<SandboxArg>,
    /// Handling of calls that need a person's approval [default: ask]
    #[arg(long, global = true, value_enum)]
    pub approve: Option<ApproveArg>,
    /// Session to continue: what it has read and changed is remembered
    #[arg(long, global = true, value_name = "NAME", value_parser = session_name)]
    pub session: Option<String>,
    /// Trust this workspace for this run: use its haft.toml and run its tools, pinned to their current content
    #[arg(long, global = true)]
    pub trust: bool,
    /// Run commands even without these sandbox parts: namespaces, landlock, signals, seccomp
    #[arg(long, global = true, value_name = "PART", value_delimiter = ',')]
    pub accept_weaker: Vec<String>,
    /// Tools to show, under the names of an ecosystem: haft, nav, hyperagents, navi, terrarium [default: haft]
    #[arg(long, global = true, value_name = "NAME")]
    pub toolset: Option<String>,
    /// MCP servers beside those of the configuration: those that an editor names for a session.
    #[arg(skip)]
    pub servers: Vec<Server>,
    /// Limits of a sender on another machine: they only narrow.
    #[arg(skip)]
    pub narrowed_by: Option<Arc<Config>>,
    /// The configuration of the workspace as another process has read it, in place of that in its files.
    #[arg(skip)]
    pub frozen: Option<Arc<FrozenFolder>>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum SandboxArg {
    /// Nothing
    ReadOnly,
    /// The workspace, and roots without `:ro`
    Workspace,
    /// The same for files; commands run outside the OS sandbox, each after approval
    Full,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ApproveArg {
    /// Ask, if there is somebody to ask; otherwise deny
    Ask,
    /// The same, and ask before each change by a file tool, showing its diff
    AskEdits,
    /// Allow without asking; addresses that are not public and unknown SSH hosts stay refused
    Auto,
    /// Deny without asking
    Never,
}

impl Options {
    /// Returns the folder that has the configuration files of the workspace.
    fn config_folder<'a>(&'a self, workspace: &'a Path) -> &'a Path {
        self.frozen.as_ref().map_or(workspace, |it| it.path())
    }

    /// Returns whether the person trusts the workspace's configuration.
    pub(crate) fn trusts_config(&self, place: &Place, workspace: &Path) -> bool {
        self.trusts(place, |it| it.trusts_config, |it| it.holds(workspace))
    }

    /// Returns whether the person trusts the workspace's tools.
    pub(crate) fn trusts_tools(&self, place: &Place, workspace: &Path) -> bool {
        self.trusts(place, |it| it.trusts_tools, |it| it.holds_tools(workspace))
    }

    /// Returns whether the person trusts the servers in the workspace's `.mcp.json`.
    fn trusts_servers(&self, place: &Place, workspace: &Path) -> bool {
        self.trusts(place, |it| it.trusts_servers, |it| it.holds_servers(workspace))
    }

    /// Returns whether the person trusts the workspace's hooks.
    fn trusts_hooks(&self, place: &Place, workspace: &Path) -> bool {
        self.trusts(place, |it| it.trusts_hooks, |it| it.holds_hooks(workspace))
    }

    fn trusts(&self, place: &Place, given: impl Fn(&Frozen) -> bool, holds: impl Fn(&Trust) -> bool) -> bool {
        match &self.frozen {
            Some(it) => given(&it.frozen),
            None => self.trust || holds(&Trust::in_state(&place.state)),
        }
    }

    /// Returns the keys of haft.toml that these options set: the layer above both files. A folder is relative to the
    /// current one.
    ///
    /// # Errors
    /// When the path of the current folder can't be written into a configuration.
    pub fn typed(&self) -> Result<Config, Fault> {
        let Self {
            dir: _,
            roots,
            sandbox,
            approve,
            session: _,
            trust: _,
            accept_weaker,
            toolset,
            servers: _,
            narrowed_by: _,
            frozen: _,
        } = self;
        Ok(Config {
            roots: roots.iter().map(|it| from_here(it)).collect::<Result<_, _>>()?,
            sandbox: sandbox.map(Into::into),
            approve: approve.map(Into::into),
            accept_weaker: accept_weaker.clone(),
            toolset: toolset.clone(),
            ..Config::default()
        })
    }

    /// Returns these options as command-line arguments, without the workspace and those for one run only.
    pub(crate) fn as_arguments(&self) -> Vec<String> {
        let pairs = [
            ("--sandbox", self.sandbox.as_ref().and_then(name_of)),
            ("--approve", self.approve.as_ref().and_then(name_of)),
            ("--session", self.session.clone()),
            ("--toolset", self.toolset.clone()),
        ];
        let mut arguments: Vec<String> =
            self.roots.iter().flat_map(|root| ["--root".to_owned(), from_anywhere(root)]).collect();
        arguments
            .extend(pairs.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?])).flatten());
        if !self.accept_weaker.is_empty() {
            arguments.extend(["--accept-weaker".to_owned(), self.accept_weaker.join(",")]);
        }
        arguments
    }

    /// Returns the workspace's canonical path.
    ///
    /// # Errors
    /// When it is not there, or is not a folder.
    pub fn workspace(&self) -> Result<PathBuf, Fault> {
        let dir = self.dir.clone().unwrap_or_else(|| PathBuf::from("."));
        let canonical = dir.canonicalize().map_err(|error| {
            Fault::new(Kind::NotFound, format!("the workspace `{}` can't be opened: {error}", dir.display()))
                .next("Name a folder that exists with `--dir PATH`.".to_owned())
        })?;
        if !canonical.is_dir() {
            return Err(Fault::bad_args(format!("the workspace `{}` is not a folder", dir.display())));
        }
        Ok(canonical)
    }
}

/// Resolves a root relative to the current folder.
fn from_here(root: &str) -> Result<String, Fault> {
    let whole = std::env::current_dir().unwrap_or_default().join(root);
    whole.into_os_string().into_string().map_err(|whole| {
        Fault::bad_args(format!("the root `{}` is not UTF-8", whole.display()))
            .next("Name it with an absolute path.")
    })
}

/// Returns a root with an absolute path, so that it is valid in any folder.
fn from_anywhere(root: &str) -> String {
    let (path, mode) = root.strip_suffix(":ro").map_or((root, ""), |path| (path, ":ro"));
    let whole = std::path::absolute(path).ok().and_then(|it| it.into_os_string().into_string().ok());
    // A path with `~` stays unchanged.
    if path.starts_with('~') { root.to_owned() } else { whole.unwrap_or_else(|| path.to_owned()) + mode }
}

/// Returns the name of a value on a command line.
fn name_of(value: &impl ValueEnum) -> Option<String> {
    Some(value.to_possible_value()?.get_name().to_owned())
}

/// Checks a session's name, which appears in lists, in lines, and in a file's name.
pub(crate) fn session_name(name: &str) -> Result<String, String> {
    let letters = name.chars().count();
    if name.trim().is_empty() {
        return Err("a session's name can't be empty".to_owned());
    }
    if letters > SESSION_NAME {
        return Err(format!("it has {letters} characters; the maximum is {SESSION_NAME}"));
    }
    match name.chars().find(|it| *it == '/' || it.is_control()) {
        Some(letter) => Err(format!("a session's name can't have {letter:?}")),
        None => Ok(name.to_owned()),
    }
}

impl From<SandboxArg> for SandboxMode {
    fn from(arg: SandboxArg) -> Self {
        match arg {
            SandboxArg::ReadOnly => Self::ReadOnly,
            SandboxArg::Workspace => Self::Workspace,
            SandboxArg::Full => Self::Full,
        }
    }
}

impl From<ApproveArg> for Approve {
    fn from(arg: ApproveArg) -> Self {
        match arg {
            ApproveArg::Ask => Self::Ask,
            ApproveArg::AskEdits => Self::AskEdits,
            ApproveArg::Auto => Self::Auto,
            ApproveArg::Never => Self::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use clap::{Args as _, Command, FromArgMatches as _};
    use runtime::config::keys::{Key, sections};
    use serde_json::Value;

    use super::{Options, session_name};

    /// Returns the keys that an option sets.
    fn keys() -> Vec<(&'static str, &'static Key)> {
        let top = sections().into_iter().filter(|it| it.header.is_empty()).flat_map(|it| it.keys);
        top.filter_map(|key| Some((key.option?, key))).collect()
    }

    #[test]
    fn every_option_is_that_of_a_key_or_for_one_run_only() {
        let command = Options::augment_args(Command::new("haft"));
        let mut options: Vec<String> =
            command.get_arguments().filter_map(|it| Some(format!("--{}", it.get_long()?))).collect();
        options.retain(|it| !["--dir", "--session", "--trust"].contains(&it.as_str()));
        let mut declared: Vec<&str> = keys().into_iter().map(|(option, _)| option).collect();
        options.sort();
        declared.sort_unstable();
        assert_eq!(options, declared);
    }

    #[test]
    fn every_key_that_has_an_option_is_set_by_it() {
        for (option, key) in keys() {
            let example: toml::Table = toml::from_str(&key.setting()).unwrap();
            let example = match serde_json::to_value(example.get(key.name).unwrap()).unwrap() {
                Value::Array(items) => items.first().cloned().unwrap(),
                one => one,
            };
            let command = Options::augment_args(Command::new("haft"));
            let matches = command.get_matches_from(["haft", option, example.as_str().unwrap()]);
            let typed = Options::from_arg_matches(&matches).unwrap().typed().unwrap();
            let typed = serde_json::to_value(typed).unwrap();
            let value = typed.get(key.name).unwrap();
            let is_in = |it: &Value| it.as_str().unwrap().ends_with(example.as_str().unwrap());
            assert!(
                value.as_array().map_or_else(|| is_in(value), |it| it.iter().any(is_in)),
                "{option}: {value}"
            );
            let other = typed.as_object().unwrap().iter().filter(|(name, _)| *name != key.name);
            let empty = serde_json::to_value(runtime::config::Config::default()).unwrap();
            for (name, value) in other {
                assert_eq!(Some(value), empty.get(name), "{option} sets `{name}`");
            }
        }
    }

    #[test]
    fn a_session_s_name_is_one_short_word_of_a_line() {
        let long = "x".repeat(101);
        for name in ["", " ", "../x", "a/b", "a\u{1b}[0m", "a\nb", long.as_str()] {
            assert!(session_name(name).is_err(), "{name:?}");
        }
        for name in ["a", "fix the test", "s_0tt6s70jqxmy", "über"] {
            assert_eq!(session_name(name).as_deref(), Ok(name));
        }
    }
}
