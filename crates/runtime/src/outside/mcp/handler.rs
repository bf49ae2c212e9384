//! What does haft answer when a server asks something of it?

use std::sync::Arc;

use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, ErrorData, Implementation, InputRequest, ProgressNotificationParam,
    },
    service::NotificationContext,
};
use serde_json::Value;

use super::news::News;
use crate::session::WeakSession;

/// haft's side of one connection. Cheap to clone.
#[derive(Clone)]
pub(super) struct Handler {
    /// What the server says by itself.
    pub(super) news: Arc<News>,
    /// The session that the connection belongs to; none, where haft only asks what there is.
    pub(super) session: Option<WeakSession>,
}

impl Handler {
    /// Answers what a server needs to go on with the call of this id: an `input_required` of 2026-07-28.
    ///
    /// # Errors
    /// When there is nobody who could.
    pub(super) async fn input(&self, call: &str, request: InputRequest) -> Result<Value, ErrorData> {
        let (_, _, _) = (call, request, &self.session);
        Err(ErrorData::invalid_request("this client has nobody to ask", None))
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("haft", env!("CARGO_PKG_VERSION")),
        )
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.news.progressed(&params);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.news.tools_changed.notify_one();
    }
}
