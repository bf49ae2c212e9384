//! Notifications that a server sends.

use std::{collections::HashMap, sync::Arc};

use kit::services::Progress;
use parking_lot::Mutex;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::sync::Notify;

/// The notifications of one connection.
#[derive(Default)]
pub(super) struct ServerNotifications {
    /// Notified when the server's tools change.
    pub(super) tools_changed: Notify,
    /// The receiver of each call's progress.
    progress: Mutex<HashMap<ProgressToken, Arc<dyn Progress>>>,
}

/// Delivers a call's progress until it is dropped.
pub(super) struct ProgressSubscription<'a> {
    notifications: &'a ServerNotifications,
    token: ProgressToken,
}

impl ServerNotifications {
    /// Delivers progress of the call with this token to `progress` from now on.
    pub(super) fn subscribe(
        &self,
        token: ProgressToken,
        progress: Arc<dyn Progress>,
    ) -> ProgressSubscription<'_> {
        self.progress.lock().insert(token.clone(), progress);
        ProgressSubscription { notifications: self, token }
    }

    /// Passes on progress to the receiver of its call.
    pub(super) fn progressed(&self, said: &ProgressNotificationParam) {
        let progress = self.progress.lock().get(&said.progress_token).cloned();
        if let Some(progress) = progress {
            progress.report(said.progress, said.total, said.message.as_deref().unwrap_or_default());
        }
    }
}

impl Drop for ProgressSubscription<'_> {
    fn drop(&mut self) {
        self.notifications.progress.lock().remove(&self.token);
    }
}
