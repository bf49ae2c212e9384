//! A person's preferences for tools that reach beyond the workspace.

use std::path::PathBuf;

/// What tools know of the person's wishes and of the machine.
#[derive(Debug, Clone, Default)]
pub struct Preferences {
    /// The folder that paths of a call are relative to.
    pub workspace: PathBuf,
    /// The person's home folder.
    pub home: Option<PathBuf>,
    /// The socket of the agent that holds the person's ssh keys.
    pub ssh_agent: Option<PathBuf>,
    /// How the web is searched.
    pub search: Search,
    /// How other machines are reached.
    pub ssh: Ssh,
    /// Where programs are that are not found by their names.
    pub programs: Programs,
}

/// How the web is searched: `[search]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    /// `duckduckgo`, `searxng`, `brave` or `tavily`; the first, if none is named.
    pub engine: Option<String>,
    /// Where it is, if not at its usual address.
    pub url: Option<String>,
    /// The name of the secret that is its key.
    pub key: Option<String>,
}

/// How other machines are reached: `[ssh]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ssh {
    /// Files in the form of `~/.ssh/config`; that one, if none is named.
    pub config: Vec<PathBuf>,
    /// A file with hosts as JSON.
    pub hosts_file: Option<PathBuf>,
    /// A file with the keys of known hosts, in which new ones are kept; `~/.ssh/known_hosts` is read as well.
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
