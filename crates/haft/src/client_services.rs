//! Client-backed services: a client's person (elicitation) and its model (sampling).

mod agents;
mod approver;
mod asker;
mod model;
#[cfg(feature = "web")]
mod page_approvals;

#[cfg(feature = "web")]
use std::sync::OnceLock;
use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use kit::{Fault, Kind, services::Progress};
use parking_lot::Mutex;
use runtime::{Approver, Request, Session, Verdict};
use serve::{Client, Offers};
use tokio::{sync::Notify, time::timeout};

pub(crate) use approver::quoted;
pub(crate) use asker::{answer as answer_of, message as message_of, schema as form_of};
#[cfg(feature = "web")]
pub(crate) use page_approvals::{PageApprovals, PersonDecision, SessionApprovals};

use crate::{Opened, Place};

/// The timeout for the next call, if a model can be reached only during one.
const NEXT_CALL: Duration = Duration::from_secs(60);

/// The clients of a session, by call.
#[derive(Default)]
pub struct ClientSlots {
    clients: Mutex<Clients>,
    /// Notified when a call begins.
    came: Notify,
    /// The approvals of the session on the page, where clients without elicitation have them decided.
    #[cfg(feature = "web")]
    page: OnceLock<Arc<SessionApprovals>>,
}

/// A call of a client.
struct RunningCall {
    id: String,
    client: Client,
    #[cfg_attr(
        not(feature = "web"),
        expect(dead_code, reason = "an approval on the page is shown as progress")
    )]
    progress: Option<Arc<dyn Progress>>,
}

#[derive(Default)]
struct Clients {
    /// The running calls.
    here: Vec<RunningCall>,
    /// The last client that accepts requests outside of its calls.
    lasting: Option<Client>,
    /// The capabilities of the last client that lent its model.
    lent: Option<Offers>,
}

impl ClientSlots {
    /// Records that a call of this client runs, with this id.
    pub(crate) fn note(&self, call: &str, client: &Client, progress: Option<Arc<dyn Progress>>) {
        let mut clients = self.clients.lock();
        clients.here.retain(|it| it.client.is_there());
        clients.here.push(RunningCall { id: call.to_owned(), client: client.clone(), progress });
        if client.outlives() {
            clients.lasting = Some(client.clone());
        }
        clients.lent = Some(client.offers()).filter(|it| it.model).or(clients.lent);
        drop(clients);
        self.came.notify_waiters();
    }

    /// Returns the approver that asks the client's person.
    pub(crate) fn approver(self: &Arc<Self>) -> Arc<dyn Approver> {
        Arc::new(approver::AtClient(self.clone()))
    }

    /// Has calls whose client has no elicitation wait for a decision on this page.
    #[cfg(feature = "web")]
    pub(crate) fn decided_on(&self, page: &Arc<PageApprovals>, session: &Session, principal: &str) {
        // It is set once, before the first call.
        let _ = self.page.set(page.of(session.name(), principal));
    }

    /// Returns whether calls wait for a decision on a page.
    fn has_page(&self) -> bool {
        #[cfg(feature = "web")]
        return self.page.get().is_some();
        #[cfg(not(feature = "web"))]
        false
    }

    /// Has a person decide on the page, if there is one.
    #[cfg(feature = "web")]
    async fn ask_on_page(&self, request: Request) -> Verdict {
        let Some(page) = self.page.get() else { return Verdict::NobodyThere };
        let call = request.call.clone();
        let client = self.of(call.as_deref(), |_| true);
        let is_own = |it: &&RunningCall| call.as_ref() == Some(&it.id);
        let progress = self.clients.lock().here.iter().find(is_own).and_then(|it| it.progress.clone());
        page.ask(request, client, progress).await
    }

    #[cfg(not(feature = "web"))]
    async fn ask_on_page(&self, _: Request) -> Verdict {
        Verdict::NobodyThere
    }

    /// Lets the calls of this session start agents and ask the person.
    pub(crate) fn serve_agents(self: &Arc<Self>, session: &Session, opened: &Opened, place: &Place) {
        session.belongs_to(Arc::new(agents::OverClient::new(session, opened, place, self.clone())));
    }

    /// Returns the capabilities of a client that lends its model now.
    fn lends(&self) -> Option<Offers> {
        self.of(None, |offers| offers.model).map(|client| client.offers())
    }

    /// Returns the same, or those of a client that lent its model before: its next call may come soon.
    fn has_lent(&self) -> Option<Offers> {
        self.lends().or_else(|| self.clients.lock().lent)
    }

    /// Returns the client of this call. If no client made the call, as for a sub-agent, returns the client of the
    /// oldest running call; if none runs, one that accepts requests outside of calls.
    fn of(&self, call: Option<&str>, fits: impl Fn(Offers) -> bool) -> Option<Client> {
        let clients = self.clients.lock();
        let there = || clients.here.iter().filter(|it| it.client.is_there());
        let own = there().find(|it| call == Some(it.id.as_str()));
        let found = match own {
            Some(own) => Some(own).filter(|it| fits(it.client.offers())),
            None => there().find(|it| fits(it.client.offers())),
        };
        let lasting = || clients.lasting.as_ref().filter(|it| it.outlives() && fits(it.offers()));
        found.map(|it| &it.client).or_else(|| if own.is_none() { lasting() } else { None }).cloned()
    }

    /// Requests an answer from a client; returns `None` if there is none. If it disconnects, the next client gets the
    /// request.
    async fn through<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        call: Option<&str>,
        fits: impl Fn(Offers) -> bool,
        ask: impl Fn(Client) -> F,
    ) -> Option<Result<T, Fault>> {
        let mut last = None;
        loop {
            let Some(client) = self.of(call, &fits) else { return last };
            let was_there = client.is_there();
            match ask(client.clone()).await {
                Err(fault) if was_there && !client.is_there() => last = Some(Err(fault)),
                answer => return Some(answer),
            }
        }
    }

    /// Requests an answer of a client's model; if it can be reached only during a call, waits for the next one.
    async fn through_next<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        fits: impl Fn(Offers) -> bool,
        ask: impl Fn(Client) -> F,
    ) -> Result<T, Fault> {
        loop {
            let mut came = pin!(self.came.notified());
            came.as_mut().enable();
            match self.through(None, &fits, &ask).await {
                None => {}
                // The client disconnected with its call.
                Some(Err(fault)) if fault.kind == Kind::Unavailable && self.of(None, &fits).is_none() => {}
                Some(answer) => return answer,
            }
            if timeout(NEXT_CALL, came).await.is_err() {
                return Err(no_call());
            }
        }
    }
}

fn no_call() -> Fault {
    let what = format!(
        "the client's model is available only during a call of the client, and there was none for {} s",
        NEXT_CALL.as_secs()
    );
    Fault::new(Kind::Unavailable, what)
        .next("Run it in the foreground, or call `wait` for its job at once: that is such a call.")
}
