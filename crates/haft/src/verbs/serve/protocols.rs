//! MCP and the Agent Client Protocol of `haft serve`: the same as of `haft mcp --http` and `haft acp`, under the server's roles.

use std::{io, sync::Arc, time::Duration};

use kit::{Fault, services::Soon};
use parking_lot::RwLock;
use serve::gate::{Endpoints, Mounted, endpoint};
use sessions::{Guard, Operation, Sessions};
use tokio::sync::OnceCell;
use web::{AcpClient, McpApproval, McpDecision, Protocols, Role, guard};

use super::{Served, ServedAgents};
use crate::{
    Options, Place,
    acp_backend::{Backend, Hosted, HostedWorkspace},
    agent_factory::{AgentFactory, AgentOptions},
    client_services::{PageApprovals, PersonDecision},
    verbs::mcp::{ToolArgs, workspaces::Opening},
};

/// Maximum number of MCP sessions of one token or sign-in at once.
const SESSIONS: usize = 128;

/// The protocols of a server.
pub(super) struct ServedProtocols {
    options: Options,
    agent: AgentOptions,
    place: Place,
    page: ApprovalPage,
    workspaces: RwLock<Vec<Arc<Workspace>>>,
}

/// The page on which MCP calls are decided.
pub(super) struct ApprovalPage {
    /// The address of the server.
    pub(super) url: String,
    /// The time that a call waits; zero: it does not.
    pub(super) wait: Duration,
}

/// One workspace of the server.
struct Workspace {
    id: String,
    options: Options,
    factory: Arc<AgentFactory>,
    agents: Arc<ServedAgents>,
    sessions: Sessions,
    mcp: OnceCell<Mcp>,
    approvals: Option<Arc<PageApprovals>>,
}

/// The MCP endpoint of a workspace. Its tools are those of `haft mcp`, in a runtime of its own.
struct Mcp {
    endpoint: Arc<dyn Mounted>,
    opening: Arc<Opening>,
}

impl ServedProtocols {
    /// The protocols of a server that has no workspaces yet.
    pub(super) fn new(options: &Options, agent: &AgentOptions, place: &Place, page: ApprovalPage) -> Self {
        let (options, agent, place) = (options.clone(), agent.clone(), place.clone());
        Self { options, agent, place, page, workspaces: RwLock::default() }
    }

    /// Serves this workspace, which has this id and was opened with these options.
    pub(super) fn add(&self, served: &Served, id: String, options: Options) {
        let page = format!("{}/#/approvals", self.page.url);
        let approvals = (!self.page.wait.is_zero()).then(|| PageApprovals::new(page, self.page.wait));
        let workspace = Workspace {
            id,
            options,
            factory: served.factory.clone(),
            agents: served.agents.clone(),
            sessions: served.sessions.clone(),
            mcp: OnceCell::new(),
            approvals,
        };
        self.workspaces.write().push(Arc::new(workspace));
    }

    /// Returns the MCP sessions of this workspace that have a call or a job.
    pub(super) async fn working(&self, id: &str) -> Result<Vec<String>, Fault> {
        let found = self.all().into_iter().find(|it| it.id == id);
        let Some(mcp) = found.as_ref().and_then(|it| it.mcp.get()) else { return Ok(Vec::new()) };
        let opening = mcp.opening.clone();
        let working = tokio::task::spawn_blocking(move || opening.working()).await;
        working.map_err(|error| Fault::bug(format!("the MCP sessions were not checked: {error}")))?
    }

    /// Serves this workspace no more, and ends its MCP sessions.
    pub(super) async fn remove(&self, id: &str) {
        let found = {
            let mut all = self.workspaces.write();
            all.iter().position(|it| it.id == id).map(|at| all.remove(at))
        };
        if let Some(mcp) = found.as_ref().and_then(|it| it.mcp.get()) {
            mcp.endpoint.finish().await;
            mcp.opening.finish().await;
        }
    }

    fn all(&self) -> Vec<Arc<Workspace>> {
        self.workspaces.read().clone()
    }

    /// Ends the sessions of MCP, after their endpoints.
    pub(super) async fn finish(&self) {
        for workspace in self.all() {
            let Some(mcp) = workspace.mcp.get() else { continue };
            mcp.opening.finish().await;
        }
    }

    async fn open(&self, workspace: &Workspace) -> Result<Mcp, Fault> {
        let opening = Opening::new(&workspace.options, &self.place, ToolArgs::default()).await?;
        let opening = opening.decided_on(workspace.approvals.clone());
        let opening = Arc::new(opening);
        let (about, of_sessions) = (opening.about()?, opening.clone());
        let open = move |visit: serve::Visit<'_>| {
            let backend = of_sessions.backend_of(visit.principal.unwrap_or_default());
            backend.map_err(|fault| io::Error::other(fault.as_text()))
        };
        let settings = Endpoints { sessions: SESSIONS, one_session: false };
        Ok(Mcp { endpoint: endpoint(settings, about, open), opening })
    }
}

impl Protocols for ServedProtocols {
    fn mcp<'a>(&'a self, workspace: &'a str) -> Soon<'a, Result<Arc<dyn Mounted>, Fault>> {
        Box::pin(async move {
            let found = self.all().into_iter().find(|it| it.id == workspace);
            let found =
                found.ok_or_else(|| Fault::not_found(format!("there is no workspace `{workspace}`")))?;
            let mcp = found.mcp.get_or_try_init(|| self.open(&found)).await?;
            Ok(mcp.endpoint.clone())
        })
    }

    fn open_mcp(&self) -> Vec<Arc<dyn Mounted>> {
        self.all().iter().filter_map(|it| it.mcp.get()).map(|it| it.endpoint.clone()).collect()
    }

    fn approvals(&self) -> Vec<McpApproval> {
        let mut all = Vec::new();
        for workspace in self.all() {
            for session in workspace.approvals.iter().flat_map(|it| it.sessions()) {
                all.extend(session.waiting().into_iter().map(|approval| McpApproval {
                    workspace: workspace.id.clone(),
                    session: session.session().to_owned(),
                    client: session.client(),
                    principal: session.principal().to_owned(),
                    approval,
                }));
            }
        }
        all
    }

    fn decide(&self, made: McpDecision<'_>) -> Option<Result<(), Fault>> {
        let McpDecision { session, approval, hash, decision, words, by, is_own } = made;
        let workspaces = self.all();
        let all = workspaces.iter().filter_map(|it| it.approvals.as_ref()).flat_map(|it| it.sessions());
        let found = all.into_iter().find(|it| it.session() == session)?;
        Some(found.decide(PersonDecision { approval, hash, decision, words, by, is_own }))
    }

    fn acp(&self, client: AcpClient) -> Soon<'static, ()> {
        let AcpClient { input, output, who, role, stands } = client;
        let workspaces = self.all();
        let workspaces = workspaces.iter().map(|it| HostedWorkspace {
            factory: it.factory.clone(),
            sessions: it.sessions.clone(),
            guard: while_it_stands(stands.clone(), guard(role, it.agents.clone())),
        });
        let hosted = Hosted { who, decides: role >= Role::Approve, workspaces: workspaces.collect() };
        let (options, agent, place) = (self.options.clone(), self.agent.clone(), self.place.clone());
        Box::pin(async move {
            let open = |editor| Backend::hosted(editor, options, agent, place, hosted);
            if let Err(error) = serve::acp::acp(open, input, output).await {
                tracing::warn!(%error, "the Agent Client Protocol could not be spoken");
            }
        })
    }
}

/// Returns the guard that refuses the operations of whose access has ended: the socket is closed up to a second later, and then
/// its turns are stopped.
fn while_it_stands(stands: Arc<dyn Fn() -> bool + Send + Sync>, guard: Guard) -> Guard {
    Arc::new(move |operation| match matches!(operation, Operation::Cancel { .. }) || stands() {
        true => guard(operation),
        false => Err(Fault::denied("this access has ended").next("Connect with a token that stands.")),
    })
}
