//! Approvals: a call waits for one decision, which is bound to the hash of that very call.
//!
//! The first decision wins over all who decide, and the others learn who was first. An approval expires with its call.

use std::collections::VecDeque;

use kit::{Fault, Kind, effect::Scope};
use parking_lot::Mutex;
use runtime::{Request, Verdict};
use tokio::sync::oneshot;

use crate::event::{Approval, Decision, Event};

/// So many decisions are remembered, to say who decided.
const REMEMBERED: usize = 256;

/// A table of open approvals.
pub struct ApprovalTable {
    all: Mutex<All>,
    on_change: Box<dyn Fn(Event) + Send + Sync>,
}

#[derive(Default)]
struct All {
    open: Vec<(Approval, oneshot::Sender<Verdict>)>,
    closed: Remembered,
}

/// An open approval. Closes it when dropped, if nobody decided.
pub struct OpenApproval<'a> {
    table: &'a ApprovalTable,
    /// The id of the approval.
    pub id: String,
    decision: Decision,
}

impl ApprovalTable {
    /// A table whose changes are passed to this function while the table is locked: they come in the order of decisions.
    pub fn new(on_change: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self { all: Mutex::default(), on_change: Box::new(on_change) }
    }

    /// Opens an approval of this id. The decision is sent to the receiver.
    pub fn open(&self, id: String, request: Request) -> (OpenApproval<'_>, oneshot::Receiver<Verdict>) {
        let approval = shown(id, request);
        let (reply, answer) = oneshot::channel();
        let opened = OpenApproval { table: self, id: approval.id.clone(), decision: Decision::Expired };
        let mut all = self.all.lock();
        all.open.push((approval.clone(), reply));
        (self.on_change)(Event::ApprovalOpened(approval));
        (opened, answer)
    }

    /// Returns the approvals that wait for a decision.
    pub fn waiting(&self) -> Vec<Approval> {
        self.all.lock().open.iter().map(|it| it.0.clone()).collect()
    }

    /// Returns how an approval was settled, and by whom, as long as that is remembered.
    pub fn how_settled(&self, id: &str) -> Option<String> {
        self.all.lock().closed.how(id)
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
        let mut all = self.all.lock();
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
    pub fn end(&self) {
        let mut all = self.all.lock();
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
        (self.on_change)(Event::ApprovalClosed { id: id.to_owned(), decision, by, words });
    }
}

impl OpenApproval<'_> {
    /// Nobody attended: it is closed with that.
    pub fn nobody_attended(&mut self) {
        self.decision = Decision::Nobody;
    }
}

impl Drop for OpenApproval<'_> {
    fn drop(&mut self) {
        let mut all = self.table.all.lock();
        if let Some(at) = all.open.iter().position(|it| it.0.id == self.id) {
            drop(all.open.remove(at));
            self.table.close(&mut all, &self.id, self.decision, None, None);
        }
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

/// The newest settled approvals or questions: the id of each, and how it was settled.
pub(crate) struct Remembered(VecDeque<(String, String)>);

impl Default for Remembered {
    fn default() -> Self {
        Self(VecDeque::with_capacity(8))
    }
}

impl Remembered {
    pub(crate) fn add(&mut self, id: String, how: String) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((id, how));
    }

    /// How this one was settled.
    pub(crate) fn how(&self, id: &str) -> Option<String> {
        self.0.iter().find(|it| it.0 == id).map(|it| it.1.clone())
    }

    /// Why this one can't be decided any more.
    pub(crate) fn why(&self, what: &str, id: &str) -> Fault {
        match self.0.iter().find(|it| it.0 == id) {
            Some((_, how)) => Fault::new(Kind::Stale, format!("the {what} `{id}` was settled before: {how}")),
            None => Fault::not_found(format!("no {what} `{id}` waits in this session")),
        }
    }
}
