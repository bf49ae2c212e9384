//! A session's connections to servers, and which it may start.

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

/// The connections of one session. They end, with the servers' processes, when this is dropped.
pub(crate) struct Connections {
    with: Start,
    pub(super) servers: Arc<Servers>,
    links: Mutex<BTreeMap<String, Arc<Link>>>,
}

impl Connections {
    /// None yet.
    pub(crate) fn new(with: Start, servers: Arc<Servers>) -> Self {
        Self { with, servers, links: Mutex::default() }
    }

    /// The way to a server: one that is configured, or that was added here.
    ///
    /// # Errors
    /// When there is none of this name, or it is not to be used.
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
        // One that a person configured otherwise meanwhile is another one.
        if let Some(link) = known.filter(|it| it.server == server) {
            return Ok(link);
        }
        let link = Link::new(server);
        links.insert(name.to_owned(), link.clone());
        Ok(link)
    }

    /// A connection to a server, made if there is none.
    ///
    /// # Errors
    /// When there is no such server, or it can't be started.
    pub(super) async fn live(&self, link: &Arc<Link>) -> Result<Arc<Live>, Fault> {
        link.live(&self.with, &self.servers).await
    }

    /// What a call that uses this server has to be asked about; nothing, where it is a person's own or runs already.
    pub(crate) fn question(&self, name: &str) -> Option<Want> {
        let Ok(link) = self.link(name) else {
            // One that nobody configured names what starts it. Another one is not there, which the call will say.
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

    /// Adds a server for this session, and starts it.
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

    /// Ends the connection to a server; one that was added here is gone.
    ///
    /// # Errors
    /// When there is none of this name.
    pub(super) async fn end(&self, name: &str) -> Result<bool, Fault> {
        let link = self.link(name)?;
        if link.is_own() {
            self.links.lock().remove(name);
        }
        Ok(link.end().await)
    }

    /// Ends all of them in order.
    pub(crate) async fn end_all(&self) {
        let links = std::mem::take(&mut *self.links.lock());
        join_all(links.values().map(|link| link.end())).await;
    }

    /// The tools of the servers that were added here.
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

    /// The servers that were added here.
    pub(super) fn own_servers(&self) -> Vec<Arc<Link>> {
        self.links.lock().values().filter(|it| it.is_own()).cloned().collect()
    }

    /// How a server stands here, if it was ever used.
    pub(super) fn known(&self, name: &str) -> Option<Arc<Link>> {
        self.links.lock().get(name).cloned()
    }

    /// Asks the server that may have a tool of this name, and of which nothing is known yet, where `may` says that what is
    /// to be asked about is allowed already.
    pub(crate) async fn look_for(&self, tool: &str, may: impl Fn(Want) -> bool) {
        if self.servers.may_have(tool).is_none() {
            return;
        }
        // It may be being asked just now.
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

    /// Is a tool of this server what it was when it was shown?
    ///
    /// # Errors
    /// How it differs, if it does.
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
