//! The state that all requests of a server share.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::{header, request::Parts};
use parking_lot::Mutex;
use serde_json::Value;
use serve::gate::{BodyPermits, bearer};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    access::{Access, SIGN_IN, Who},
    conversations::Conversations,
    counts::Counts,
    once::Once,
    protocols::Protocols,
    workspaces::{Folders, Workspaces},
};

/// The state that all requests share.
pub(crate) struct Shared {
    pub(crate) access: Access,
    pub(crate) workspaces: Workspaces,
    pub(crate) body_permits: BodyPermits,
    pub(crate) counts: Counts,
    pub(crate) version: String,
    /// The description of the API.
    pub(crate) described: OnceLock<Value>,
    address: SocketAddr,
    /// Nobody reaches it but from this machine.
    pub(crate) is_private: bool,
    /// Held while a request with an idempotency key begins its turn, so that the same one at the same time begins no other.
    pub(crate) beginning: tokio::sync::Mutex<()>,
    /// The conversations by OpenAI's API.
    pub(crate) conversations: Conversations,
    /// The address by which people reach the server.
    pub(crate) url: String,
    /// The answers to requests that made a secret.
    pub(crate) once: Once,
    /// MCP and ACP.
    pub(crate) protocols: Arc<dyn Protocols>,
    /// The folders that the owner may have opened.
    pub(crate) folders: Arc<dyn Folders>,
    /// Held while a folder is opened, so that each is opened once.
    pub(crate) opening: tokio::sync::Mutex<()>,
    /// A WebSocket of which no byte comes for this long is dropped.
    pub(crate) silence: Duration,
    /// The WebSockets that are open: how many of each person, by name.
    pub(crate) open_sockets: Mutex<HashMap<String, usize>>,
    /// The ids of given files that were searched for secrets and have none: they don't change, and players ask for many parts.
    pub(crate) harmless_files: Mutex<HashSet<String>>,
    /// The tasks of WebSockets.
    pub(crate) sockets: TaskTracker,
    /// Cancelled when the server ends.
    pub(crate) closing: CancellationToken,
}

impl Shared {
    /// The state of a server at this address; `is_private`, if nobody reaches it but from this machine.
    pub(crate) fn new(
        access: Access,
        workspaces: Workspaces,
        protocols: Arc<dyn Protocols>,
        folders: Arc<dyn Folders>,
        version: String,
        address: SocketAddr,
        is_private: bool,
    ) -> Self {
        let conversations = Conversations::open(access.folder().join("conversations.jsonl"));
        Self {
            access,
            workspaces,
            body_permits: BodyPermits::default(),
            counts: Counts::default(),
            version,
            described: OnceLock::new(),
            address,
            is_private,
            beginning: tokio::sync::Mutex::default(),
            conversations,
            url: format!("http://{address}"),
            once: Once::default(),
            protocols,
            folders,
            opening: tokio::sync::Mutex::default(),
            silence: Duration::from_secs(60),
            open_sockets: Mutex::default(),
            harmless_files: Mutex::default(),
            sockets: TaskTracker::new(),
            closing: CancellationToken::new(),
        }
    }

    /// Returns the address of the page on which calls are decided.
    pub(crate) fn page(&self) -> String {
        format!("{}/#/approvals", self.url)
    }

    /// The name of the cookie. Servers on other ports of this machine share its cookies.
    fn cookie(&self) -> String {
        format!("haft_{}", self.address.port())
    }

    /// Returns who makes a request: by its token, else by its cookie.
    pub(crate) fn who(&self, head: &Parts) -> Option<Who> {
        if head.headers.contains_key(header::AUTHORIZATION) {
            return bearer(&head.headers).and_then(|token| self.access.of_token(token));
        }
        self.cookie_of(head).and_then(|it| self.access.of_cookie(&it))
    }

    /// Returns whether a token or sign-in still has the role that it had. Nobody's access does not end.
    pub(crate) fn stands(&self, who: &Who) -> bool {
        who.hash.is_empty() || self.access.of_principal(&who.principal()).as_ref() == Some(who)
    }

    /// Returns the value of the cookie of this server.
    pub(crate) fn cookie_of(&self, head: &Parts) -> Option<String> {
        let name = self.cookie();
        let all = head.headers.get_all(header::COOKIE).iter().filter_map(|it| it.to_str().ok());
        let pairs = all.flat_map(|it| it.split(';')).filter_map(|it| it.trim().split_once('='));
        pairs.into_iter().find(|it| it.0 == name).map(|it| it.1.to_owned())
    }

    /// Returns the header that sets the cookie; without a value, the one that deletes it.
    pub(crate) fn set_cookie(&self, value: Option<&str>, address: &str) -> String {
        let (value, age) = value.map_or(("", 0), |it| (it, SIGN_IN.as_secs()));
        let secure = if address.starts_with("https://") { "; Secure" } else { "" };
        format!("{}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}", self.cookie())
    }
}
