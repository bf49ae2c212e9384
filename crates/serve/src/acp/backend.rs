//! The agent behind the Agent Client Protocol: one method for each request of a client.

use std::{future::Future, pin::Pin};

use agent_client_protocol_schema::v1::{
    AgentCapabilities, AuthMethod, AuthenticateRequest, AuthenticateResponse, ClientCapabilities,
    CloseSessionRequest, CloseSessionResponse, DeleteSessionRequest, DeleteSessionResponse, Error,
    ForkSessionRequest, ForkSessionResponse, Implementation, ListSessionsRequest, ListSessionsResponse,
    LoadSessionRequest, LoadSessionResponse, NewSessionRequest, NewSessionResponse, PromptRequest,
    PromptResponse, ResumeSessionRequest, ResumeSessionResponse, SessionId, SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse, SetSessionModeRequest, SetSessionModeResponse,
};
use tokio_util::sync::CancellationToken;

/// An agent's description of itself.
pub struct Described {
    /// Its capabilities. An absent one is not supported.
    pub capabilities: AgentCapabilities,
    /// The ways to give it a key.
    pub auth_methods: Vec<AuthMethod>,
    /// Its name and version.
    pub info: Implementation,
}

/// A result, and what is sent once the client has it.
pub struct Reply<T> {
    /// The result.
    pub result: T,
    /// Runs once the result is on its way: updates of a session whose id the client does not know before.
    pub then: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<T> From<T> for Reply<T> {
    fn from(result: T) -> Self {
        Self { result, then: None }
    }
}

impl<T> Reply<T> {
    /// Sends more once the client has the result.
    #[must_use]
    pub fn then(result: T, then: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { result, then: Some(Box::pin(then)) }
    }
}

/// The outcome of a request with a result of this type.
type Answered<T> = Result<Reply<T>, Error>;

/// An agent that editors drive. Requests run at the same time; a future that is dropped stops its request.
pub trait AcpBackend: Send + Sync + 'static {
    /// Returns the agent's description for a client with these capabilities.
    fn describe(&self, client: &ClientCapabilities) -> Described;

    /// Checks that the agent can reach a model by this method.
    fn authenticate(
        &self,
        request: AuthenticateRequest,
    ) -> impl Future<Output = Answered<AuthenticateResponse>> + Send;

    /// Begins a session.
    fn new_session(
        &self,
        request: NewSessionRequest,
    ) -> impl Future<Output = Answered<NewSessionResponse>> + Send;

    /// Opens a session, and sends its messages and calls before it answers.
    fn load(&self, request: LoadSessionRequest)
    -> impl Future<Output = Answered<LoadSessionResponse>> + Send;

    /// Opens a session without sending its messages and calls.
    fn resume(
        &self,
        request: ResumeSessionRequest,
    ) -> impl Future<Output = Answered<ResumeSessionResponse>> + Send;

    /// Begins a session that goes on from where another one is.
    fn fork(&self, request: ForkSessionRequest)
    -> impl Future<Output = Answered<ForkSessionResponse>> + Send;

    /// Lists the sessions, the one used last first.
    fn list(
        &self,
        request: ListSessionsRequest,
    ) -> impl Future<Output = Answered<ListSessionsResponse>> + Send;

    /// Removes a session from the list.
    fn delete(
        &self,
        request: DeleteSessionRequest,
    ) -> impl Future<Output = Answered<DeleteSessionResponse>> + Send;

    /// Ends a session on this connection: stops its work, and keeps the conversation.
    fn close(
        &self,
        request: CloseSessionRequest,
    ) -> impl Future<Output = Answered<CloseSessionResponse>> + Send;

    /// Takes a turn. `cancel` stops it, within 200 ms, with the stop reason `cancelled`.
    fn prompt(
        &self,
        request: PromptRequest,
        cancel: CancellationToken,
    ) -> impl Future<Output = Answered<PromptResponse>> + Send;

    /// Stops the turn that goes on in a session, also one that this client did not begin.
    fn cancel(&self, session: SessionId) -> impl Future<Output = ()> + Send;

    /// Goes on in another mode.
    fn set_mode(
        &self,
        request: SetSessionModeRequest,
    ) -> impl Future<Output = Answered<SetSessionModeResponse>> + Send;

    /// Sets an option of a session.
    fn set_config_option(
        &self,
        request: SetSessionConfigOptionRequest,
    ) -> impl Future<Output = Answered<SetSessionConfigOptionResponse>> + Send;

    /// The connection has ended: every session ends, and is kept.
    fn end(&self) -> impl Future<Output = ()> + Send;
}
