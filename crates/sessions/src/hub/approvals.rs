//! Approvals: a call waits for one decision, which is bound to the hash of that very call.
//!
//! The first decision wins over all who attend; the log shows the others who decided. An approval expires with its call.

use std::{future::Future, pin::Pin};

use kit::{Fault, Kind, effect::Scope};
use parking_lot::Mutex;
use runtime::{Approver, Request, Verdict};
use tokio::sync::oneshot;

use crate::{
    event::{Approval, Decision, Event},
    hub::{Hub, Remembered},
};

/// The approvals of one session.
#[derive(Default)]
pub(super) struct Approvals(Mutex<All>);

#[derive(Default)]
struct All {
    open: Vec<(Approval, oneshot::Sender<Verdict>)>,
    closed: Remembered,
}

/// Closes an approval that nobody decided.
struct Expires<'a> {
    hub: &'a Hub,
    id: String,
    decision: Decision,
}

impl Hub {
    /// The approvals that wait for a decision.
    pub fn open_approvals(&self) -> Vec<Approval> {
        self.approvals.0.lock().open.iter().map(|it| it.0.clone()).collect()
    }

    /// How an approval was settled, and by whom, as long as that is remembered.
    pub fn how_approved(&self, id: &str) -> Option<String> {
        self.approvals.0.lock().closed.how(id)
    }

    /// Decides an approval, which was shown with this hash. The first one who does wins.
    ///
    /// # Errors
    /// [`Kind::Stale`] when it is decided already, with who did, or the hash is another call's; [`Kind::NotFound`] when there
    /// is none, [`Kind::BadArgs`] when that can't be decided.
    pub fn decide(
        &self,
        id: &str,
        hash: &str,
        decision: Decision,
        words: Option<String>,
        by: &str,
    ) -> Result<(), Fault> {
        let mut all = self.approvals.0.lock();
        let at =
            all.open.iter().position(|it| it.0.id == id).ok_or_else(|| all.closed.why("approval", id))?;
        let Some((approval, _)) = all.open.get(at) else { return Err(all.closed.why("approval", id)) };
        if approval.hash != hash {
            let what = format!("the approval `{id}` is for another call than the one that was decided on");
            return Err(Fault::new(Kind::Stale, what)
                .next(format!("Look at the call again and send its hash: {}.", approval.hash)));
        }
        let lasts = matches!(decision, Decision::Session | Decision::Project);
        if lasts && approval.offers.is_empty() {
            return Err(Fault::bad_args(format!("the call of `{id}` can be allowed once only"))
                .next("Decide `once` or `no`."));
        }
        let verdict = match (decision, &words) {
            (Decision::Once, _) => Verdict::Yes(Scope::Once),
            (Decision::Session, _) => Verdict::Yes(Scope::Session),
            (Decision::Project, _) => Verdict::Yes(Scope::Project),
            (Decision::No, None) => Verdict::No,
            (Decision::No, Some(words)) => Verdict::Instead(words.clone()),
            (Decision::Expired | Decision::Nobody, _) => {
                return Err(Fault::bad_args("a person decides `once`, `session`, `project` or `no`"));
            }
        };
        let (_, reply) = all.open.remove(at);
        // It may have been taken back in this moment: then nobody decided it.
        if reply.send(verdict).is_err() {
            self.close(&mut all, id, Decision::Expired, None, None);
            return Err(all.closed.why("approval", id));
        }
        self.close(&mut all, id, decision, words, Some(by));
        Ok(())
    }

    /// Closes all that wait.
    pub(super) fn end_approvals(&self) {
        let mut all = self.approvals.0.lock();
        for (approval, reply) in std::mem::take(&mut all.open) {
            drop(reply);
            self.close(&mut all, &approval.id, Decision::Expired, None, None);
        }
    }

    /// The row is added while the table is locked: rows are in the order of decisions.
    fn close(&self, all: &mut All, id: &str, decision: Decision, words: Option<String>, by: Option<&str>) {
        let how = match (decision, by) {
            (Decision::Expired, _) => "the call no longer waits".to_owned(),
            (Decision::Nobody, _) => "nobody attended".to_owned(),
            (Decision::No, by) => format!("{} said no", by.unwrap_or("somebody")),
            (_, by) => format!("{} allowed it", by.unwrap_or("somebody")),
        };
        all.closed.add(id.to_owned(), how);
        let by = by.map(str::to_owned);
        self.log.add(Event::ApprovalClosed { id: id.to_owned(), decision, by, words });
    }
}

impl Drop for Expires<'_> {
    fn drop(&mut self) {
        let mut all = self.hub.approvals.0.lock();
        if let Some(at) = all.open.iter().position(|it| it.0.id == self.id) {
            drop(all.open.remove(at));
            self.hub.close(&mut all, &self.id, self.decision, None, None);
        }
    }
}

impl Approver for Hub {
    fn approve(&self, request: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(async move {
            if !Self::is_attended(self) {
                return Verdict::NobodyThere;
            }
            let approval = shown(self.new_id("a"), request);
            let (reply, answer) = oneshot::channel();
            let mut expires = Expires { hub: self, id: approval.id.clone(), decision: Decision::Expired };
            {
                let mut all = self.approvals.0.lock();
                all.open.push((approval.clone(), reply));
                self.log.add(Event::ApprovalOpened(approval));
            }
            match self.answer(answer).await {
                Some(verdict) => verdict,
                None => {
                    expires.decision = Decision::Nobody;
                    Verdict::NobodyThere
                }
            }
        })
    }

    fn asks_together(&self) -> bool {
        true
    }

    fn is_attended(&self, _: &str) -> bool {
        Self::is_attended(self)
    }
}

/// The request as people see it.
fn shown(id: String, request: Request) -> Approval {
    let Request { call, agent, tool, rule, arguments, effects, changes, offers } = request;
    let mut approval = Approval {
        id,
        hash: String::new(),
        call,
        agent,
        tool,
        rule: rule.name.to_owned(),
        about: rule.about,
        says: rule.says,
        arguments,
        effects,
        changes,
        offers: offers.iter().map(ToString::to_string).collect(),
    };
    approval.hash = hash(&approval);
    approval
}

/// The hash of a call as it is shown: of all but its id.
fn hash(approval: &Approval) -> String {
    let Approval { call, agent, tool, rule, about, arguments, effects, changes, offers, .. } = approval;
    let all = serde_json::json!([call, agent, tool, rule, about, arguments, effects, changes, offers]);
    blake3::hash(all.to_string().as_bytes()).to_hex().to_string()
}
