//! The person of a session: who is asked, what they allowed and named, and what was given to them.
//!
//! The agents that a session starts share the person with it.

use std::sync::Arc;

use kit::{
    Address,
    decoders::Decoders,
    net::{says_private, split_port},
};
use policy::{Policy, Want, Web, grants::SessionGrants};
use store::{Store, shares::SessionFiles};

use crate::{addresses::Addresses, approval_time::AskedTime, approve::Approver};

/// What a conversation is told once where nobody decided how open the web is, and nobody can be asked.
const OPEN_WEB: &str = "nobody can be asked here, so addresses that the model composes are requested unasked; `web = \"known\"` in \
                        `[net]` of haft.toml refuses them";

/// Who is asked for a session, and what they said before.
#[derive(Clone)]
pub(super) struct Person {
    pub(super) approver: Arc<dyn Approver>,
    /// The agent whose session it is, where another one started it.
    pub(super) agent: Option<String>,
    /// What the person allowed it, and the agents that it starts.
    pub(super) grants: SessionGrants,
    /// Whose turn it is to ask the person. Agents that one of them started ask the same person.
    pub(super) asking: Arc<tokio::sync::Mutex<()>>,
    /// How long they were asked.
    pub(super) asked: Arc<AskedTime>,
    /// What they named, and what was read on the web. Agents that one of them started read for it.
    pub(super) addresses: Arc<Addresses>,
    /// What was given to the person. The agents that it started give in its name.
    pub(super) files: SessionFiles,
    pub(super) decoders: Decoders,
}

impl Person {
    /// The same person for an agent of this name.
    pub(super) fn below(&self, agent: &str) -> Self {
        let under = match &self.agent {
            Some(above) => format!("{above}/{agent}"),
            None => agent.to_owned(),
        };
        Self { agent: Some(under), ..self.clone() }
    }

    /// The person said this. An agent that another one started has no person of its own, so there it changes nothing.
    pub(super) fn said(&self, words: &str) {
        if self.agent.is_none() {
            self.addresses.said(words);
        }
    }

    /// Did a model take this address from elsewhere, unchanged?
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

    /// Takes up the addresses that a named session came across in other processes.
    pub(super) fn recall_addresses(&self, store: &Store) {
        let (name, named) = self.grants.session();
        if named {
            self.addresses.recall(store, name);
        }
    }

    /// What the first answer of a conversation says that looks at the web where composed addresses are requested unasked.
    pub(super) fn told_of_open_web(&self, wants: &[Want], policy: &Policy, store: &Store) -> Option<String> {
        let composed =
            |it: &Want| matches!(it, Want::Web { host, known: false } if !says_private(split_port(host).0));
        if !wants.iter().any(composed) || policy.web != Some(Web::Public) {
            return None;
        }
        self.recall_addresses(store);
        self.addresses.tell_once().then(|| OPEN_WEB.to_owned())
    }
}
