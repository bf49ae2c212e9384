//! Connections of a session to servers, and which servers it may start.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::join_all;
use kit::{AnyTool, Fault, services::NewServer};
use parking_lot::Mutex;
use policy::Want;

use super::{
    Server, ServerSection,
    connect::Live,
    definition::Definition,
    definition_store::key,
    link::Link,
    servers::{self, Servers},
    start::Start,
    tool::ServerTool,
};
use crate::provenance::Whose;

/// The connections of one session. Dropping this ends them, with the servers' processes.
pub(crate) struct Connections {
    with: Start,
    pub(super) servers: Arc<Servers>,
    links: Mutex<BTreeMap<String, Arc<Link>>>,
}

impl Connections {
    /// Creates an empty set.
    pub(crate) fn new(with: Start, servers: Arc<Servers>) -> Self {
        Self { with, servers, links: Mutex::default() }
    }

    /// Returns the link to a server: one that is configured, or one that the session added.
    ///
    /// # Errors
    /// When there is no such server, or it is disabled.
    pub(super) fn link(&self, name: &str) -> Result<Arc<Link>, Fault> {
        let mut links = self.links.lock();
        let known = links.get(name).cloned();
        let Some(server) = self.servers.get(name) else {
            return known.filter(|it| it.is_own()).ok_or_else(|| self.servers.unknown(name));
        };
        if server.section.disabled {
            return Err(Fault::denied(format!("the server `{name}` is disabled in {}", server.file))
                .next("A person can enable it there."));
        }
        // A server that a person reconfigured meanwhile gets a new link.
        if let Some(link) = known.filter(|it| it.server == server) {
            return Ok(link);
        }
        let link = Link::new(server);
        links.insert(name.to_owned(), link.clone());
        Ok(link)
    }

    /// Returns the connection to a server; connects if there is none.
    ///
    /// # Errors
    /// When there is no such server, or it can't be started.
    pub(super) async fn live(&self, link: &Arc<Link>) -> Result<Arc<Live>, Fault> {
        link.live(&self.with, &self.servers).await
    }

    /// Returns the permission that a call needs to use this server; nothing, if the person configured it,
    /// the session added it, or the session has started it before.
    pub(crate) fn question(&self, name: &str) -> Option<Want> {
        let Ok(link) = self.link(name) else {
            // The name of an unconfigured server includes its command. For any other unknown name the call
            // itself fails.
            return name.contains(": ").then(|| Want::Server { about: name.to_owned(), grant: None });
        };
        let server = &link.server;
        if server.whose == Whose::Person || link.is_own() || link.standing().was_started {
            return None;
        }
        let grant = format!("{name}@{}", key(server, &self.with.workspace));
        Some(Want::Server {
            about: format!("{name}: {}{}", server.starts(), server.given()),
            grant: Some(grant),
        })
    }

    /// Adds a server to this session, and starts it.
    ///
    /// # Errors
    /// When its name is taken, or it can't be started.
    pub(super) async fn add(&self, new: NewServer) -> Result<(), Fault> {
        let NewServer { name, command, url } = new;
        if self.link(&name).is_ok() || self.servers.get(&name).is_some() {
            return Err(Fault::bad_args(format!("there is a server `{name}` already"))
                .next("Give this one another name."));
        }
        let mut words = command.into_iter();
        let section =
            ServerSection { command: words.next(), args: words.collect(), url, ..ServerSection::default() };
        let server =
            Server { name: name.clone(), section, whose: Whose::Untrusted, file: "mcp_connect".to_owned() };
        let link = Link::own(Arc::new(server));
        link.live(&self.with, &self.servers).await?;
        self.links.lock().insert(name, link);
        Ok(())
    }

    /// Ends the connection to a server, and removes a server that the session added.
    ///
    /// # Errors
    /// When there is no such server.
    pub(super) async fn end(&self, name: &str) -> Result<bool, Fault> {
        let link = self.link(name)?;
        if link.is_own() {
            self.links.lock().remove(name);
        }
        Ok(link.end().await)
    }

    /// Ends all connections in order.
    pub(crate) async fn end_all(&self) {
        let links = std::mem::take(&mut *self.links.lock());
        join_all(links.values().map(|link| link.end())).await;
    }

    /// Returns the tools of the servers that the session added.
    pub(crate) fn own_tools(&self) -> Vec<Arc<dyn AnyTool>> {
        let links = self.links.lock();
        let own = links.values().filter(|it| it.is_own());
        own.flat_map(|link| {
            let manifest = link.manifest(&self.servers);
            let tools: Vec<_> = manifest
                .iter()
                .flat_map(|it| it.usable())
                .map(|it| Arc::new(ServerTool::new(&link.server, it)) as Arc<dyn AnyTool>)
                .collect();
            tools
        })
        .collect()
    }

    /// Returns the servers that the session added.
    pub(super) fn own_servers(&self) -> Vec<Arc<Link>> {
        self.links.lock().values().filter(|it| it.is_own()).cloned().collect()
    }

    /// Returns the link to a server, if the session has used it.
    pub(super) fn known(&self, name: &str) -> Option<Arc<Link>> {
        self.links.lock().get(name).cloned()
    }

    /// Connects to the server that may have a tool of this name and whose tools are unknown, if `may` allows
    /// what that needs.
    pub(crate) async fn look_for(&self, tool: &str, may: impl Fn(Want) -> bool) {
        if self.servers.may_have(tool).is_none() {
            return;
        }
        // haft may be fetching its tools already.
        self.servers.settled().await;
        let Some(server) = self.servers.may_have(tool) else { return };
        if self.question(&server.name).is_some_and(|want| !may(want)) {
            return;
        }
        if let Ok(link) = self.link(&server.name)
            && let Err(fault) = self.live(&link).await
        {
            self.servers.did_not_answer(&server.name, &fault);
        }
    }

    /// Checks that a tool of this server is still what the model was shown.
    ///
    /// # Errors
    /// The difference, if there is one.
    pub(super) fn is_as_shown(
        &self,
        link: &Link,
        definition: &Definition,
        called: &str,
    ) -> Result<(), Fault> {
        match link.manifest(&self.servers) {
            Some(manifest) if !manifest.is_usable(definition) => {
                Err(servers::changed(&link.server.name, called, &manifest))
            }
            _ => Ok(()),
        }
    }
}
