//! Workspaces that `haft mcp` serves: opens one at the start, and another if the client works elsewhere.

use std::{path::PathBuf, sync::Arc};

use kit::Fault;
use parking_lot::Mutex;
#[cfg(feature = "web")]
use runtime::WeakSession;
use runtime::{Session, plugins::Watching};

#[cfg(feature = "web")]
use store::journal::Filter;

use super::ToolArgs;
#[cfg(feature = "web")]
use crate::client_services::PageApprovals;
use crate::{
    McpBackend, Opened, Options, Place,
    client_services::ClientSlots,
    print,
    triggers::Webhooks,
    verbs::{finish, in_short, report_ignored},
};

/// The newest calls among which those under way are.
#[cfg(feature = "web")]
const CALLS: usize = 1000;

/// Maximum number of MCP servers that the instructions name.
const SERVERS: usize = 12;

/// The served workspace, and the earlier ones if the client works in another folder than haft was started in.
pub(in crate::verbs) struct Opening {
    options: Options,
    place: Place,
    tools: ToolArgs,
    standing: Mutex<Vec<Arc<OpenWorkspace>>>,
    /// The page on which calls of clients without elicitation are decided.
    #[cfg(feature = "web")]
    page: Option<Arc<PageApprovals>>,
    /// The sessions of clients.
    #[cfg(feature = "web")]
    clients: Mutex<Vec<WeakSession>>,
}

/// A workspace that is open.
struct OpenWorkspace {
    opened: Opened,
    /// The session backend for clients without a session of their own.
    backend: McpBackend,
    session: Session,
    _watching: Watching,
}

impl Opening {
    /// Opens the workspace of these options.
    ///
    /// # Errors
    /// When no runtime can be opened, or with `--strict` when a tool is missing.
    pub(in crate::verbs) async fn new(
        options: &Options,
        place: &Place,
        tools: ToolArgs,
    ) -> Result<Self, Fault> {
        let (asked, place) = (options.clone(), place.clone());
        let opening = Self {
            options: asked,
            place,
            tools,
            standing: Mutex::default(),
            #[cfg(feature = "web")]
            page: None,
            #[cfg(feature = "web")]
            clients: Mutex::default(),
        };
        opening.open(options).await?;
        Ok(opening)
    }

    /// Has calls of clients without elicitation wait for a decision on this page.
    #[cfg(feature = "web")]
    pub(in crate::verbs) fn decided_on(self, page: Option<Arc<PageApprovals>>) -> Self {
        Self { page, ..self }
    }

    /// Returns the session backend of the newest workspace.
    ///
    /// # Errors
    /// When no workspace is open.
    pub(super) fn backend(&self) -> Result<McpBackend, Fault> {
        self.newest().map(|it| it.backend.clone())
    }

    /// Opens the workspace that the client works in, and returns its session backend.
    ///
    /// # Errors
    /// When that folder can't be the workspace.
    pub(super) async fn backend_in(
        &self,
        workspace: PathBuf,
        others: Vec<PathBuf>,
    ) -> Result<McpBackend, Fault> {
        let mut options = self.options.clone();
        options.dir = Some(workspace);
        options.roots.extend(others.into_iter().filter_map(|it| it.into_os_string().into_string().ok()));
        self.open(&options).await?;
        self.backend()
    }

    /// Returns the session backend for one of several clients: a new session, with the jobs of earlier sessions of this
    /// principal.
    ///
    /// # Errors
    /// As [`backend`](Self::backend).
    pub(in crate::verbs) fn backend_of(&self, principal: &str) -> Result<McpBackend, Fault> {
        let standing = self.newest()?;
        let (session, slots) = self.session(&standing.opened, None);
        // A client that reconnects with the same token finds its earlier jobs. Session names contain no slash.
        session.keep_jobs(&format!("http/{principal}"));
        #[cfg(feature = "web")]
        {
            if let Some(page) = &self.page {
                slots.decided_on(page, &session, principal);
            }
            let mut clients = self.clients.lock();
            clients.retain(|it| it.get().is_some());
            clients.push(session.weak());
        }
        Ok(McpBackend::new(session, &standing.opened, slots))
    }

    /// Returns the sessions of clients that have a call under way, a call that waits for approval, or a job. Blocks.
    ///
    /// # Errors
    /// When the journal can't be read.
    #[cfg(feature = "web")]
    pub(in crate::verbs) fn working(&self) -> Result<Vec<String>, Fault> {
        let clients: Vec<Session> = self.clients.lock().iter().filter_map(WeakSession::get).collect();
        let mut working: Vec<String> =
            clients.iter().filter(|it| it.has_running_jobs()).map(|it| it.name().to_owned()).collect();
        let waiting = self.page.iter().flat_map(|it| it.sessions()).filter(|it| !it.waiting().is_empty());
        working.extend(waiting.map(|it| it.session().to_owned()));
        let standing = self.standing.lock().clone();
        for it in standing {
            let store = it.opened.runtime.store();
            let newest = store.journal().log(Filter { limit: CALLS, ..Filter::default() })?;
            let under_way =
                newest.into_iter().filter(|it| it.outcome.is_none() && it.instance == store.instance());
            working.extend(under_way.map(|it| it.session));
        }
        working.sort();
        working.dedup();
        Ok(working)
    }

    /// Returns the instructions that clients get about the tools as a whole.
    ///
    /// # Errors
    /// As [`backend`](Self::backend).
    pub(in crate::verbs) fn about(&self) -> Result<serve::About, Fault> {
        let standing = self.newest()?;
        let catalog = standing.session.catalog();
        let mut instructions = tools::instructions(&standing.opened.toolset, catalog.listed());
        instructions.extend(of_servers(&standing.opened));
        Ok(serve::About::new(instructions))
    }

    /// Returns the webhooks of the workspace.
    ///
    /// # Errors
    /// As [`backend`](Self::backend).
    pub(super) fn hooks(&self) -> std::io::Result<Arc<dyn serve::Hooks>> {
        let standing = self.newest().map_err(|fault| std::io::Error::other(fault.as_text()))?;
        Ok(Arc::new(Webhooks::new(&standing.opened.runtime)))
    }

    /// Ends the sessions of all opened workspaces.
    pub(in crate::verbs) async fn finish(&self) {
        let standing = std::mem::take(&mut *self.standing.lock());
        for it in standing {
            finish(&it.session).await;
        }
    }

    async fn open(&self, options: &Options) -> Result<(), Fault> {
        let opened = options.open_with(&self.place, tools::of_clients)?;
        self.tools.strict.require(&opened, &self.place).await?;
        report_ignored(&opened, self.tools.strict.strict);
        let (session, slots) = self.session(&opened, options.session.as_deref());
        let outside = opened.runtime.plugins();
        outside.asks(slots.approver());
        let (asked, place, toolset) = (options.clone(), self.place.clone(), opened.toolset.clone());
        let deciding = Options::deciding(&place, opened.runtime.roots().workspace());
        // A client doesn't need to restart when a person trusts the workspace.
        outside.follow(deciding, move || asked.tool_files(&place, &toolset).ok());
        outside.ask_servers(&self.place.variables);
        let backend = McpBackend::new(session.clone(), &opened, slots);
        let tell = backend.report_not_loaded();
        // haft watches from here on, so that loading tools does not delay the first answer to a client.
        let watching = outside.watch(move |it| {
            print::err(&format!("haft: {}", in_short(it)));
            tell(it);
        });
        let loaded = outside.clone();
        tokio::spawn(async move {
            loaded.settled().await;
            loaded.lapsed().iter().for_each(|line| print::err(&format!("haft: {line}")));
        });
        self.standing.lock().push(Arc::new(OpenWorkspace { opened, backend, session, _watching: watching }));
        Ok(())
    }

    /// Returns a session, and the slots of the clients that approve its calls.
    fn session(&self, opened: &Opened, name: Option<&str>) -> (Session, Arc<ClientSlots>) {
        let slots = Arc::new(ClientSlots::default());
        let session = opened.runtime.session(name, "mcp", slots.approver());
        slots.serve_agents(&session, opened, &self.place);
        if !self.tools.all_tools {
            session.list_within(opened.listing_of_mcp());
        }
        (session, slots)
    }

    fn newest(&self) -> Result<Arc<OpenWorkspace>, Fault> {
        self.standing.lock().last().cloned().ok_or_else(|| Fault::bug("no workspace is open"))
    }
}

/// Returns one line that names the enabled MCP servers, whose tools a model has to search for.
fn of_servers(opened: &Opened) -> Option<String> {
    let servers = opened.runtime.plugins().servers();
    let named: Vec<String> = servers
        .list()
        .iter()
        .filter(|it| !it.section.disabled)
        .map(|it| match servers.tools_of(&it.name) {
            Some(count) => format!("{} ({count})", it.name),
            None => it.name.clone(),
        })
        .take(SERVERS)
        .collect();
    (!named.is_empty()).then(|| {
        format!(
            "\nMCP servers: {}; `mcp_list` shows their tools, `search_tools` finds them.",
            named.join(", ")
        )
    })
}
