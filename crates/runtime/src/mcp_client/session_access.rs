//! Access to the session that a connection belongs to: its tools, its rules, its model, its folders.

use std::sync::Arc;

use kit::{AnyTool, Fault, Spec, files::Roots, services::Agents};
use policy::Want;

use super::Connections;
use crate::execution::session_ended;

/// What the MCP client uses of a session.
pub(crate) trait SessionAccess: Send + Sync {
    /// The tools of this server that the session shows.
    fn tools_of(&self, server: &str) -> Vec<Spec>;

    /// Returns whether a call that wants this is allowed without a question.
    fn allows(&self, want: Want) -> bool;

    /// From now on the session has these tools, and no other session has them.
    fn has_tools_of_its_own(&self, tools: OwnTools);

    /// The connections of the session, until it has ended.
    fn find_connections(&self) -> Option<Arc<Connections>>;

    /// Who starts agents for the session, and asks its model.
    fn agents(&self) -> Arc<dyn Agents>;

    /// The folders that the session may reach.
    fn roots(&self) -> Roots;

    /// The connections of the session.
    ///
    /// # Errors
    /// When it has ended.
    fn connections(&self) -> Result<Arc<Connections>, Fault> {
        self.find_connections().ok_or_else(session_ended)
    }
}

/// Returns the session while it is there: connections lie on its shelf and must not keep it from ending.
pub(crate) type FindSession = Arc<dyn Fn() -> Option<Arc<dyn SessionAccess>> + Send + Sync>;

/// Tools of a session's own.
pub(crate) type OwnTools = Vec<Arc<dyn AnyTool>>;
