//! Files that a command is about to overwrite and of which no copy can be kept: the command waits until a person has
//! decided.
//!
//! After a no, or if nobody is there, the change fails with `EPERM`, and the answer says what and why. Only the
//! process that makes the change waits; the time does not count as the call's.

use std::{
    path::Path,
    sync::{Arc, Weak},
    time::Duration,
};

use ignore::gitignore::GitignoreBuilder;
use kit::{Fault, tracking::Reason};
use parking_lot::Mutex;
use policy::Rule;
use sandbox::tracker::{Asker, Hold};
use tokio::{runtime::Handle, time::sleep};

use super::{
    deletions::made_by_session,
    questions::{About, Answered, Asking, UNATTENDED},
};
use crate::{jobs::ThisCall, session_state::SessionState};

/// The name of the rule.
const RULE: &str = "no_copy";

/// Interval at which it is checked that a process still waits: it may be killed meanwhile.
const LOOK: Duration = Duration::from_millis(250);

/// The questions about one call's files.
pub(super) struct Unkept {
    /// Weak: a process that outlives its call must not keep its session.
    session: Weak<SessionState>,
    call: String,
    whose: String,
    this: Arc<ThisCall>,
    arguments: String,
    /// Whether the person runs the command: what they do is not asked about.
    by_person: bool,
    told: Mutex<Notices>,
}

/// Texts for the answer and the journal.
#[derive(Default)]
pub(super) struct Notices {
    /// Lines for the answer.
    pub(super) lines: Vec<String>,
    /// Decisions for the journal.
    pub(super) decisions: Vec<String>,
}

impl Unkept {
    pub(super) fn new(
        session: &Arc<SessionState>,
        call: &str,
        whose: &str,
        this: &Arc<ThisCall>,
        arguments: &str,
        by_person: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            session: Arc::downgrade(session),
            call: call.to_owned(),
            whose: whose.to_owned(),
            this: this.clone(),
            arguments: arguments.to_owned(),
            by_person,
            told: Mutex::default(),
        })
    }

    /// Returns the receiver of changes that wait. Call it in the runtime that is to ask.
    pub(super) fn asker(self: &Arc<Self>) -> Asker {
        let (this, runtime) = (self.clone(), Handle::current());
        Arc::new(move |hold| {
            let this = this.clone();
            runtime.spawn(async move { this.settle(hold).await });
        })
    }

    /// Takes the texts.
    pub(super) fn take(&self) -> Notices {
        std::mem::take(&mut *self.told.lock())
    }

    async fn settle(&self, hold: Hold) {
        let Some(session) = self.session.upgrade() else { return hold.decide(false) };
        if self.by_person {
            let line = format!("no copy of {} was kept, so it can't be undone", described(&session, &hold));
            self.told.lock().lines.push(line);
            return hold.decide(true);
        }
        if may_be_lost(&session, hold.path()) || is_made_by(&session, &self.call, hold.path()).await {
            return hold.decide(true);
        }
        let rule = rule(&session, &hold);
        if session.grants().is_unattended() {
            session.was_refused(&self.this.tool, &rule);
            return self.refuse(&session, hold, UNATTENDED);
        }
        if !session.policy().approve.asks() {
            return self.refuse(&session, hold, "nobody is asked here");
        }
        let asking = Asking {
            session: &session,
            whose: &self.whose,
            tool: &self.this.tool,
            asked: &self.this.asked,
            cancel: &self.this.stop,
        };
        let further = if hold.is_of_all_further() { ", and perhaps further files" } else { "" };
        let effects = vec![
            format!("run {}", self.this.name()),
            format!("{} {}{further}", verb(&hold).0, described(&session, &hold)),
        ];
        let about = About { rule: &rule, arguments: &self.arguments, effects, changes: Vec::new() };
        let answered = tokio::select! {
            answered = asking.ask(about) => answered,
            () = gone(&hold) => return hold.withdraw(),
        };
        match answered {
            Ok(Answered { decision, allowed: Ok(()) }) => {
                self.told.lock().decisions.push(decision);
                hold.decide(true);
            }
            Ok(Answered { decision, allowed: Err(fault) }) => {
                self.told.lock().decisions.push(decision);
                // The words after the rule: the person's no, with its reason.
                let why = fault.what.strip_prefix(&format!("{rule}; ")).unwrap_or("the person said no");
                self.refuse(&session, hold, why);
            }
            // The call was stopped, and its processes are about to be killed.
            Err(Fault { .. }) => hold.decide(false),
        }
    }

    fn refuse(&self, session: &SessionState, hold: Hold, why: &str) {
        let Rule { says, .. } = rule(session, &hold);
        let line = format!(
            "{} was not changed: `{}` would {} it (now refused with EPERM), and {says}; {why}. Write to another path, \
             or ask the person: they can name the file in `overwrite` of `[undo]` in their own haft.toml",
            described(session, &hold),
            hold.program(),
            verb(&hold).0,
        );
        let mut told = self.told.lock();
        told.lines.push(line);
        if told.decisions.is_empty() {
            told.decisions.push(format!("denied: {RULE}"));
        }
        drop(told);
        hold.decide(false);
    }
}

fn rule(session: &SessionState, hold: &Hold) -> Rule {
    let bounds = session.runtime().commands().kept_for_undo;
    let why = match hold.why() {
        Reason::TooLarge => format!("it is larger than {} MiB ([undo] file_mib)", bounds.file >> 20),
        Reason::CallFull => {
            format!("the copies of this call have reached {} MiB ([undo] call_mib)", bounds.call >> 20)
        }
        Reason::Full => "the disk is full".to_owned(),
        Reason::Ignored | Reason::Special => "it can't be copied".to_owned(),
        Reason::Failed(why) => format!("copying it failed: {why}"),
    };
    let further = if hold.is_of_all_further() { ", and perhaps further files" } else { "" };
    Rule {
        name: RULE,
        about: format!("{} {} {}{further}", hold.program(), verb(hold).1, described(session, hold)),
        says: format!("no copy can be kept, as {why}, so an undo could not bring it back"),
        offers: Vec::new(),
        firm: true,
    }
}

fn verb(hold: &Hold) -> (&'static str, &'static str) {
    if hold.removes() { ("delete or replace", "deletes or replaces") } else { ("overwrite", "overwrites") }
}

/// Returns the file's path in the workspace, with its size.
fn described(session: &SessionState, hold: &Hold) -> String {
    let path = hold.path();
    let path = path.strip_prefix(session.runtime().roots().workspace()).unwrap_or(path);
    format!("{} ({})", path.display(), size(hold.size()))
}

fn size(bytes: u64) -> String {
    let in_units = |unit: u64| format!("{}.{}", bytes / unit, bytes % unit * 10 / unit);
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", in_units(1_000)),
        1_000_000..1_000_000_000 => format!("{} MB", in_units(1_000_000)),
        _ => format!("{} GB", in_units(1_000_000_000)),
    }
}

/// Returns whether the person's configuration names the file as one that needs no copy.
fn may_be_lost(session: &SessionState, path: &Path) -> bool {
    let patterns = &session.runtime().commands().overwrite;
    let roots = session.execution().roots();
    let Some(root) = roots.iter().filter(|it| path.starts_with(it)).max_by_key(|it| it.as_os_str().len())
    else {
        return false;
    };
    let mut rules = GitignoreBuilder::new(root);
    for pattern in patterns {
        if let Err(error) = rules.add_line(None, pattern) {
            tracing::warn!("`overwrite` of `[undo]`: `{pattern}` is not a pattern: {error}");
        }
    }
    rules.build().is_ok_and(|it| it.matched_path_or_any_parents(path, false).is_ignore())
}

/// Returns whether an earlier call of the session created the file.
async fn is_made_by(session: &Arc<SessionState>, call: &str, path: &Path) -> bool {
    let (session, call, path) = (session.clone(), call.to_owned(), path.to_owned());
    let made = move || made_by_session(&session, &call);
    match tokio::task::spawn_blocking(made).await {
        Ok(Ok(made)) => made.contains(&path),
        Ok(Err(_)) | Err(_) => false,
    }
}

/// Waits until the process is gone.
async fn gone(hold: &Hold) {
    while hold.waits() {
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_one_decimal() {
        assert_eq!([999, 1_500, 3_149_000, 3_200_000_000].map(size), ["999 B", "1.5 kB", "3.1 MB", "3.2 GB"]);
    }
}
