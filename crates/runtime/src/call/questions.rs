//! Questions about a call to the person of its session.
//!
//! There is one question at a time if the person reads one at a time. The time to answer does not count as
//! the call's, and a grant that arrives meanwhile answers a question.

use std::{borrow::Cow, sync::Arc, time::Duration};

use kit::{Fault, Kind, Touch, Touches, effect::Effect, net::HostPattern, quote::quote};
use policy::Rule;
use sandbox::SandboxMode;
use serde_json::json;
use store::changes::Change;
use tokio_util::sync::CancellationToken;

use crate::{
    approval_time::AskedTime,
    approve::{Request, Verdict},
    config::HookEvent,
    session_state::SessionState,
};

/// Claude Code's name for a notification about an approval.
const PERMISSION: &str = "permission_prompt";

/// A call that needs the person's approval.
pub(super) struct Asking<'a> {
    pub(super) session: &'a Arc<SessionState>,
    /// The id of the client's call: this one, or the one for which it is made.
    pub(super) whose: &'a str,
    pub(super) tool: &'a str,
    pub(super) asked: &'a Arc<AskedTime>,
    /// Withdraws the question.
    pub(super) cancel: &'a CancellationToken,
}

/// The content of a question.
pub(super) struct About<'a> {
    pub(super) rule: &'a Rule,
    /// The arguments, unchanged, secrets included.
    pub(super) arguments: &'a str,
    pub(super) effects: Vec<String>,
    pub(super) changes: Vec<Change>,
}

/// The outcome of a question, in the journal's words, and whether the call may continue.
pub(super) struct Answered {
    pub(super) decision: String,
    pub(super) allowed: Result<(), Fault>,
}

impl Asking<'_> {
    /// Asks the person; the answer is valid for this call and the shown content only.
    ///
    /// # Errors
    /// [`Kind::Cancelled`] when the call was stopped meanwhile.
    pub(super) async fn ask(&self, about: About<'_>) -> Result<Answered, Fault> {
        let rule = about.rule;
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(stopped()),
            (decision, verdict) = self.put(about) => {
                Ok(Answered { decision, allowed: self.settle(rule, verdict) })
            }
        }
    }

    /// Returns the decision and the verdict; no verdict if a grant made the question unnecessary.
    async fn put(&self, about: About<'_>) -> (String, Option<Verdict>) {
        let About { rule, arguments, effects, changes } = about;
        let session = self.session;
        // The time to wait for other questions does not count either.
        let _standing = self.asked.begin();
        // One question at a time, if a person reads one at a time: its answer may also answer the next.
        let _turn = match session.approver().asks_together() {
            true => None,
            false => Some(session.turn_to_ask().await),
        };
        if let Some(by) = session.grants().meanwhile(&rule.offers) {
            return (by, None);
        }
        // A grant must not contain a secret.
        let open = |it: &&Effect| matches!(session.secrets().mask(&it.to_string()), Cow::Borrowed(_));
        let offers: Vec<Effect> = rule.offers.iter().filter(open).cloned().collect();
        let request = Request {
            call: Some(self.whose.to_owned()),
            agent: session.agent().map(str::to_owned),
            tool: self.tool.to_owned(),
            rule: rule.clone(),
            arguments: session.secrets().mask(arguments).into_owned(),
            effects,
            changes,
            offers: if offers.len() == rule.offers.len() { offers } else { Vec::new() },
        };
        self.notify(&request);
        let offers = request.offers.clone();
        let verdict = session.approver().approve(request).await;
        if let Verdict::Yes(scope) = verdict
            && let Err(fault) = session.grants().keep(&offers, scope).await
        {
            tracing::warn!("what was allowed is not kept: {fault}");
        }
        (format!("{}: {}", verdict.name(), rule.name), Some(verdict))
    }

    /// Runs the hooks that tell the person elsewhere of the question, which does not wait for them.
    fn notify(&self, request: &Request) {
        let session = self.session.clone();
        let is_there =
            |it: &Arc<crate::hooks::Hooks>| !it.of(HookEvent::Notification, &[PERMISSION]).is_empty();
        if !session.runtime().hooks().is_some_and(is_there) {
            return;
        }
        let message = format!("{} waits for approval: {}", request.tool, request.rule);
        let fields = json!({"message": message, "notification_type": PERMISSION, "tool_name": request.tool});
        let asked = session.clone();
        let hooks = tokio::spawn(async move {
            let stop = CancellationToken::new();
            super::hooks::at(&session, HookEvent::Notification, PERMISSION, fields, &stop).await;
        });
        asked.hooks().run_beside(hooks);
    }

    fn settle(&self, rule: &Rule, verdict: Option<Verdict>) -> Result<(), Fault> {
        match verdict {
            None | Some(Verdict::Yes(_)) => Ok(()),
            Some(Verdict::No) => Err(Fault::denied(format!("{rule}; the person said no"))
                .next("Leave it, and go on without it; or ask the person what they want instead.")),
            Some(Verdict::Instead(words)) => {
                self.session.add_person_words(&words);
                Err(Fault::denied(format!("{rule}; the person said no: {words}"))
                    .next("Nothing was changed. Do what the person says."))
            }
            Some(Verdict::NobodyThere) => Err(denied(self.session, rule, "there was nobody to ask")),
            Some(Verdict::NobodyDecided { waited, next }) => Err(undecided(rule, waited, next)),
        }
    }
}

/// Returns the fault for a call that nobody decided on in time.
pub(super) fn undecided(rule: &Rule, waited: Duration, next: String) -> Fault {
    Fault::denied(format!("{rule}; nobody decided within {} s", waited.as_secs())).next(next)
}

/// Returns the fault for a call that was stopped during a question.
pub(super) fn stopped() -> Fault {
    Fault::new(Kind::Cancelled, "the call was stopped before it was approved")
}

/// Returns the fault for a call whose sandbox was narrowed before it ran.
pub(super) fn narrowed() -> Fault {
    Fault::denied(
        "the sandbox of the session was narrowed before this call ran, so it was not run (rule `sandbox`)",
    )
    .next("Run it again if it only reads; otherwise say what you would change.")
}

/// Describes these touches for a person; reads are never asked about.
pub(super) fn effects(touches: &Touches) -> Vec<String> {
    let of_triggers = touches.iter().flat_map(|it| match it {
        Touch::Trigger(about) => about.lines().map(str::to_owned).collect(),
        _ => Vec::new(),
    });
    touches.iter().filter_map(effect).chain(of_triggers).collect()
}

fn effect(touch: &Touch) -> Option<String> {
    match touch {
        Touch::Write(path) | Touch::WriteTree { path, .. } => Some(format!("write {path}")),
        Touch::Run(command) => Some(format!("run {command}")),
        Touch::Unconfined => Some("run outside the sandbox".to_owned()),
        Touch::Net(host) => Some(format!("net {host}")),
        Touch::Web(host) => Some(format!("web {host}")),
        Touch::Tool(name) => Some(format!("write the tool {name}")),
        Touch::Server { name, reads } => {
            Some(format!("{} the server {name}", if *reads { "start" } else { "use" }))
        }
        Touch::Trigger(_) | Touch::Read(_) | Touch::Session(_) | Touch::Exclusive => None,
    }
}

/// The hint on how to reach a server without a grant.
const START_IT: &str = "No process of this session listens there now. A server that a command of yours leaves \
                        running is reached without approval, once it listens; one that a person started is not. ";

/// Returns whether a command of this session could listen there, apart from the machine's own port.
fn is_port_of_commands(session: &SessionState, host: &str) -> bool {
    session.policy().sandbox != SandboxMode::Full && HostPattern::parse(host).loopback_port().is_some()
}

/// Returns the commands with which a person can grant what this rule asks about.
fn grants(session: &SessionState, rule: &Rule) -> Vec<String> {
    let workspace = session.runtime().roots().workspace().display().to_string();
    let workspace = quote(&workspace);
    let grant = |it: &Effect| format!("`haft --dir {workspace} grants add {}`", quote(&it.to_string()));
    rule.offers.iter().map(grant).collect()
}

/// Why a turn that a trigger began is refused what it was not granted.
pub(super) const UNATTENDED: &str =
    "a trigger began this turn, so nobody is asked, and its grants don't cover this";

/// Returns the fault for a call that a rule forbids, with the steps that a person can take.
pub(crate) fn denied(session: &SessionState, rule: &Rule, why: &str) -> Fault {
    if session.grants().is_unattended() && !rule.is_deny() {
        let wanted: Vec<String> = rule.offers.iter().map(|it| format!("`{it}`")).collect();
        let next = match wanted.as_slice() {
            [] => "Go on without it, and say at the end what a person has to do.".to_owned(),
            wanted => format!(
                "Go on without it, and say at the end that the trigger needs the grant {}. The person is told as well.",
                wanted.join(" and ")
            ),
        };
        return Fault::denied(format!("{rule}; {UNATTENDED}")).next(next);
    }
    let next = match rule.name {
        "sandbox" if session.limits().read_only => {
            "This session is read-only (plan mode or a read-only profile): say what you would change, and let the person \
             decide."
                .to_owned()
        }
        "sandbox" if session.policy().sandbox < session.runtime().policy().sandbox => {
            "A person narrowed the sandbox of this session, and can widen it again: say what you would change, and go on \
             without it."
                .to_owned()
        }
        "sandbox" => "A person can start haft with `--sandbox workspace`.".to_owned(),
        "read_only_root" => "A person can add the root without `:ro`.".to_owned(),
        "command_deny" => "haft.toml denies it; find another way, or ask the person.".to_owned(),
        "not_allowed" => {
            "Use a command of the list, or ask the person to add to `only` in haft.toml.".to_owned()
        }
        "web" => {
            "A person can put the host into `allow` of `[net]` in haft.toml, or set its `web`.".to_owned()
        }
        "private_net" => {
            let config = "`host:port` in `allow` of `[net]` in haft.toml".to_owned();
            let ways = [grants(session, rule), vec![config]].concat().join(" or ");
            let start = match is_port_of_commands(session, &rule.about) {
                true => START_IT,
                false => "",
            };
            format!("{start}Leave it, unless this is what you were asked for: then a person can allow it: {ways}.")
        }
        "ask_edits" => {
            let ways = [grants(session, rule), vec!["`--approve ask` instead of `ask-edits`".to_owned()]];
            format!("Nothing was changed. A person can allow it with {}.", ways.concat().join(", or "))
        }
        _ if rule.firm => {
            "Write the command so that each of its programs can be seen, one command to a call.".to_owned()
        }
        _ => {
            let grants = grants(session, rule);
            match grants.as_slice() {
                [] => "A person can do it, or start haft with `--approve auto`.".to_owned(),
                grants => format!(
                    "A person can allow it with {}, or start haft with `--approve auto`.",
                    grants.join(" and ")
                ),
            }
        }
    };
    Fault::denied(format!("{rule}; {why}")).next(next)
}
