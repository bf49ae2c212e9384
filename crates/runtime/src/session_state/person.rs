//! The person of a session: answers questions, grants permissions, names addresses and receives files.
//!
//! The agents that a session starts share the person with it.

use std::sync::Arc;

use kit::{
    Address,
    decoders::Decoders,
    net::{says_private, split_port},
};
use parking_lot::Mutex;
use policy::{Policy, Want, Web, grants::SessionGrants};
use store::{Store, shares::SessionFiles};

use crate::{addresses::Addresses, approval_time::AskedTime, approve::Approver, execution::ChosenSandbox};

/// The note if nobody configured how open the web is and nobody can be asked; given once per conversation.
const OPEN_WEB: &str = "nobody can be asked here, so addresses that the model composes are requested unasked; `web = \"known\"` in \
                        `[net]` of haft.toml refuses them";

/// Asks the person of a session, and remembers the grants.
#[derive(Clone)]
pub(super) struct Person {
    pub(super) approver: Arc<dyn Approver>,
    /// The name of the agent that the session belongs to, if another agent started it.
    pub(super) agent: Option<String>,
    /// The grants of the session and of the agents that it starts.
    pub(super) grants: SessionGrants,
    /// Held while the person is asked. Agents that one of them started ask the same person.
    pub(super) asking: Arc<tokio::sync::Mutex<()>>,
    /// The time that the person was asked.
    pub(super) asked: Arc<AskedTime>,
    /// The known addresses: named by the person, or read on the web. Agents that one of them started read for
    /// it.
    pub(super) addresses: Arc<Addresses>,
    /// The files shared with the person. The agents that the session started share in its name.
    pub(super) files: Arc<SessionFiles>,
    pub(super) decoders: Decoders,
    /// The sandbox that the person chose. It narrows the agents that the session starts, too.
    pub(super) sandbox: Arc<ChosenSandbox>,
    /// Refused effects of a turn that nobody attends.
    pub(super) refusals: Arc<Mutex<Vec<String>>>,
}

impl Person {
    /// Returns the person for an agent of this name.
    pub(super) fn below(&self, agent: &str) -> Self {
        let under = match &self.agent {
            Some(above) => format!("{above}/{agent}"),
            None => agent.to_owned(),
        };
        Self { agent: Some(under), ..self.clone() }
    }

    /// Records a message of the person. It has no effect for an agent that another one started, which has no
    /// person of its own.
    pub(super) fn add_words(&self, words: &str) {
        if self.agent.is_none() {
            self.addresses.add_person_words(words);
        }
    }

    /// Returns whether the model took this address unchanged from outside.
    pub(super) fn knows(&self, address: &Address, store: &Store) -> bool {
        match address {
            Address::Composed => false,
            Address::Configured => true,
            Address::Plain(url) => {
                self.addresses.has(url) || {
                    self.recall_addresses(store);
                    self.addresses.has(url)
                }
            }
        }
    }

    /// Restores the addresses that a named session saved in other processes.
    pub(super) fn recall_addresses(&self, store: &Store) {
        let (name, named) = self.grants.session();
        if named {
            self.addresses.recall(store, name);
        }
    }

    /// Returns the note for the first answer that reads the open web, if composed addresses are requested
    /// without a question.
    pub(super) fn open_web_note(&self, wants: &[Want], policy: &Policy, store: &Store) -> Option<String> {
        let composed =
            |it: &Want| matches!(it, Want::Web { host, known: false } if !says_private(split_port(host).0));
        if !wants.iter().any(composed) || policy.web != Some(Web::Public) {
            return None;
        }
        self.recall_addresses(store);
        self.addresses.is_first_report().then(|| OPEN_WEB.to_owned())
    }
}
