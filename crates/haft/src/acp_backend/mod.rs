//! haft's agent behind the Agent Client Protocol: sessions of an editor, each with a workspace of its own.
//!
//! A session is a conversation of its workspace, as `haft chat` has it, under the same sandbox, trust and approvals. It is held
//! through the session service: the agent runs in the process that owns the session, this one or another, and whoever else
//! attends sees it too. Nothing is opened before the first session, so `initialize` is answered at once.

mod auth;
mod buffers;
mod commands;
mod config_options;
mod hosted;
mod opener;
mod opening;
mod person;
mod prompt;
mod replay;
mod session;
mod texts;
mod tool_calls;
mod updates;
mod workspaces;

use std::{collections::HashMap, path::Path, sync::Arc};

use kit::Fault;
use parking_lot::Mutex;
use serve::acp::{
    AcpBackend, Described, Editor, Reply, error_of, unknown_session,
    v1::{
        AgentCapabilities, AuthenticateRequest, AuthenticateResponse, ClientCapabilities,
        CloseSessionRequest, CloseSessionResponse, DeleteSessionRequest, DeleteSessionResponse, Error,
        ForkSessionRequest, ForkSessionResponse, Implementation, ListSessionsRequest, ListSessionsResponse,
        LoadSessionRequest, LoadSessionResponse, McpCapabilities, McpServer, NewSessionRequest,
        NewSessionResponse, PromptCapabilities, PromptRequest, PromptResponse, ResumeSessionRequest,
        ResumeSessionResponse, SessionAdditionalDirectoriesCapabilities, SessionCapabilities,
        SessionCloseCapabilities, SessionConfigOption, SessionDeleteCapabilities, SessionForkCapabilities,
        SessionId, SessionListCapabilities, SessionModeState, SessionResumeCapabilities,
        SetSessionConfigOptionRequest, SetSessionConfigOptionResponse, SetSessionModeRequest,
        SetSessionModeResponse,
    },
};
use tokio_util::sync::CancellationToken;

pub(crate) use self::hosted::Hosted;
#[cfg(feature = "web")]
pub(crate) use self::hosted::HostedWorkspace;
use self::{
    opening::{Opening, SavedSettings},
    session::AcpSession,
    workspaces::KnownWorkspaces,
};
use crate::{Options, Place, agent_factory::AgentOptions, session_state::SessionState};

/// The sessions of one connection.
pub(crate) struct Backend {
    editor: Editor,
    options: Options,
    agent: AgentOptions,
    place: Place,
    known: KnownWorkspaces,
    /// The server whose sessions these are, if they are a server's.
    hosted: Option<Arc<Hosted>>,
    open: Mutex<HashMap<SessionId, Arc<AcpSession>>>,
}

/// The client's parameters for opening a session.
struct Asked {
    cwd: std::path::PathBuf,
    dirs: Vec<std::path::PathBuf>,
    servers: Vec<McpServer>,
}

type Answered<T> = Result<Reply<T>, Error>;

impl Backend {
    /// Creates a backend without an open session. `options` and `agent` apply to every session.
    pub(crate) fn new(editor: Editor, options: Options, agent: AgentOptions, place: Place) -> Self {
        let known = KnownWorkspaces::of(&place);
        Self { editor, options, agent, place, known, hosted: None, open: Mutex::default() }
    }

    /// Creates a backend for the sessions of a server.
    #[cfg(feature = "web")]
    pub(crate) fn hosted(
        editor: Editor,
        options: Options,
        agent: AgentOptions,
        place: Place,
        hosted: Hosted,
    ) -> Self {
        Self { hosted: Some(Arc::new(hosted)), ..Self::new(editor, options, agent, place) }
    }

    fn session(&self, id: &SessionId) -> Result<Arc<AcpSession>, Error> {
        self.open.lock().get(id).cloned().ok_or_else(|| unknown_session(id))
    }

    /// Opens a session, and first closes an open one of this name. Without a name, the session is new.
    async fn open(&self, asked: Asked, name: Option<&SessionId>) -> Result<Arc<AcpSession>, Error> {
        let opening = self.checked(asked)?;
        let kept = match name {
            None => SavedSettings::default(),
            Some(name) => self.kept(&opening.cwd, name)?,
        };
        if let Some(name) = name {
            let open = self.open.lock().get(name).cloned();
            if let Some(session) = open
                && let Some(fault) = session.works().await
            {
                return Err(error_of(&fault));
            }
            self.leave(name).await;
        }
        self.opened(opening.with(&kept), name, kept).await
    }

    /// Checks the parameters with which a session is opened.
    fn checked(&self, asked: Asked) -> Result<Opening, Error> {
        match &self.hosted {
            Some(hosted) => hosted.opening(asked).map_err(|fault| error_of(&fault)),
            None => self.opening(asked),
        }
    }

    async fn opened(
        &self,
        opening: Opening,
        name: Option<&SessionId>,
        kept: SavedSettings,
    ) -> Result<Arc<AcpSession>, Error> {
        if self.hosted.is_none() {
            self.known.add(&opening.cwd);
        }
        let session = AcpSession::open(self, opening, name, kept).await?;
        self.open.lock().insert(session.id.clone(), session.clone());
        Ok(session)
    }

    /// Returns the saved settings of a session of this workspace.
    fn kept(&self, cwd: &Path, name: &SessionId) -> Result<SavedSettings, Error> {
        let store = self.store(cwd);
        let exists = workspaces::has(&store, name).map_err(|fault| error_of(&fault))?;
        let kept = SavedSettings::of(&store, name).map_err(|fault| error_of(&fault))?;
        if !exists {
            let what = format!("there is no session `{name}` in {}", cwd.display());
            let fault = Fault::not_found(what)
                .next("`session/list` lists those of a folder; `session/new` begins another one.");
            return Err(error_of(&fault));
        }
        Ok(kept)
    }

    /// Closes a session on this connection; returns whether it was open.
    async fn leave(&self, id: &SessionId) -> bool {
        let session = self.open.lock().remove(id);
        match session {
            Some(session) => {
                session.close().await;
                true
            }
            None => false,
        }
    }

    /// Returns whether this conversation has a model to continue with.
    fn has_model(&self, workspace: &Path, session: &SessionId) -> bool {
        SessionState::is_there(&self.store(workspace), &session.0)
    }

    fn store(&self, workspace: &Path) -> store::Store {
        if let Some(Ok(workspace)) = self.hosted.as_ref().map(|it| it.workspace(workspace)) {
            return workspace.factory.opened.runtime.store().clone();
        }
        store::Store::open(&self.place.state, workspace, Arc::new(kit::redact::Secrets::none()))
    }
}

/// Returns the answer to a request that opened a session. Its first updates follow the answer.
fn introduced<T>(
    session: &Arc<AcpSession>,
    response: impl FnOnce(SessionModeState, Vec<SessionConfigOption>) -> T,
) -> Reply<T> {
    Reply::then(response(session.modes(), session.config_options()), session.introduce())
}

impl AcpBackend for Backend {
    fn describe(&self, client: &ClientCapabilities) -> Described {
        let is_hosted = self.hosted.is_some();
        let mut sessions = SessionCapabilities::new()
            .list(SessionListCapabilities::new())
            .fork(SessionForkCapabilities::new())
            .resume(SessionResumeCapabilities::new())
            .close(SessionCloseCapabilities::new());
        if !is_hosted {
            sessions = sessions
                .delete(SessionDeleteCapabilities::new())
                .additional_directories(SessionAdditionalDirectoriesCapabilities::new());
        }
        let capabilities = AgentCapabilities::new()
            .load_session(true)
            .prompt_capabilities(PromptCapabilities::new().image(true).embedded_context(true))
            .mcp_capabilities(McpCapabilities::new().http(!is_hosted))
            .session_capabilities(sessions);
        Described {
            capabilities,
            // The keys of a server are its owner's matter.
            auth_methods: if is_hosted { Vec::new() } else { auth::methods(client.auth.terminal) },
            info: Implementation::new("haft", env!("CARGO_PKG_VERSION")).title("haft".to_owned()),
        }
    }

    async fn authenticate(&self, request: AuthenticateRequest) -> Answered<AuthenticateResponse> {
        if self.hosted.is_some() {
            let fault = Fault::denied("this server has its own keys of model providers");
            return Err(error_of(&fault.next("Whoever runs it sets them.")));
        }
        self.authenticated(&request)?;
        Ok(AuthenticateResponse::new().into())
    }

    async fn new_session(&self, request: NewSessionRequest) -> Answered<NewSessionResponse> {
        let NewSessionRequest { cwd, additional_directories: dirs, mcp_servers: servers, .. } = request;
        let session = self.open(Asked { cwd, dirs, servers }, None).await?;
        let response = NewSessionResponse::new(session.id.clone());
        Ok(introduced(&session, |modes, options| response.modes(modes).config_options(options)))
    }

    async fn load(&self, request: LoadSessionRequest) -> Answered<LoadSessionResponse> {
        let LoadSessionRequest {
            cwd, additional_directories: dirs, mcp_servers: servers, session_id, ..
        } = request;
        let session = self.open(Asked { cwd, dirs, servers }, Some(&session_id)).await?;
        session.replay().await.map_err(|fault| error_of(&fault))?;
        let response = LoadSessionResponse::new();
        Ok(introduced(&session, |modes, options| response.modes(modes).config_options(options)))
    }

    async fn resume(&self, request: ResumeSessionRequest) -> Answered<ResumeSessionResponse> {
        let ResumeSessionRequest {
            cwd, additional_directories: dirs, mcp_servers: servers, session_id, ..
        } = request;
        let session = self.open(Asked { cwd, dirs, servers }, Some(&session_id)).await?;
        let response = ResumeSessionResponse::new();
        Ok(introduced(&session, |modes, options| response.modes(modes).config_options(options)))
    }

    async fn fork(&self, request: ForkSessionRequest) -> Answered<ForkSessionResponse> {
        let ForkSessionRequest {
            cwd, additional_directories: dirs, mcp_servers: servers, session_id, ..
        } = request;
        let opening = self.checked(Asked { cwd, dirs, servers })?;
        let kept = self.kept(&opening.cwd, &session_id)?;
        let fork = self.copy(&opening.cwd, &session_id).map_err(|fault| error_of(&fault))?;
        let session = self.opened(opening.with(&kept), Some(&fork), kept).await?;
        let response = ForkSessionResponse::new(session.id.clone());
        Ok(introduced(&session, |modes, options| response.modes(modes).config_options(options)))
    }

    async fn list(&self, request: ListSessionsRequest) -> Answered<ListSessionsResponse> {
        let listed = self.listed(request.cwd.as_deref(), request.cursor.as_deref());
        Ok(listed.map_err(|fault| error_of(&fault))?.into())
    }

    async fn delete(&self, request: DeleteSessionRequest) -> Answered<DeleteSessionResponse> {
        if self.hosted.is_some() {
            let fault = Fault::denied("an editor deletes no sessions of this server");
            return Err(error_of(&fault.next("Its owner deletes them: `DELETE /api/v1/sessions/SESSION`.")));
        }
        let id = request.session_id;
        let open = self.open.lock().get(&id).cloned();
        // One that can't be deleted stays open here.
        if let Some(session) = &open
            && let Some(fault) = session.runs_elsewhere()
        {
            return Err(error_of(&fault));
        }
        self.leave(&id).await;
        self.forget(&id, open.as_ref().map(|it| it.cwd())).map_err(|fault| error_of(&fault))?;
        Ok(DeleteSessionResponse::new().into())
    }

    async fn close(&self, request: CloseSessionRequest) -> Answered<CloseSessionResponse> {
        if !self.leave(&request.session_id).await {
            return Err(unknown_session(&request.session_id));
        }
        Ok(CloseSessionResponse::new().into())
    }

    async fn prompt(&self, request: PromptRequest, cancel: CancellationToken) -> Answered<PromptResponse> {
        let session = self.session(&request.session_id)?;
        let reason = session.prompt(request.prompt, &cancel).await?;
        Ok(PromptResponse::new(reason).into())
    }

    async fn cancel(&self, session: SessionId) {
        if let Ok(session) = self.session(&session) {
            session.cancel().await;
        }
    }

    async fn set_mode(&self, request: SetSessionModeRequest) -> Answered<SetSessionModeResponse> {
        let session = self.session(&request.session_id)?;
        session.set_profile(&request.mode_id.0).await.map_err(|fault| error_of(&fault))?;
        Ok(SetSessionModeResponse::new().into())
    }

    async fn set_config_option(
        &self,
        request: SetSessionConfigOptionRequest,
    ) -> Answered<SetSessionConfigOptionResponse> {
        let session = self.session(&request.session_id)?;
        let value = request.value.as_value_id().map(|it| it.0.to_string()).ok_or_else(|| {
            let what = format!("the option `{}` takes one of its values, as text", request.config_id.0);
            error_of(&Fault::bad_args(what))
        })?;
        let session = if &*request.config_id.0 == config_options::SANDBOX {
            self.set_sandbox(&session, &value).await?
        } else {
            session.set_option(&request.config_id.0, &value).await.map_err(|fault| error_of(&fault))?;
            session
        };
        Ok(SetSessionConfigOptionResponse::new(session.config_options()).into())
    }

    async fn end(&self) {
        let all: Vec<_> = self.open.lock().drain().map(|it| it.1).collect();
        futures_util::future::join_all(all.iter().map(|it| it.close())).await;
    }
}
