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

/// So long a model is waited for that only a call under way reaches.
const NEXT_CALL: Duration = Duration::from_secs(60);

/// The clients of a session, by their calls.
#[derive(Default)]
pub struct ClientSlots {
    clients: Mutex<Clients>,
    /// A call has begun.
    came: Notify,
}

#[derive(Default)]
struct Clients {
    /// Those whose calls are under way.
    here: Vec<(String, Client)>,
    /// The last one that can be asked outside of its calls.
    lasting: Option<Client>,
    /// What the last one offered that lends its model.
    lent: Option<Offers>,
}

impl ClientSlots {
    /// A call of this client is under way, with this id.
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

    /// Who is asked before something is done.
    pub(crate) fn approver(self: &Arc<Self>) -> Arc<dyn Approver> {
        Arc::new(approver::AtClient(self.clone()))
    }

    /// Lets the calls of this session start agents and ask the person.
    pub(crate) fn serve_agents(self: &Arc<Self>, session: &Session, opened: &Opened, place: &Place) {
        session.belongs_to(Arc::new(agents::OverClient::new(session, opened, place, self.clone())));
    }

    /// Does a client that can be asked now lend its model?
    fn lends(&self) -> Option<Offers> {
        self.of(None, |offers| offers.model).map(|client| client.offers())
    }

    /// The same, or has one lent it before? Its next call may come soon.
    fn has_lent(&self) -> Option<Offers> {
        self.lends().or_else(|| self.clients.lock().lent)
    }

    /// The client of this call; for one that no client made, such as that of an agent below, the one whose call has been
    /// under way the longest; where none is, one that can be asked without.
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

    /// What a client answers; nothing, if none can be asked. One that goes away in the midst of it passes the question on.
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

    /// What a client's model answers; where only a call under way reaches one, the next is waited for.
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
                // It went away with its call.
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
