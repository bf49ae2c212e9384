//! What did a person allow, for how long, and does it cover this?

use std::{
    fmt,
    path::{Component, Path},
};

use kit::{Fault, files::Location};
use parking_lot::Mutex;

use crate::{
    Session, commands,
    policy::{Decision, Policy, Want},
};

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
    /// What a tool keeps by itself, such as the key of a host; no grant of haft's.
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
    /// An effect as a person writes it: `write PATH`, `edit PATH`, `net HOST`, `web HOST`, `run COMMAND`, `unconfined COMMAND`.
    ///
    /// # Errors
    /// When it is none of these.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let (kind, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let rest = rest.trim();
        let wrong = |what: String| {
            Fault::bad_args(what).next(
                "A grant is `write PATH`, `edit PATH`, `net HOST`, `web HOST`, `server NAME@HASH`, `run COMMAND` or `unconfined COMMAND`.".to_owned(),
            )
        };
        if rest.is_empty() {
            return Err(wrong(format!("`{text}` names no path, host or command")));
        }
        match kind {
            "write" | "edit" => {
                let inside = Path::new(rest)
                    .components()
                    .all(|it| matches!(it, Component::Normal(_) | Component::CurDir));
                if !inside {
                    return Err(wrong(format!("`{rest}` is not a path relative to the workspace")));
                }
                let path = rest.trim_end_matches('/').to_owned();
                Ok(if kind == "write" { Self::Write(path) } else { Self::Edit(path) })
            }
            "net" | "web" => {
                let host = is_host(rest).then(|| rest.to_ascii_lowercase()).ok_or_else(|| {
                    wrong(format!(
                        "`{rest}` is not a host; a grant names `host`, `host:port`, `*.example.org` or `*`"
                    ))
                })?;
                Ok(if kind == "net" { Self::Net(host) } else { Self::Web(host) })
            }
            "server" => match rest.split_once('@') {
                Some((name, hash)) if !name.is_empty() && !hash.is_empty() => {
                    Ok(Self::Server(rest.to_owned()))
                }
                _ => Err(wrong(format!("`{rest}` is not a server as a question names one: `NAME@HASH`"))),
            },
            "run" => {
                Ok(commands::as_prefix(rest).map_or_else(|| Self::RunExactly(rest.to_owned()), Self::Run))
            }
            "unconfined" => Ok(commands::as_prefix(rest)
                .map_or_else(|| Self::UnconfinedExactly(rest.to_owned()), Self::Unconfined)),
            "run-exactly" => Ok(Self::RunExactly(rest.to_owned())),
            "unconfined-exactly" => Ok(Self::UnconfinedExactly(rest.to_owned())),
            _ => Err(wrong(format!("unknown kind of grant `{kind}`"))),
        }
    }

    /// A command line as a whole.
    pub(crate) fn exactly(text: &str, leaves: bool) -> Self {
        let text = text.trim().to_owned();
        if leaves { Self::UnconfinedExactly(text) } else { Self::RunExactly(text) }
    }

    /// Is it this very command line? One that may leave the sandbox may also stay in it.
    pub(crate) fn is_exactly(&self, text: &str, leaves: bool) -> bool {
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
    pub(crate) fn prefix(&self, leaves: bool) -> Option<&[String]> {
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
    pub(crate) fn allows_write(&self, location: &Location, workspace: &Path) -> bool {
        matches!(self, Self::Write(path) if location.absolute().starts_with(workspace.join(path)))
    }

    /// Does it allow changes of this place without a question about each?
    pub(crate) fn allows_edit(&self, location: &Location, workspace: &Path) -> bool {
        match self {
            Self::Edit(path) => location.absolute().starts_with(workspace.join(path)),
            other => other.allows_write(location, workspace),
        }
    }

    /// Does it allow to speak to this host?
    pub(crate) fn allows_host(&self, host: &str) -> bool {
        matches!(self, Self::Net(granted) if host_matches(granted, host))
    }

    /// Does it allow to look at this host? Whoever may speak to it may look.
    pub(crate) fn allows_look(&self, host: &str) -> bool {
        self.allows_host(host) || matches!(self, Self::Web(granted) if host_matches(granted, host))
    }

    /// Does it allow all that `other` allows?
    fn implies(&self, other: &Self) -> bool {
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
            Self::Run(words) => write!(f, "run {}", commands::line(words)),
            Self::RunExactly(text) => write!(f, "run-exactly {text}"),
            Self::Unconfined(words) => write!(f, "unconfined {}", commands::line(words)),
            Self::UnconfinedExactly(text) => write!(f, "unconfined-exactly {text}"),
        }
    }
}

/// Is it a host as a grant names one?
pub(crate) fn is_host(text: &str) -> bool {
    let host = text.strip_prefix("*.").unwrap_or(text);
    text == "*"
        || (!host.is_empty()
            && !host.starts_with(['.', '-', ':'])
            && host.chars().all(|it| it.is_ascii_alphanumeric() || "-._:[]".contains(it)))
}

/// Does this pattern name this host? A pattern without a port is for all ports.
pub(crate) fn host_matches(pattern: &str, host: &str) -> bool {
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

/// A grant that counts for a session.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    /// Its number, where it is in the store.
    id: Option<i64>,
    scope: Scope,
    pub(crate) effect: Effect,
}

/// What a session without a name was allowed: it ends with it.
#[derive(Default)]
pub(crate) struct Passing(Mutex<Vec<Effect>>);

impl Session {
    /// What becomes of a call that wants these things, and by which grant or rule, in the
    /// words of the journal. The store is looked at only where somebody would be asked.
    pub(crate) fn decide(&self, wants: &[Want]) -> (Decision, String) {
        self.decide_by(&self.policy(), wants)
    }

    /// The same by this policy.
    pub(crate) fn decide_by(&self, policy: &Policy, wants: &[Want]) -> (Decision, String) {
        let (decision, _) = policy.weigh(wants, &[]);
        if let Decision::Ask(_) = decision {
            let held = self.held();
            let effects: Vec<&Effect> = held.iter().map(|it| &it.effect).collect();
            let (again, used) = policy.weigh(wants, &effects);
            if again == Decision::Allow {
                let used: Vec<&Held> = used.iter().filter_map(|at| held.get(*at)).collect();
                return (Decision::Allow, self.note(&used));
            }
            return (policy.settle(again), "allowed".to_owned());
        }
        (policy.settle(decision), "allowed".to_owned())
    }

    /// The grants that by now cover what was to be asked about, in the words of the journal.
    pub(crate) fn granted_meanwhile(&self, offers: &[Effect]) -> Option<String> {
        let held = self.held();
        let covering: Option<Vec<&Held>> =
            offers.iter().map(|offer| held.iter().find(|it| it.effect.implies(offer))).collect();
        covering.filter(|it| !it.is_empty()).map(|used| self.note(&used))
    }

    /// Keeps what a person allowed, for as long as they said. Says in what words.
    pub(crate) async fn grant(&self, offers: &[Effect], scope: Scope) -> Result<(), Fault> {
        let session = match scope {
            Scope::Once => return Ok(()),
            Scope::Session => Some(self.grants_of().0),
            Scope::Project => None,
        };
        for effect in offers {
            if scope == Scope::Session && !self.grants_of().1 {
                self.passing().0.lock().push(effect.clone());
            } else {
                self.store().grants().keep(effect, session, self.door()).await?;
            }
        }
        Ok(())
    }

    /// The hosts that a person granted to this session, or to all of the workspace.
    pub(crate) fn granted_hosts(&self) -> Vec<String> {
        let host = |held: Held| match held.effect {
            Effect::Net(host) => Some(host),
            _ => None,
        };
        self.held().into_iter().filter_map(host).collect()
    }

    /// The hosts that a person granted to be looked at, beyond those.
    pub(crate) fn hosts_to_look_at(&self) -> Vec<String> {
        let host = |held: Held| match held.effect {
            Effect::Web(host) => Some(host),
            _ => None,
        };
        self.held().into_iter().filter_map(host).collect()
    }

    fn held(&self) -> Vec<Held> {
        let mut held: Vec<Held> = self
            .passing()
            .0
            .lock()
            .iter()
            .map(|effect| Held { id: None, scope: Scope::Session, effect: effect.clone() })
            .collect();
        match self.store().grants().in_force(self.grants_of().0) {
            Ok(records) => held.extend(records.into_iter().filter_map(|record| {
                let scope = if record.session.is_some() { Scope::Session } else { Scope::Project };
                // What an older or newer haft wrote and this one can't read grants nothing.
                Some(Held { id: Some(record.id), scope, effect: Effect::parse(&record.effect).ok()? })
            })),
            Err(fault) => tracing::warn!("the grants of this workspace can't be read: {fault}"),
        }
        held
    }

    fn note(&self, used: &[&Held]) -> String {
        let ids: Vec<i64> = used.iter().filter_map(|it| it.id).collect();
        if !ids.is_empty() {
            self.store().grants().used(ids);
        }
        let mut said: Vec<String> =
            used.iter().map(|it| format!("{} ({})", it.effect, it.scope.name())).collect();
        said.dedup();
        format!("granted: {}", said.join(", "))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn an_effect_reads_back_as_it_is_written() {
        for text in [
            "write .vscode",
            "net crates.io",
            "net *.example.org:443",
            "web 127.0.0.1:8080",
            "run cargo test",
            "run git commit -m 'two words'",
            "run-exactly python x.py | tee log",
            "unconfined cargo build",
            "unconfined-exactly ./x && y",
        ] {
            let effect = Effect::parse(text).unwrap();
            assert_eq!(effect.to_string(), text);
            assert_eq!(Effect::parse(&effect.to_string()).unwrap(), effect);
        }
    }

    #[test]
    fn to_look_is_less_than_to_speak() {
        let (look, speak) = (Effect::parse("web a.org").unwrap(), Effect::parse("net a.org").unwrap());
        assert!(look.allows_look("a.org:8080") && !look.allows_host("a.org:8080"));
        assert!(speak.allows_look("a.org") && speak.allows_host("a.org"));
        assert!(speak.implies(&look) && !look.implies(&speak));
    }

    #[test]
    fn what_runs_others_is_granted_only_as_a_whole() {
        for text in [
            "python x.py",
            "sudo ls",
            "a && b",
            "cargo test > log",
            "$X",
            "PATH=/x ls",
            "find . -exec rm {} +",
        ] {
            let effect = Effect::parse(&format!("run {text}")).unwrap();
            assert_eq!(effect, Effect::RunExactly(text.to_owned()));
        }
        assert_eq!(Effect::parse("run ls -l").unwrap(), Effect::Run(vec!["ls".to_owned(), "-l".to_owned()]));
    }

    #[test]
    fn what_is_no_effect_is_refused() {
        for text in ["", "run", "fly me", "write ../x", "write /etc", "net a b", "net http://x/", "net *."] {
            assert!(Effect::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_host_is_matched_as_a_name_and_never_as_a_text() {
        for (pattern, host) in [
            ("crates.io", "crates.io"),
            ("crates.io", "CRATES.io:443"),
            ("crates.io", "crates.io."),
            ("crates.io:443", "crates.io:443"),
            ("*.example.org", "a.example.org"),
            ("*.example.org", "b.a.example.org:80"),
            ("*", "anything:1"),
            ("[::1]", "[::1]:80"),
        ] {
            assert!(host_matches(pattern, host), "{pattern} {host}");
        }
        for (pattern, host) in [
            ("crates.io", "evilcrates.io"),
            ("crates.io", "crates.io.evil.org"),
            ("crates.io:443", "crates.io:80"),
            ("crates.io:443", "crates.io"),
            ("*.example.org", "example.org"),
            ("*.example.org", "evilexample.org"),
            ("*.example.org", ".example.org"),
            ("::1", "::2"),
        ] {
            assert!(!host_matches(pattern, host), "{pattern} {host}");
        }
    }
}
