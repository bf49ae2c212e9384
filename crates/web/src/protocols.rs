//! Protocols of programs beside the API, MCP and ACP, as the program that serves provides them.

use std::sync::Arc;

use kit::{Fault, services::Soon};
use serve::{
    acp::{MessageReader, MessageWriter},
    gate::Mounted,
};

use crate::role::Role;

/// MCP and the Agent Client Protocol, as the program that serves speaks them.
pub trait Protocols: Send + Sync {
    /// Returns the MCP endpoint of the workspace of this id, which opens at its first use.
    fn mcp<'a>(&'a self, workspace: &'a str) -> Soon<'a, Result<Arc<dyn Mounted>, Fault>>;

    /// Returns the MCP endpoints that are open.
    fn open_mcp(&self) -> Vec<Arc<dyn Mounted>>;

    /// Speaks the Agent Client Protocol with a client, until its messages end.
    fn acp(&self, client: AcpClient) -> Soon<'static, ()>;
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
