//! Configuration: the person's haft.toml, narrowed by the workspace's, under the command line.
//!
//! Layers, lowest first: the user's own file, which is trusted; the workspace's `haft.toml`, which came with
//! a clone; the command line. The workspace's file may narrow permissions. It widens them only once the
//! person has trusted exactly this text.

mod agents;
mod commands;
mod files;
mod general;
mod hooks;
pub mod keys;
mod limits;
mod models;
mod network;
mod provenance;
mod servers;
mod tool_files;
mod tool_list;
mod triggers;
mod trust;
mod undo;
mod workers;

use std::{
    io,
    path::{Component, Path, PathBuf},
};

use kit::{Fault, effect::is_host, files::RootSpec};
use policy::{Approve, Web};
use rustix::fs::OFlags;
use sandbox::SandboxMode;

pub use agents::{
    AgentSection, CALLS, ChatSection, INBOX_BYTES, INBOX_MESSAGES, Notify, STEPS, SUBAGENT_SECONDS,
    SUBAGENT_STEPS, SubagentSection, Theme, ToolVisibility, WAIT_SECONDS, WAKES,
};
pub use commands::{CommandRule, CommandsSection};
pub use files::{another_text, servers_text, text_of_another, workspace_text};
use files::{bounded, text, wrong};
pub use general::{Config, HardLinks, Tables};
pub use hooks::{HookEvent, HookSection, OnFailure};
pub(crate) use hooks::{files_named, files_of_home, whole_name};
use keys::{Bounded, merging::Upper};
pub use limits::LimitsSection;
pub use models::{ArgStyle, DialectSection, ModelSection, PriceSection};
pub use network::{Net, ProgramsSection, SearchSection, SecretSection, SshSection};
pub use provenance::{Layer, Origin, Origins, Source, Unused, Why, origins};
pub use servers::{DOT_MCP, OauthSection, ServerSection, Variables};
pub use tool_files::ToolSection;
pub use triggers::{TRIGGERS_SESSION, TriggerSection, spec_of, spec_of_creature};
pub use trust::{CLAUDE, CLAUDE_SETTINGS, Trust, has_hooks};
pub use undo::{AskLimits, UndoSection};
pub use workers::{LEASE_SECONDS, WorkersSection};

/// The longest deadline, in seconds.
const LONGEST: u64 = 3600;

/// The name of a configuration file, in the workspace and in the user's folder.
pub const FILE: &str = "haft.toml";

impl Config {
    /// Reads the user's own file; returns the defaults if there is none.
    ///
    /// # Errors
    /// When it can't be read or parsed; the fault names the line.
    pub fn read(path: &Path) -> Result<Self, Fault> {
        Self::parse(path, bounded(path, OFlags::empty()))
    }

    /// Returns the narrowest settings: nothing is changed, nobody is asked, and nothing outside is contacted.
    /// They apply if a person's file can't be read, which may have said so.
    pub fn narrowest() -> Self {
        Self {
            sandbox: Some(SandboxMode::ReadOnly),
            approve: Some(Approve::Never),
            net: Net { web: Some(Web::None), ..Net::default() },
            ..Self::default()
        }
    }

    /// Reads the workspace's file. Does not follow a symlink.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub fn read_workspace(workspace: &Path) -> Result<Self, Fault> {
        let path = workspace.join(FILE);
        Self::parse(&path, bounded(&path, OFlags::NOFOLLOW))
    }

    fn parse(path: &Path, read: io::Result<Vec<u8>>) -> Result<Self, Fault> {
        match text(path, read)? {
            Some(bytes) => Self::of_bytes(path, &bytes),
            None => Ok(Self::default()),
        }
    }

    fn of_bytes(path: &Path, bytes: &[u8]) -> Result<Self, Fault> {
        toml::from_slice::<Self>(bytes).map_err(|error| wrong(path, error))?.settled(path)
    }

    /// Clamps numbers, resolves paths against the file's folder, and checks hosts and rules.
    fn settled(mut self, path: &Path) -> Result<Self, Fault> {
        self.bound();
        let base = path.parent().unwrap_or(Path::new(""));
        let tools = self.sections.user.values_mut().flat_map(|it| it.read.iter_mut().chain(&mut it.write));
        let servers = self.servers.user.values_mut().flat_map(|it| it.read.iter_mut().chain(&mut it.write));
        self.tools_dirs.iter_mut().chain(tools).chain(servers).for_each(|it| meant_from(base, it));
        self.check().map_err(|fault| Fault {
            what: format!("`{}` is not a valid configuration: {}", path.display(), fault.what),
            ..fault
        })?;
        Ok(self)
    }

    /// Checks the rules with their examples, and the names of hosts.
    fn check(&self) -> Result<(), Fault> {
        self.rules(Path::new(""))?;
        self.hook.iter().try_for_each(HookSection::check)?;
        let named = |table: &str, name: &str, hosts: &[String]| {
            hosts.iter().map(|host| (host.clone(), format!("[{table}.{name}]"))).collect::<Vec<_>>()
        };
        let of_net = self.net.allow.iter().map(|host| (host.clone(), "[net]".to_owned()));
        let of_tools = self.sections.user.iter().flat_map(|(name, it)| named("tool", name, &it.net));
        let of_servers = self.servers.user.iter().flat_map(|(name, it)| named("mcp", name, &it.net));
        let of_secrets = self.secrets.iter().flat_map(|(name, it)| named("secret", name, &it.hosts));
        match of_net.chain(of_tools).chain(of_servers).chain(of_secrets).find(|(host, _)| !is_host(host)) {
            None => Ok(()),
            Some((host, place)) => Err(Fault::bad_args(format!("`{host}` in `{place}` is not a host"))
                .next("A host is `host`, `host:port`, `*.example.org` or `*`.".to_owned())),
        }
    }

    /// Merges the workspace's file into the user's: it narrows permissions, and widens them only if it is
    /// trusted. Also returns what is ignored, one line each.
    #[must_use]
    pub fn with_workspace(self, workspace: Self, trusted: bool) -> (Self, Vec<String>) {
        keys::merge(self, workspace, Upper::Workspace { trusted })
    }

    /// Merges the command line over both files: it counts as the person's own word, and its lists add to the
    /// person's.
    #[must_use]
    pub fn with_command_line(self, typed: Self) -> Self {
        keys::merge(self, typed, Upper::CommandLine).0
    }
}

/// Resolves a path against the folder of its file, unless it begins with `~`.
fn meant_from(base: &Path, path: &mut PathBuf) {
    if !path.starts_with("~") {
        *path = base.join(&*path);
    }
}

/// Returns a path with the home folder in place of a leading `~`, without `.` and `..`.
pub fn parse_path(path: &Path, home: &Path) -> PathBuf {
    let path = path.strip_prefix("~").map_or_else(|_| path.to_owned(), |below| home.join(below));
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// Parses a root: `PATH`, or `PATH:ro` for a read-only one. Relative paths are resolved against `base`.
pub fn parse_root(text: &str, base: &Path) -> RootSpec {
    let (path, read_only) = match text.strip_suffix(":ro") {
        Some(path) => (path, true),
        None => (text.strip_suffix(":rw").unwrap_or(text), false),
    };
    RootSpec { path: base.join(path), read_only }
}

#[cfg(test)]
mod tests;
