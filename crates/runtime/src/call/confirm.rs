//! Approvals in the middle of a call.

use std::sync::Arc;

use kit::{
    Fault,
    effect::{Effect, Scope},
    services::{Confirm, Matter, Soon},
};
use parking_lot::Mutex;
use policy::Rule;

use super::questions::{UNATTENDED, stopped, undecided};

use crate::{
    approve::{Request, Verdict},
    jobs::ThisCall,
    session_state::SessionState,
};

/// Asks the person of a session on behalf of one call.
pub(super) struct Confirming {
    session: Arc<SessionState>,
    /// The id of the client's call.
    whose: String,
    this: Arc<ThisCall>,
    decisions: Mutex<Vec<String>>,
}

impl Confirming {
    pub(super) fn new(session: &Arc<SessionState>, whose: String, this: &Arc<ThisCall>) -> Arc<Self> {
        Arc::new(Self { session: session.clone(), whose, this: this.clone(), decisions: Mutex::default() })
    }

    /// Returns the decisions, one line each, for the journal.
    pub(super) fn take_decisions(&self) -> Vec<String> {
        std::mem::take(&mut *self.decisions.lock())
    }

    async fn ask(&self, matter: Matter) -> Result<bool, Fault> {
        let Matter { rule, about, says, effects, keeps } = matter;
        let offers: Vec<Effect> = keeps.into_iter().map(Effect::Elsewhere).collect();
        let rule = Rule { name: rule, about, says: says.to_owned(), offers, firm: true };
        let refused = |why: &str| Err(Fault::denied(format!("{rule}; {why}")));
        if self.session.grants().is_unattended() {
            self.session.was_refused(&self.this.tool, &rule);
            return refused(UNATTENDED);
        }
        if !self.session.policy().approve.asks() {
            return refused("nobody is to be asked here, which is not a yes");
        }
        let verdict = {
            let _standing = self.this.asked.begin();
            let _turn = match self.session.approver().asks_together() {
                true => None,
                false => Some(self.session.turn_to_ask().await),
            };
            self.session.approver().approve(self.request(&rule, effects)).await
        };
        match verdict {
            Verdict::Yes(scope) => {
                self.decisions.lock().push(format!("{}: {} `{}`", verdict.name(), rule.name, rule.about));
                Ok(scope != Scope::Once)
            }
            Verdict::No => refused("the person said no"),
            Verdict::Instead(words) => refused(&format!("the person said no: {words}")),
            Verdict::NobodyThere => refused("there was nobody to ask"),
            Verdict::NobodyDecided { waited, next } => Err(undecided(&rule, waited, next)),
        }
    }

    fn request(&self, rule: &Rule, effects: Vec<String>) -> Request {
        Request {
            call: Some(self.whose.clone()),
            agent: self.session.agent().map(str::to_owned),
            tool: self.this.tool.clone(),
            rule: rule.clone(),
            arguments: self.this.name().to_owned(),
            effects,
            changes: Vec::new(),
            offers: rule.offers.clone(),
        }
    }
}

impl Confirm for Confirming {
    fn confirm(&self, matter: Matter) -> Soon<'_, Result<bool, Fault>> {
        Box::pin(async move {
            tokio::select! {
                biased;
                () = self.this.stop.cancelled() => {
                    Err(stopped())
                }
                verdict = self.ask(matter) => verdict,
            }
        })
    }
}
