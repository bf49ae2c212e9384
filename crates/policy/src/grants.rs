//! Grants: standing permissions of a person, their scope, and whether they cover a call.

use std::{
    path::{Component, Path},
    sync::Arc,
};

use kit::{Fault, effect::is_host};
use parking_lot::Mutex;
use store::Store;

use crate::{Decision, Policy, Want, commands};
use kit::effect::{Effect, Scope};

/// Parses an effect as a person writes it: `write PATH`, `edit PATH`, `net HOST`, `web HOST`, `run COMMAND`,
/// `unconfined COMMAND`.
///
/// # Errors
/// When it is none of these.
pub fn parse(text: &str) -> Result<Effect, Fault> {
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
            let inside =
                Path::new(rest).components().all(|it| matches!(it, Component::Normal(_) | Component::CurDir));
            if !inside {
                return Err(wrong(format!("`{rest}` is not a path relative to the workspace")));
            }
            let path = rest.trim_end_matches('/').to_owned();
            Ok(if kind == "write" { Effect::Write(path) } else { Effect::Edit(path) })
        }
        "net" | "web" => {
            let host = is_host(rest).then(|| rest.to_ascii_lowercase()).ok_or_else(|| {
                wrong(format!(
                    "`{rest}` is not a host; a grant names `host`, `host:port`, `*.example.org` or `*`"
                ))
            })?;
            Ok(if kind == "net" { Effect::Net(host) } else { Effect::Web(host) })
        }
        "server" => match rest.split_once('@') {
            Some((name, hash)) if !name.is_empty() && !hash.is_empty() => Ok(Effect::Server(rest.to_owned())),
            _ => Err(wrong(format!("`{rest}` is not a server as a question names one: `NAME@HASH`"))),
        },
        "run" => {
            Ok(commands::as_prefix(rest).map_or_else(|| Effect::RunExactly(rest.to_owned()), Effect::Run))
        }
        "unconfined" => Ok(commands::as_prefix(rest)
            .map_or_else(|| Effect::UnconfinedExactly(rest.to_owned()), Effect::Unconfined)),
        "run-exactly" => Ok(Effect::RunExactly(rest.to_owned())),
        "unconfined-exactly" => Ok(Effect::UnconfinedExactly(rest.to_owned())),
        _ => Err(wrong(format!("unknown kind of grant `{kind}`"))),
    }
}

/// A grant in force for a session.
#[derive(Debug, Clone)]
pub(crate) struct ActiveGrant {
    /// Its number in the store, if it is stored.
    id: Option<i64>,
    scope: Scope,
    pub(crate) effect: Effect,
}

/// The grants in force for one session: those of the workspace, those of its name, and those that end with
/// it. Cheap to clone; the sessions of subagents share them.
#[derive(Clone)]
pub struct SessionGrants {
    store: Store,
    /// The session under whose name a person's grants are stored.
    session: Arc<str>,
    /// Whether it has a name. A session without one keeps its grants in memory.
    is_named: bool,
    /// The front end through which a person grants, for the journal.
    front_end: Arc<str>,
    in_memory: Arc<Mutex<Vec<Effect>>>,
    /// Set while a turn runs that nobody attends: the only grants that count in it.
    unattended: Arc<Mutex<Option<Arc<[Effect]>>>>,
}

impl SessionGrants {
    pub fn new(store: Store, session: &str, is_named: bool, front_end: &str) -> Self {
        Self {
            store,
            session: session.into(),
            is_named,
            front_end: front_end.into(),
            in_memory: Arc::default(),
            unattended: Arc::default(),
        }
    }

    /// Sets whether a turn runs that nobody attends, and the grants that count in it. What would be asked about is then denied,
    /// in every approval mode.
    pub fn set_unattended(&self, granted: Option<Vec<Effect>>) {
        *self.unattended.lock() = granted.map(Into::into);
    }

    /// Returns whether a turn runs that nobody attends.
    pub fn is_unattended(&self) -> bool {
        self.unattended.lock().is_some()
    }

    /// Applies the approval mode to a decision; where nobody attends, a question is a refusal.
    fn settle(&self, policy: &Policy, decision: Decision) -> Decision {
        match decision {
            Decision::Ask(rule) if self.is_unattended() => Decision::Deny(rule),
            decision => policy.settle(decision),
        }
    }

    /// Returns the session under whose name grants are stored, and whether a person gave that name.
    pub fn session(&self) -> (&str, bool) {
        (&self.session, self.is_named)
    }

    /// Decides on a call with these resources; returns the decision, and the grant or rule in the words of
    /// the journal. Reads the store only if a person would be asked.
    pub fn decide(&self, policy: &Policy, wants: &[Want]) -> (Decision, String) {
        let (decision, _) = policy.weigh(wants, &[]);
        if let Decision::Ask(_) = decision {
            let held = self.held();
            let effects: Vec<&Effect> = held.iter().map(|it| &it.effect).collect();
            let (again, used) = policy.weigh(wants, &effects);
            if again == Decision::Allow {
                let used: Vec<&ActiveGrant> = used.iter().filter_map(|at| held.get(*at)).collect();
                return (Decision::Allow, self.note(&used));
            }
            return (self.settle(policy, again), "allowed".to_owned());
        }
        (self.settle(policy, decision), "allowed".to_owned())
    }

    /// Returns the grants that cover the question by now, in the words of the journal.
    pub fn meanwhile(&self, offers: &[Effect]) -> Option<String> {
        let held = self.held();
        let covering: Option<Vec<&ActiveGrant>> =
            offers.iter().map(|offer| held.iter().find(|it| it.effect.implies(offer))).collect();
        covering.filter(|it| !it.is_empty()).map(|used| self.note(&used))
    }

    /// Stores what a person allowed, for the scope that they chose.
    ///
    /// # Errors
    /// When the store can't be written.
    pub async fn keep(&self, offers: &[Effect], scope: Scope) -> Result<(), Fault> {
        let session = match scope {
            Scope::Once => return Ok(()),
            Scope::Session => Some(&*self.session),
            Scope::Project => None,
        };
        for effect in offers {
            if scope == Scope::Session && !self.is_named {
                self.in_memory.lock().push(effect.clone());
            } else {
                self.store.grants().keep(effect, session, &self.front_end).await?;
            }
        }
        Ok(())
    }

    /// Returns the hosts that a person granted to this session, or to the whole workspace.
    pub fn hosts(&self) -> Vec<String> {
        let host = |held: ActiveGrant| match held.effect {
            Effect::Net(host) => Some(host),
            _ => None,
        };
        self.held().into_iter().filter_map(host).collect()
    }

    /// Returns the further hosts whose pages a person allowed to read.
    pub fn hosts_to_look_at(&self) -> Vec<String> {
        let host = |held: ActiveGrant| match held.effect {
            Effect::Web(host) => Some(host),
            _ => None,
        };
        self.held().into_iter().filter_map(host).collect()
    }

    fn held(&self) -> Vec<ActiveGrant> {
        if let Some(granted) = self.unattended.lock().clone() {
            let of_trigger =
                |effect: &Effect| ActiveGrant { id: None, scope: Scope::Once, effect: effect.clone() };
            return granted.iter().map(of_trigger).collect();
        }
        let mut held: Vec<ActiveGrant> = self
            .in_memory
            .lock()
            .iter()
            .map(|effect| ActiveGrant { id: None, scope: Scope::Session, effect: effect.clone() })
            .collect();
        match self.store.grants().in_force(&self.session) {
            Ok(records) => held.extend(records.into_iter().filter_map(|record| {
                let scope = if record.session.is_some() { Scope::Session } else { Scope::Project };
                // A grant that another version of haft wrote and this one can't parse has no effect.
                Some(ActiveGrant { id: Some(record.id), scope, effect: parse(&record.effect).ok()? })
            })),
            Err(fault) => tracing::warn!("the grants of this workspace can't be read: {fault}"),
        }
        held
    }

    fn note(&self, used: &[&ActiveGrant]) -> String {
        let ids: Vec<i64> = used.iter().filter_map(|it| it.id).collect();
        if !ids.is_empty() {
            self.store.grants().used(ids);
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
    use kit::effect::host_matches;

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
            let effect = parse(text).unwrap();
            assert_eq!(effect.to_string(), text);
            assert_eq!(parse(&effect.to_string()).unwrap(), effect);
        }
    }

    #[test]
    fn a_web_grant_does_not_imply_a_net_grant() {
        let (look, speak) = (parse("web a.org").unwrap(), parse("net a.org").unwrap());
        assert!(look.allows_look("a.org:8080") && !look.allows_host("a.org:8080"));
        assert!(speak.allows_look("a.org") && speak.allows_host("a.org"));
        assert!(speak.implies(&look) && !look.implies(&speak));
    }

    #[test]
    fn commands_that_run_others_are_granted_only_as_a_whole() {
        for text in [
            "python x.py",
            "sudo ls",
            "a && b",
            "cargo test > log",
            "$X",
            "PATH=/x ls",
            "find . -exec rm {} +",
        ] {
            let effect = parse(&format!("run {text}")).unwrap();
            assert_eq!(effect, Effect::RunExactly(text.to_owned()));
        }
        assert_eq!(parse("run ls -l").unwrap(), Effect::Run(vec!["ls".to_owned(), "-l".to_owned()]));
    }

    #[test]
    fn invalid_effects_are_refused() {
        for text in ["", "run", "fly me", "write ../x", "write /etc", "net a b", "net http://x/", "net *."] {
            assert!(parse(text).is_err(), "{text}");
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
