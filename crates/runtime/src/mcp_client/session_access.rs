//! Access to the session that a connection belongs to: its tools, its rules, its model, its folders.

use std::sync::Arc;

use kit::{AnyTool, Fault, Spec, files::Roots, services::Agents};
use policy::Want;

use super::Connections;
use crate::execution::session_ended;

/// The session as the MCP client uses it.
pub(crate) trait SessionAccess: Send + Sync {
    /// Returns the tools of this server that the session shows.
    fn tools_of(&self, server: &str) -> Vec<Spec>;

    /// Returns whether a call that wants this is allowed without a question.
    fn allows(&self, want: Want) -> bool;

    /// Sets the tools that only this session has.
    fn has_tools_of_its_own(&self, tools: SessionTools);

    /// Returns the connections of the session, until it has ended.
    fn find_connections(&self) -> Option<Arc<Connections>>;

    /// Returns the service that starts agents for the session and requests answers of its model.
    fn agents(&self) -> Arc<dyn Agents>;

    /// Returns the folders that the session may reach.
    fn roots(&self) -> Roots;

    /// Returns the connections of the session.
    ///
    /// # Errors
    /// When it has ended.
    fn connections(&self) -> Result<Arc<Connections>, Fault> {
        self.find_connections().ok_or_else(session_ended)
    }
}

/// Returns the session while it exists: connections are on its shelf and must not keep it alive.
pub(crate) type FindSession = Arc<dyn Fn() -> Option<Arc<dyn SessionAccess>> + Send + Sync>;

/// Tools that only one session has.
pub(crate) type SessionTools = Vec<Arc<dyn AnyTool>>;
