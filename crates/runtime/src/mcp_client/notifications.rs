//! Notifications that a server sends.

use std::{collections::HashMap, sync::Arc};

use kit::services::Progress;
use parking_lot::Mutex;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::sync::Notify;

/// What one connection hears beside answers.
#[derive(Default)]
pub(super) struct ServerNotifications {
    /// The server says that its tools are others now.
    pub(super) tools_changed: Notify,
    /// Who hears how far each call has come.
    progress: Mutex<HashMap<ProgressToken, Arc<dyn Progress>>>,
}

/// Has somebody hear of a call's progress, for as long as this lives.
pub(super) struct Hearing<'a> {
    news: &'a ServerNotifications,
    token: ProgressToken,
}

impl ServerNotifications {
    /// From now on this one hears how far the call of this token has come.
    pub(super) fn hear(&self, token: ProgressToken, progress: Arc<dyn Progress>) -> Hearing<'_> {
        self.progress.lock().insert(token.clone(), progress);
        Hearing { news: self, token }
    }

    /// Tells whoever hears of this call.
    pub(super) fn progressed(&self, said: &ProgressNotificationParam) {
        let progress = self.progress.lock().get(&said.progress_token).cloned();
        if let Some(progress) = progress {
            progress.report(said.progress, said.total, said.message.as_deref().unwrap_or_default());
        }
    }
}

impl Drop for Hearing<'_> {
    fn drop(&mut self) {
        self.news.progress.lock().remove(&self.token);
    }
}
