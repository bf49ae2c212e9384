//! Who is reached through a client: its person, and its model?

mod agents;
mod approver;
mod asker;
mod model;

use std::{future::Future, sync::Arc};

use kit::Fault;
use parking_lot::Mutex;
use runtime::{Approver, Session};
use serve::{Client, Offers};

use crate::{Opened, Place};

/// The clients of a session whose calls are under way.
#[derive(Default)]
pub struct Desk {
    clients: Mutex<Vec<(String, Client)>>,
}

impl Desk {
    /// A call of this client is under way, with this id.
    pub(crate) fn note(&self, call: &str, client: &Client) {
        let mut clients = self.clients.lock();
        clients.retain(|(_, client)| client.is_there());
        clients.push((call.to_owned(), client.clone()));
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

    /// The client of this call; for one that no client made, such as that of an agent below, the one whose call has been
    /// under way the longest.
    fn of(&self, call: Option<&str>, fits: impl Fn(Offers) -> bool) -> Option<Client> {
        let clients = self.clients.lock();
        let there = || clients.iter().filter(|(_, client)| client.is_there());
        let own = there().find(|(id, _)| call == Some(id.as_str()));
        let found = match own {
            Some(own) => Some(own).filter(|(_, client)| fits(client.offers())),
            None => there().find(|(_, client)| fits(client.offers())),
        };
        found.map(|(_, client)| client.clone())
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
            match ask(client.clone()).await {
                Err(fault) if !client.is_there() => last = Some(Err(fault)),
                answer => return Some(answer),
            }
        }
    }
}
