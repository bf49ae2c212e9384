//! Effects: what a call may do to the world, as grants name it.

use std::{fmt, path::Path};

use crate::files::Location;

use crate::quote::line;

/// A permission that can be granted: an effect wherever possible, not the text of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Change this file, or anything below this folder, relative to the workspace.
    Write(String),
    /// Change this file, or anything below this folder, without the question about each change; `.` is the
    /// workspace. It does not permit changes that are asked about for another reason.
    Edit(String),
    /// Connect to this host: `host`, `host:port`, `*.example.org`, `*`.
    Net(String),
    /// Read pages of this host, and no more; hosts are named as in `Net`.
    Web(String),
    /// A decision that a tool stores itself, such as the key of a host; not a grant in haft.
    Elsewhere(String),
    /// Start this server, as it is configured now: `NAME@HASH`.
    Server(String),
    /// Run commands that begin with these words.
    Run(Vec<String>),
    /// Run exactly this command line.
    RunExactly(String),
    /// Run commands that begin with these words outside the sandbox.
    Unconfined(Vec<String>),
    /// Run exactly this command line outside the sandbox.
    UnconfinedExactly(String),
}

/// The time for which a person permits something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// This call only.
    Once,
    /// This session.
    Session,
    /// This workspace.
    Project,
}

impl Scope {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Project => "project",
        }
    }
}

impl Effect {
    /// Returns the effect that permits exactly this command line; `leaves`: outside the sandbox.
    pub fn exactly(text: &str, leaves: bool) -> Self {
        let text = text.trim().to_owned();
        if leaves { Self::UnconfinedExactly(text) } else { Self::RunExactly(text) }
    }

    /// Returns whether it is exactly this command line. A command that may run outside the sandbox may also
    /// run in it.
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

    /// Returns the first words of the commands that it permits.
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

    /// Returns whether it permits changes of this place in the workspace.
    pub fn allows_write(&self, location: &Location, workspace: &Path) -> bool {
        matches!(self, Self::Write(path) if location.absolute().starts_with(workspace.join(path)))
    }

    /// Returns whether it permits changes of this place without a question about each.
    pub fn allows_edit(&self, location: &Location, workspace: &Path) -> bool {
        match self {
            Self::Edit(path) => location.absolute().starts_with(workspace.join(path)),
            other => other.allows_write(location, workspace),
        }
    }

    /// Returns whether it permits connections to this host.
    pub fn allows_host(&self, host: &str) -> bool {
        matches!(self, Self::Net(granted) if host_matches(granted, host))
    }

    /// Returns whether it permits reading pages of this host; a permission to connect includes that.
    pub fn allows_look(&self, host: &str) -> bool {
        self.allows_host(host) || matches!(self, Self::Web(granted) if host_matches(granted, host))
    }

    /// Returns whether it permits all that `other` permits.
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

/// Returns whether the text is a host as a grant names one.
pub fn is_host(text: &str) -> bool {
    let host = text.strip_prefix("*.").unwrap_or(text);
    text == "*"
        || (!host.is_empty()
            && !host.starts_with(['.', '-', ':'])
            && host.chars().all(|it| it.is_ascii_alphanumeric() || "-._:[]".contains(it)))
}

/// Returns whether this pattern matches this host. A pattern without a port matches all ports.
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

/// Splits off `:port`; the brackets and colons of an IPv6 address belong to the host.
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
