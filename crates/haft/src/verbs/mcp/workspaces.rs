//! Workspaces that `haft mcp` serves: opened at the start, and again where a client works elsewhere.

use std::{path::PathBuf, sync::Arc};

use kit::Fault;
use parking_lot::Mutex;
use runtime::{Session, plugins::Watching};

use super::ToolArgs;
use crate::{
    ForClients, Opened, Options, Place,
    client_services::ClientSlots,
    print,
    verbs::{finish, in_short, tell_aside},
};

/// As many servers are named.
const SERVERS: usize = 12;

/// The workspace that is served, and those before it, if the client works elsewhere than haft was started.
pub(super) struct Opening {
    options: Options,
    place: Place,
    tools: ToolArgs,
    standing: Mutex<Vec<Arc<OpenWorkspace>>>,
}

/// A workspace that is open.
struct OpenWorkspace {
    opened: Opened,
    /// The session of whoever comes without one of its own.
    hands: ForClients,
    session: Session,
    _watching: Watching,
}

impl Opening {
    /// Opens the workspace of these options.
    ///
    /// # Errors
    /// When there is no runtime to be had, or with `--strict` when a tool is missing.
    pub(super) async fn new(options: &Options, place: &Place, tools: ToolArgs) -> Result<Self, Fault> {
        let (asked, place) = (options.clone(), place.clone());
        let opening = Self { options: asked, place, tools, standing: Mutex::default() };
        opening.open(options).await?;
        Ok(opening)
    }

    /// What the client gets, where haft was started.
    ///
    /// # Errors
    /// Never once it is open.
    pub(super) fn hands(&self) -> Result<ForClients, Fault> {
        self.newest().map(|it| it.hands.clone())
    }

    /// The same, where the client works.
    ///
    /// # Errors
    /// When that can't be the workspace.
    pub(super) async fn hands_in(
        &self,
        workspace: PathBuf,
        others: Vec<PathBuf>,
    ) -> Result<ForClients, Fault> {
        let mut options = self.options.clone();
        options.dir = Some(workspace);
        options.roots.extend(others.into_iter().filter_map(|it| it.into_os_string().into_string().ok()));
        self.open(&options).await?;
        self.hands()
    }

    /// What one of several clients gets, in a session of its own; with the jobs of earlier sessions of this principal.
    ///
    /// # Errors
    /// As [`hands`](Self::hands).
    pub(super) fn hands_of(&self, principal: &str) -> Result<ForClients, Fault> {
        let standing = self.newest()?;
        let (session, desk) = self.session(&standing.opened, None);
        // Who comes back with the same token finds the jobs of before. No session's name has a slash.
        session.keep_jobs(&format!("http/{principal}"));
        Ok(ForClients::new(session, &standing.opened, desk))
    }

    /// What a client is told of the tools as a whole.
    ///
    /// # Errors
    /// As [`hands`](Self::hands).
    pub(super) fn about(&self) -> Result<serve::About, Fault> {
        let standing = self.newest()?;
        let catalog = standing.session.catalog();
        let mut instructions = tools::instructions(&standing.opened.toolset, catalog.listed());
        instructions.extend(of_servers(&standing.opened));
        Ok(serve::About::new(instructions))
    }

    /// Ends what was opened.
    pub(super) async fn finish(&self) {
        let standing = std::mem::take(&mut *self.standing.lock());
        for it in standing {
            finish(&it.session).await;
        }
    }

    async fn open(&self, options: &Options) -> Result<(), Fault> {
        let opened = options.open_with(&self.place, tools::of_agents)?;
        self.tools.strict.require(&opened, &self.place).await?;
        tell_aside(&opened, self.tools.strict.strict);
        let (session, desk) = self.session(&opened, options.session.as_deref());
        let outside = opened.runtime.plugins();
        outside.asks(desk.approver());
        let (asked, place, toolset) = (options.clone(), self.place.clone(), opened.toolset.clone());
        let deciding = Options::deciding(&place, opened.runtime.roots().workspace());
        // A client need not start anew when a person trusts the workspace.
        outside.follow(deciding, move || asked.tool_files(&place, &toolset).ok());
        outside.ask_servers(&self.place.variables);
        let hands = ForClients::new(session.clone(), &opened, desk);
        let tell = hands.tell_not_loaded();
        // From here on, so that a client is answered at once, whatever there is to load.
        let watching = outside.watch(move |it| {
            print::err(&format!("haft: {}", in_short(it)));
            tell(it);
        });
        let loaded = outside.clone();
        tokio::spawn(async move {
            loaded.settled().await;
            loaded.lapsed().iter().for_each(|line| print::err(&format!("haft: {line}")));
        });
        self.standing.lock().push(Arc::new(OpenWorkspace { opened, hands, session, _watching: watching }));
        Ok(())
    }

    /// A session, and whose clients are asked for it.
    fn session(&self, opened: &Opened, name: Option<&str>) -> (Session, Arc<ClientSlots>) {
        let desk = Arc::new(ClientSlots::default());
        let session = opened.runtime.session(name, "mcp", desk.approver());
        desk.serve_agents(&session, opened, &self.place);
        if !self.tools.all_tools {
            session.list_within(opened.listing_of_mcp());
        }
        (session, desk)
    }

    fn newest(&self) -> Result<Arc<OpenWorkspace>, Fault> {
        self.standing.lock().last().cloned().ok_or_else(|| Fault::bug("no workspace is open"))
    }
}

/// Of which MCP servers there are tools that a model has to look for, in one line.
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
