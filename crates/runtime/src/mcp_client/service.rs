//! The MCP servers of a session, as tools use them.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use kit::{
    Fault, Spec,
    services::{NewServer, ServerInfo, ServerState, Servers, Soon},
};

use super::{Connections, SessionAccess, link::Link, names::called, servers::not_accepted};

/// The servers of one session.
pub(crate) struct ServersOf {
    session: Arc<dyn SessionAccess>,
}

impl ServersOf {
    /// Creates the service of this session.
    pub(crate) fn new(session: Arc<dyn SessionAccess>) -> Self {
        Self { session }
    }

    /// Returns a server with known tools; connects to it where they are unknown.
    async fn known(&self, server: &str) -> Result<(Arc<Connections>, Arc<Link>), Fault> {
        let connections = self.session.connections()?;
        let link = connections.link(server)?;
        if link.manifest(&connections.servers).is_none() {
            connections.live(&link).await?;
        }
        Ok((connections, link))
    }

    fn info(&self, connections: &Connections, name: &str) -> Option<ServerInfo> {
        let servers = &connections.servers;
        let link = connections.known(name);
        let server = servers.get(name).or_else(|| link.as_ref().map(|it| it.server.clone()))?;
        let standing = link.as_ref().map(|it| it.standing());
        let is_own = link.as_ref().is_some_and(|it| it.is_own());
        let manifest = match &link {
            Some(link) => link.manifest(servers),
            None => servers.manifest(name),
        };
        let mut notes = if is_own {
            manifest.as_ref().and_then(|it| not_accepted(name, it)).into_iter().collect()
        } else {
            servers.notes(name)
        };
        let mut state = match (&manifest, &standing) {
            _ if server.section.disabled => ServerState::Disabled,
            (_, Some(it)) if it.is_live && it.answered => ServerState::Invoked,
            (_, Some(it)) if it.is_live => ServerState::Started,
            (Some(_), _) => ServerState::Known,
            (None, _) => ServerState::Configured,
        };
        if let Some(standing) = standing {
            if let (Some(last), false) = (standing.last, standing.is_live) {
                state = ServerState::Failed;
                let again = match standing.again_in {
                    Some(left) if left > Duration::ZERO => {
                        format!("; retrying in {} s", left.as_secs() + 1)
                    }
                    _ => String::new(),
                };
                let times = if standing.failures == 1 {
                    "once".to_owned()
                } else {
                    format!("{} times", standing.failures)
                };
                notes.insert(0, format!("failed {times}{again}: {last}"));
            }
            notes.extend(standing.noise);
        }
        let tools = manifest.map(|it| match is_own {
            true => it.usable().count(),
            false => servers.tools_of(name).unwrap_or_default(),
        });
        Some(ServerInfo { name: name.to_owned(), state, about: server.starts(), tools, notes })
    }

    fn known_info(&self, connections: &Connections, name: &str) -> Result<ServerInfo, Fault> {
        self.info(connections, name).ok_or_else(|| connections.servers.unknown(name))
    }
}

impl Servers for ServersOf {
    fn list(&self) -> Vec<ServerInfo> {
        let Ok(connections) = self.session.connections() else { return Vec::new() };
        let mut names: Vec<String> = connections.servers.list().iter().map(|it| it.name.clone()).collect();
        names.extend(connections.own_servers().iter().map(|it| it.server.name.clone()));
        names.sort();
        names.dedup();
        names.iter().filter_map(|name| self.info(&connections, name)).collect()
    }

    fn checked(&self) -> Soon<'_, Vec<ServerInfo>> {
        Box::pin(async move {
            let Ok(connections) = self.session.connections() else { return Vec::new() };
            // haft may be fetching their tools already.
            connections.servers.settled().await;
            let unknown = self.list().into_iter().filter(|it| it.state == ServerState::Configured);
            let may = |name: &String| {
                let question = connections.question(name);
                question.is_none_or(|want| self.session.allows(want))
            };
            let names: Vec<String> = unknown.map(|it| it.name).filter(may).collect();
            join_all(names.iter().map(|name| async {
                if let Ok(link) = connections.link(name)
                    && let Err(fault) = connections.live(&link).await
                {
                    connections.servers.did_not_answer(name, &fault);
                }
            }))
            .await;
            self.list()
        })
    }

    fn connect<'a>(&'a self, server: &'a str) -> Soon<'a, Result<ServerInfo, Fault>> {
        Box::pin(async move {
            let connections = self.session.connections()?;
            let link = connections.link(server)?;
            // A caller that names the server does not wait for the backoff.
            link.forget_failures();
            connections.live(&link).await?;
            self.known_info(&connections, server)
        })
    }

    fn add(&self, server: NewServer) -> Soon<'_, Result<ServerInfo, Fault>> {
        Box::pin(async move {
            let connections = self.session.connections()?;
            let name = server.name.clone();
            connections.add(server).await?;
            self.session.has_tools_of_its_own(connections.own_tools());
            self.known_info(&connections, &name)
        })
    }

    fn tools<'a>(&'a self, server: &'a str) -> Soon<'a, Result<Vec<Spec>, Fault>> {
        Box::pin(async move {
            self.known(server).await?;
            Ok(self.session.tools_of(server))
        })
    }

    fn name_of<'a>(&'a self, server: &'a str, tool: &'a str) -> Soon<'a, Result<String, Fault>> {
        Box::pin(async move {
            let (connections, link) = self.known(server).await?;
            let name = called(server, tool);
            let specs = self.session.tools_of(server);
            // A model may give either name.
            if let Some(spec) = specs.iter().find(|it| it.name == name || it.name == tool) {
                return Ok(spec.name.clone());
            }
            let what = format!("the server `{server}` has no tool `{tool}`");
            if let Some(why) = connections.servers.why_missing(&name) {
                return Err(Fault::not_found(format!("{what}: {why}")));
            }
            let manifest = link.manifest(&connections.servers);
            let names: Vec<&str> =
                manifest.iter().flat_map(|it| it.usable()).map(|it| it.name.as_str()).collect();
            Err(Fault::not_found(what).next(match names.as_slice() {
                [] => "It has none.".to_owned(),
                names => format!("Its tools are: {}.", names.join(", ")),
            }))
        })
    }

    fn disconnect<'a>(&'a self, server: &'a str) -> Soon<'a, Result<bool, Fault>> {
        Box::pin(async move {
            let connections = self.session.connections()?;
            let was_there = connections.end(server).await?;
            self.session.has_tools_of_its_own(connections.own_tools());
            Ok(was_there)
        })
    }
}
