//! Effects: what a call may do to the world, as grants name it.

use std::{fmt, path::Path};

use crate::files::Location;

use crate::quote::line;

/// What a grant allows: an effect, not a text, wherever that is possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// To change this file, or anything below this folder, relative to the workspace.
    Write(String),
    /// To change this file, or anything below this folder, where each change is asked about; `.` is the workspace. No
    /// leave to change what is asked about anyway.
    Edit(String),
    /// To speak to this host: `host`, `host:port`, `*.example.org`, `*`.
    Net(String),
    /// To look at what this host shows, and no more: named as in `Net`.
    Web(String),
    /// What a tool keeps by itself, such as the key of a host; not a grant in haft.
    Elsewhere(String),
    /// To start this server, as it is configured now: `NAME@HASH`.
    Server(String),
    /// To run commands that begin with these words.
    Run(Vec<String>),
    /// To run exactly this command line.
    RunExactly(String),
    /// To run commands that begin with these words outside the sandbox.
    Unconfined(Vec<String>),
    /// To run exactly this command line outside the sandbox.
    UnconfinedExactly(String),
}

/// For how long a person allows something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// This very call.
    Once,
    /// This session.
    Session,
    /// This workspace.
    Project,
}

impl Scope {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Project => "project",
        }
    }
}

impl Effect {
    /// A command line as a whole.
    pub fn exactly(text: &str, leaves: bool) -> Self {
        let text = text.trim().to_owned();
        if leaves { Self::UnconfinedExactly(text) } else { Self::RunExactly(text) }
    }

    /// Is it this very command line? One that may leave the sandbox may also stay in it.
    pub fn is_exactly(&self, text: &str, leaves: bool) -> bool {
        match self {
            Self::RunExactly(granted) => !leaves && granted == text.trim(),
            Self::UnconfinedExactly(granted) => granted == text.trim(),
            Self::Write(_)
            | Self::Edit(_)
            | Self::Net(_)
            | Self::Web(_)
            | Self::Elsewhere(_)
            | Self::Server(_)
            | Self::Run(_)
            | Self::Unconfined(_) => false,
        }
    }

    /// The first words of the commands that it is about.
    pub fn prefix(&self, leaves: bool) -> Option<&[String]> {
        match self {
            Self::Run(words) => (!leaves).then_some(words),
            Self::Unconfined(words) => Some(words),
            Self::Write(_)
            | Self::Edit(_)
            | Self::Net(_)
            | Self::Web(_)
            | Self::Elsewhere(_)
            | Self::Server(_)
            | Self::RunExactly(_)
            | Self::UnconfinedExactly(_) => None,
        }
    }

    /// Does it allow to change this place in the workspace?
    pub fn allows_write(&self, location: &Location, workspace: &Path) -> bool {
        matches!(self, Self::Write(path) if location.absolute().starts_with(workspace.join(path)))
    }

    /// Does it allow changes of this place without a question about each?
    pub fn allows_edit(&self, location: &Location, workspace: &Path) -> bool {
        match self {
            Self::Edit(path) => location.absolute().starts_with(workspace.join(path)),
            other => other.allows_write(location, workspace),
        }
    }

    /// Does it allow to speak to this host?
    pub fn allows_host(&self, host: &str) -> bool {
        matches!(self, Self::Net(granted) if host_matches(granted, host))
    }

    /// Does it allow to look at this host? Whoever may speak to it may look.
    pub fn allows_look(&self, host: &str) -> bool {
        self.allows_host(host) || matches!(self, Self::Web(granted) if host_matches(granted, host))
    }

    /// Does it allow all that `other` allows?
    pub fn implies(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Run(mine), Self::Run(theirs))
            | (Self::Unconfined(mine), Self::Unconfined(theirs) | Self::Run(theirs)) => {
                theirs.starts_with(mine)
            }
            (Self::Net(mine), Self::Net(theirs) | Self::Web(theirs))
            | (Self::Web(mine), Self::Web(theirs)) => host_matches(mine, theirs),
            (Self::Write(mine), Self::Write(theirs))
            | (Self::Write(mine) | Self::Edit(mine), Self::Edit(theirs)) => {
                // The dot is the workspace.
                let below = |path: &str| Path::new("/").join(path);
                below(theirs).starts_with(below(mine))
            }
            (mine, theirs) => mine == theirs,
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(path) => write!(f, "write {path}"),
            Self::Edit(path) => write!(f, "edit {path}"),
            Self::Net(host) => write!(f, "net {host}"),
            Self::Web(host) => write!(f, "web {host}"),
            Self::Elsewhere(what) => f.write_str(what),
            Self::Server(server) => write!(f, "server {server}"),
            Self::Run(words) => write!(f, "run {}", line(words)),
            Self::RunExactly(text) => write!(f, "run-exactly {text}"),
            Self::Unconfined(words) => write!(f, "unconfined {}", line(words)),
            Self::UnconfinedExactly(text) => write!(f, "unconfined-exactly {text}"),
        }
    }
}

/// Is it a host as a grant names one?
pub fn is_host(text: &str) -> bool {
    let host = text.strip_prefix("*.").unwrap_or(text);
    text == "*"
        || (!host.is_empty()
            && !host.starts_with(['.', '-', ':'])
            && host.chars().all(|it| it.is_ascii_alphanumeric() || "-._:[]".contains(it)))
}

/// Does this pattern name this host? A pattern without a port is for all ports.
pub fn host_matches(pattern: &str, host: &str) -> bool {
    let clean = |text: &str| text.trim().trim_end_matches('.').to_ascii_lowercase();
    let (pattern, host) = (clean(pattern), clean(host));
    if pattern == "*" || pattern == host {
        return true;
    }
    let (name, port) = split_port(&host);
    let (wanted, wanted_port) = split_port(&pattern);
    let name = name.trim_end_matches('.');
    if wanted_port.is_some() && wanted_port != port {
        return false;
    }
    match wanted.strip_prefix("*.") {
        Some(domain) => name.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.') && rest.len() > 1),
        None => wanted == name,
    }
}

/// `host:port`; the brackets and colons of an IPv6 address are its own.
fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port))
            if !port.is_empty()
                && port.chars().all(|it| it.is_ascii_digit())
                && (!name.contains(':') || name.ends_with(']')) =>
        {
            (name, Some(port))
        }
        _ => (host, None),
    }
}
