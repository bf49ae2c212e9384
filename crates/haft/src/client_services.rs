//! Client-backed services: a client's person (elicitation) and its model (sampling).

mod agents;
mod approver;
mod asker;
mod model;

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use kit::{Fault, Kind};
use parking_lot::Mutex;
use runtime::{Approver, Session};
use serve::{Client, Offers};
use tokio::{sync::Notify, time::timeout};

pub(crate) use approver::quoted;
pub(crate) use asker::{answer as answer_of, message as message_of, schema as form_of};

use crate::{Opened, Place};

/// The timeout for the next call, if a model can be reached only during one.
const NEXT_CALL: Duration = Duration::from_secs(60);

/// The clients of a session, by call.
#[derive(Default)]
pub struct ClientSlots {
    clients: Mutex<Clients>,
    /// Notified when a call begins.
    came: Notify,
}

#[derive(Default)]
struct Clients {
    /// The clients of running calls.
    here: Vec<(String, Client)>,
    /// The last client that accepts requests outside of its calls.
    lasting: Option<Client>,
    /// The capabilities of the last client that lent its model.
    lent: Option<Offers>,
}

impl ClientSlots {
    /// Records that a call of this client runs, with this id.
    pub(crate) fn note(&self, call: &str, client: &Client) {
        let mut clients = self.clients.lock();
        clients.here.retain(|(_, client)| client.is_there());
        clients.here.push((call.to_owned(), client.clone()));
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
        let there = || clients.here.iter().filter(|(_, client)| client.is_there());
        let own = there().find(|(id, _)| call == Some(id.as_str()));
        let found = match own {
            Some(own) => Some(own).filter(|(_, client)| fits(client.offers())),
            None => there().find(|(_, client)| fits(client.offers())),
        };
        let lasting = || clients.lasting.as_ref().filter(|it| it.outlives() && fits(it.offers()));
        found.map(|(_, client)| client).or_else(|| if own.is_none() { lasting() } else { None }).cloned()
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
