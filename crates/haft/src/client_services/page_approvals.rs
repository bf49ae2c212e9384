//! Approvals on the page of `haft serve`: MCP calls whose client has no elicitation wait there for a person.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kit::{Fault, services::Progress};
use parking_lot::Mutex;
use runtime::{Request, Verdict};
use serve::{Client, Level};
use sessions::{Approval, ApprovalTable, Decision};
use tokio::time::timeout;

/// The MCP sessions of a server whose approvals are decided on its page.
pub(crate) struct PageApprovals {
    /// The address of the page's list of approvals.
    page: String,
    /// The time that a call waits.
    wait: Duration,
    sessions: Mutex<Vec<Weak<SessionApprovals>>>,
    count: AtomicU64,
}

/// The approvals of one MCP session.
pub(crate) struct SessionApprovals {
    server: Arc<PageApprovals>,
    session: String,
    /// The principal that opened the session.
    principal: String,
    /// The name of its client.
    client: Mutex<Option<String>>,
    table: ApprovalTable,
}

/// A decision of a person.
pub(crate) struct PersonDecision<'a> {
    pub(crate) approval: &'a str,
    pub(crate) hash: &'a str,
    pub(crate) decision: Decision,
    pub(crate) words: Option<String>,
    /// The person.
    pub(crate) by: &'a str,
    /// Returns whether a principal has the access of the person.
    pub(crate) is_own: &'a (dyn Fn(&str) -> bool + Sync),
}

impl PageApprovals {
    /// Approvals that are decided on this page, within this time.
    pub(crate) fn new(page: String, wait: Duration) -> Arc<Self> {
        Arc::new(Self { page, wait, sessions: Mutex::default(), count: AtomicU64::new(0) })
    }

    /// Returns the approvals of a new session of a principal.
    pub(super) fn of(self: &Arc<Self>, session: &str, principal: &str) -> Arc<SessionApprovals> {
        let approvals = Arc::new(SessionApprovals {
            server: self.clone(),
            session: session.to_owned(),
            principal: principal.to_owned(),
            client: Mutex::default(),
            table: ApprovalTable::new(|_| {}),
        });
        let mut sessions = self.sessions.lock();
        sessions.retain(|it| it.strong_count() > 0);
        sessions.push(Arc::downgrade(&approvals));
        approvals
    }

    /// Returns the sessions that are open.
    pub(crate) fn sessions(&self) -> Vec<Arc<SessionApprovals>> {
        self.sessions.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl SessionApprovals {
    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    pub(crate) fn principal(&self) -> &str {
        &self.principal
    }

    pub(crate) fn client(&self) -> Option<String> {
        self.client.lock().clone()
    }

    /// Returns the approvals that wait.
    pub(crate) fn waiting(&self) -> Vec<Approval> {
        self.table.waiting()
    }

    /// Decides an approval.
    ///
    /// # Errors
    /// [`Kind::Denied`](kit::Kind::Denied) for the access that opened the session; else as [`ApprovalTable::decide`].
    pub(crate) fn decide(&self, decided: PersonDecision<'_>) -> Result<(), Fault> {
        let PersonDecision { approval, hash, decision, words, by, is_own } = decided;
        if is_own(&self.principal) {
            return Err(Fault::denied(format!(
                "the approval `{approval}` is for a call by this very token, which can't approve its own calls"
            ))
            .next(format!("Decide it at {}, or with another token.", self.server.page)));
        }
        self.table.decide(approval, hash, decision, words, by)
    }

    /// Waits for a decision on the page; the client is notified of where that is.
    pub(super) async fn ask(
        &self,
        request: Request,
        client: Option<Client>,
        progress: Option<Arc<dyn Progress>>,
    ) -> Verdict {
        let PageApprovals { page, wait, count, .. } = &*self.server;
        if let Some(name) = client.as_ref().and_then(Client::name) {
            *self.client.lock() = Some(name);
        }
        let id = format!("m_{}", count.fetch_add(1, Ordering::Relaxed) + 1);
        let waits = format!("`{}` waits for approval at {page}", request.tool);
        let (mut opened, mut answer) = self.table.open(id, request);
        if let Some(progress) = progress {
            progress.report(0.0, None, &waits);
        }
        if let Some(client) = client {
            client.log(Level::Notice, "approvals", waits.into());
        }
        if let Ok(decided) = timeout(*wait, &mut answer).await {
            return decided.unwrap_or(Verdict::NobodyThere);
        }
        // A decision in this very moment counts.
        answer.close();
        if let Ok(verdict) = answer.try_recv() {
            return verdict;
        }
        opened.nobody_attended();
        let next = format!(
            "Ask the person to open {page}, and make the call again: it waits there for their decision."
        );
        Verdict::NobodyDecided { waited: *wait, next }
    }
}
