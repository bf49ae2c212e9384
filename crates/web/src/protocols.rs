//! Protocols of programs beside the API, MCP and ACP, as the program that serves provides them.

use std::sync::Arc;

use kit::{Fault, services::Soon};
use serve::{
    acp::{MessageReader, MessageWriter},
    gate::Mounted,
};

use sessions::{Approval, Decision};

use crate::role::Role;

/// MCP and the Agent Client Protocol, as the program that serves speaks them.
pub trait Protocols: Send + Sync {
    /// Returns the MCP endpoint of the workspace of this id, which opens at its first use.
    fn mcp<'a>(&'a self, workspace: &'a str) -> Soon<'a, Result<Arc<dyn Mounted>, Fault>>;

    /// Returns the MCP endpoints that are open.
    fn open_mcp(&self) -> Vec<Arc<dyn Mounted>>;

    /// Returns the approvals of MCP calls that wait for a decision on the page.
    fn approvals(&self) -> Vec<McpApproval>;

    /// Decides one of them. Returns `None` if no MCP session has this name.
    fn decide(&self, made: McpDecision<'_>) -> Option<Result<(), Fault>>;

    /// Speaks the Agent Client Protocol with a client, until its messages end.
    fn acp(&self, client: AcpClient) -> Soon<'static, ()>;
}

/// An approval of an MCP call that waits.
pub struct McpApproval {
    /// The id of the workspace.
    pub workspace: String,
    /// The name of the MCP session.
    pub session: String,
    /// The name of the client.
    pub client: Option<String>,
    /// The principal that opened the session.
    pub principal: String,
    /// The approval.
    pub approval: Approval,
}

/// A decision on such an approval.
pub struct McpDecision<'a> {
    /// The name of the MCP session.
    pub session: &'a str,
    /// The id of the approval.
    pub approval: &'a str,
    /// The hash of the call that was shown.
    pub hash: &'a str,
    /// The decision.
    pub decision: Decision,
    /// With a no: what to do instead.
    pub words: Option<String>,
    /// The person who decides.
    pub by: &'a str,
    /// Returns whether a principal has the access of that person.
    pub is_own: &'a (dyn Fn(&str) -> bool + Sync),
}

/// A client of the Agent Client Protocol.
pub struct AcpClient {
    /// Its messages.
    pub input: MessageReader,
    /// The messages to it.
    pub output: MessageWriter,
    /// The name of whoever holds the token.
    pub who: String,
    /// Their role.
    pub role: Role,
    /// Returns whether the token or sign-in still has that role.
    pub stands: Arc<dyn Fn() -> bool + Send + Sync>,
}
