//! Server start: connects, lists the tools, and refreshes the list when it changes.

use std::{path::PathBuf, sync::Arc, time::Duration};

use kit::{Fault, Kind, Touches, quote::quote};
use rmcp::model::{PaginatedRequestParams, SubscriptionFilter, Tool};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::{
    FindSession, Server,
    connect::{Lifecycle, Live, Wanted, connect},
    definition::definitions,
    definition_store::Manifest,
    handler::Handler,
    http,
    notifications::ServerNotifications,
    servers::Servers,
};
use crate::{config::Variables, execution::Execution};

/// Time limit for one page of tools.
const LIST: Duration = Duration::from_secs(30);
/// Limit of pages.
const PAGES: usize = 50;

/// The services that start servers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Start {
    pub(crate) execution: Execution,
    pub(crate) workspace: PathBuf,
    /// haft's own environment.
    pub(crate) variables: Arc<Vec<(String, String)>>,
    /// The session that connects; none, where haft fetches tools by itself.
    pub(crate) session: Option<FindSession>,
}

/// A callback that gets a server's tool definitions.
pub(super) type Learns =
    Arc<dyn Fn(Lifecycle, (Vec<super::definition::Definition>, Vec<String>)) + Send + Sync>;

impl Start {
    /// Connects to a server and lists its tools; `own` gets those of a server that is not configured.
    ///
    /// # Errors
    /// When connecting or listing fails.
    pub(super) async fn start(
        &self,
        servers: &Arc<Servers>,
        server: &Arc<Server>,
        own: Option<Learns>,
    ) -> Result<Arc<Live>, Fault> {
        let section = &server.section;
        let execution = self.execution.of_server(section.read.clone(), section.write.clone());
        let procs = execution.of_call_to(&server.name, &Touches::run(server.starts()), &section.net);
        let notifications = Arc::<ServerNotifications>::default();
        let live = connect(Wanted {
            server,
            lifecycle: servers.manifest(&server.name).map(|it: Arc<Manifest>| it.lifecycle),
            procs: &procs,
            workspace: &self.workspace,
            variables: &self.variables,
            logins: Some(servers.logins()),
            handler: Handler::new(server, notifications.clone(), self.session.clone()),
        })
        .await?;
        let learns: Learns = match own {
            Some(own) => own,
            None => {
                let (servers, server) = (servers.clone(), server.clone());
                Arc::new(move |lifecycle, said| drop(servers.learned(&server, lifecycle, said)))
            }
        };
        let live = Arc::new(live);
        match list(&live, server).await {
            Ok(tools) => learns(live.lifecycle, definitions(tools)),
            Err(fault) => {
                live.end().await;
                return Err(fault);
            }
        }
        watch(&live, server.clone(), notifications, learns);
        Ok(live)
    }
}

/// Lists the tools again whenever the server reports a change, as long as the connection lives.
fn watch(live: &Arc<Live>, server: Arc<Server>, notifications: Arc<ServerNotifications>, learns: Learns) {
    let weak = Arc::downgrade(live);
    let watching = tokio::spawn({
        let (weak, notifications) = (weak.clone(), notifications.clone());
        async move {
            loop {
                notifications.tools_changed.notified().await;
                let Some(live) = weak.upgrade() else { return };
                match list(&live, &server).await {
                    Ok(tools) => learns(live.lifecycle, definitions(tools)),
                    // The next call reports the fault.
                    Err(fault) => tracing::warn!("{fault}"),
                }
            }
        }
    });
    // From 2026-07-28 on a server notifies only clients that subscribe.
    let peer = live.service.peer().clone();
    let is_told = live.lifecycle == Lifecycle::Modern
        && peer
            .peer_info()
            .is_some_and(|it| it.capabilities.tools.as_ref().is_some_and(|it| it.list_changed == Some(true)));
    let listening = is_told.then(|| {
        tokio::spawn(async move {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            let Ok(mut heard) = peer.listen(filter).await else { return };
            while let Ok(Some(_)) = heard.next().await {
                notifications.tools_changed.notify_one();
            }
        })
    });
    live.keeps(watching, listening);
}

/// Returns all tools that a server lists.
async fn list(live: &Live, server: &Server) -> Result<Vec<Tool>, Fault> {
    let peer = live.service.peer();
    let has_tools = peer.peer_info().is_none_or(|it| it.capabilities.tools.is_some());
    let (mut tools, mut cursor) = (Vec::new(), None);
    if !has_tools {
        return Ok(tools);
    }
    for _ in 0..PAGES {
        let page = PaginatedRequestParams::default().with_cursor(cursor.clone());
        let why = match timeout(LIST, peer.list_tools(Some(page))).await {
            Ok(Ok(page)) => {
                tools.extend(page.tools);
                if page.next_cursor.is_none() || page.next_cursor == cursor {
                    return Ok(tools);
                }
                cursor = page.next_cursor;
                continue;
            }
            Ok(Err(error)) => match http::refused(&server.name, &error) {
                Some(fault) => return Err(fault),
                None => kit::escape::visible(&error.to_string()).0.into_owned(),
            },
            Err(_) => format!("no answer within {} s", LIST.as_secs()),
        };
        let fault = Fault::new(
            Kind::Unavailable,
            format!("the server `{}` does not say what its tools are: {why}", server.name),
        );
        return Err(live.with_seen(fault).await);
    }
    Ok(tools)
}

impl Server {
    /// Returns its command line, or its address, as configured: without the values of variables.
    pub fn starts(&self) -> String {
        match (&self.section.url, &self.section.command) {
            (Some(url), _) => url.clone(),
            (None, Some(command)) => {
                let words = [command].into_iter().chain(&self.section.args);
                words.map(|it| quote(it)).collect::<Vec<_>>().join(" ")
            }
            (None, None) => String::new(),
        }
    }

    /// Describes the environment variables that it gets, for the person who decides on it: as configured,
    /// without the values.
    pub(super) fn given(&self) -> String {
        let section = &self.section;
        let of_env: Vec<String> = match &section.env {
            Variables::Names(names) => names.clone(),
            Variables::Values(values) => {
                values.iter().map(|(name, value)| format!("{name}={}", quote(value))).collect()
            }
        };
        let headers = section.headers.iter().map(|(name, value)| format!("{name}: {}", quote(value)));
        let token = section.bearer_env.iter().map(|it| format!("the token in {it}"));
        let given: Vec<String> = of_env.into_iter().chain(headers).chain(token).collect();
        if given.is_empty() { String::new() } else { format!("; given {}", given.join(", ")) }
    }
}

/// Two tasks that end with a connection.
#[derive(Default)]
pub(super) struct Tasks {
    _watching: Option<AbortOnDropHandle<()>>,
    _listening: Option<AbortOnDropHandle<()>>,
}

impl Tasks {
    pub(super) fn new(
        watching: tokio::task::JoinHandle<()>,
        listening: Option<tokio::task::JoinHandle<()>>,
    ) -> Self {
        Self {
            _watching: Some(AbortOnDropHandle::new(watching)),
            _listening: listening.map(AbortOnDropHandle::new),
        }
    }
}
