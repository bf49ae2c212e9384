//! A person's preferences for tools that reach beyond the workspace.

use std::path::PathBuf;

/// The person's configuration for tools, and facts about the machine.
#[derive(Debug, Clone, Default)]
pub struct Preferences {
    /// The folder that relative paths of a call refer to.
    pub workspace: PathBuf,
    /// The person's home folder.
    pub home: Option<PathBuf>,
    /// The socket of the ssh-agent.
    pub ssh_agent: Option<PathBuf>,
    /// Configuration of web search.
    pub search: Search,
    /// Configuration of SSH.
    pub ssh: Ssh,
    /// Paths of programs that are not in `PATH`.
    pub programs: Programs,
}

/// Configuration of web search: `[search]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    /// `duckduckgo`, `searxng`, `brave` or `tavily`; the first, if none is named.
    pub engine: Option<String>,
    /// Its address, if not the usual one.
    pub url: Option<String>,
    /// The name of the secret that holds its key.
    pub key: Option<String>,
}

/// Configuration of SSH: `[ssh]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ssh {
    /// Files in the format of `~/.ssh/config`; that file, if none is named.
    pub config: Vec<PathBuf>,
    /// A file with hosts, as JSON.
    pub hosts_file: Option<PathBuf>,
    /// A file with the keys of known hosts, to which new ones are added; `~/.ssh/known_hosts` is read as well.
    pub known_hosts: Option<PathBuf>,
}

/// Programs that tools start: `[programs]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Programs {
    /// A Chromium or Chrome.
    pub chromium: Option<PathBuf>,
    /// OpenSCAD.
    pub openscad: Option<PathBuf>,
}
