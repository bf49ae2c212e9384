//! Change notifications to clients: rate-limited, and only for what a client subscribed to.

use std::{future::Future, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, FutureExt as _, join_all};
use rmcp::{
    RoleServer,
    model::{ResourceUpdatedNotificationParam, SubscriptionFilter},
    service::{Peer, SubscriptionContext},
};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::McpServer;
use crate::backend::Backend;

/// Minimum interval between two notifications about one thing: a running job changes all the time.
const PACE: Duration = Duration::from_millis(200);

/// Maximum number of documents watched for one client, or for one subscription request.
pub(super) const WATCHED: usize = 256;

impl<H: Backend> McpServer<H> {
    /// Returns the part of a subscription that the backend supports.
    pub(super) fn audible(&self, requested: &SubscriptionFilter) -> SubscriptionFilter {
        let changes = self.backend.changes();
        let mut filter = SubscriptionFilter::new();
        filter.tools_list_changed = changes.tools.map(|_| true);
        filter.prompts_list_changed = changes.prompts.map(|_| true);
        filter.resources_list_changed = changes.documents.map(|_| true);
        let uris = requested.resource_subscriptions.iter().flatten().take(WATCHED);
        let watched: Vec<String> = uris.filter(|uri| self.backend.watch(uri).is_some()).cloned().collect();
        filter.resource_subscriptions = Some(watched);
        filter
    }

    /// Notifies a client that subscribed of each change, until the subscription ends.
    pub(super) async fn notify_listener(&self, context: SubscriptionContext) {
        let (accepted, sink) = (context.accepted(), context.sink());
        let changes = self.backend.changes();
        let mut all: Vec<BoxFuture<'_, ()>> = Vec::new();
        if accepted.tools_list_changed == Some(true) {
            all.push(
                follow(changes.tools, || async { sink.notify_tool_list_changed().await.is_ok() }).boxed(),
            );
        }
        if accepted.prompts_list_changed == Some(true) {
            all.push(
                follow(changes.prompts, || async { sink.notify_prompt_list_changed().await.is_ok() }).boxed(),
            );
        }
        if accepted.resources_list_changed == Some(true) {
            let tell = || async { sink.notify_resource_list_changed().await.is_ok() };
            all.push(follow(changes.documents, tell).boxed());
        }
        for uri in accepted.resource_subscriptions.iter().flatten() {
            let tell = move || async move { sink.notify_resource_updated(uri.clone()).await.is_ok() };
            all.push(follow(self.backend.watch(uri), tell).boxed());
        }
        let telling = async {
            join_all(all).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = context.cancelled() => {}
            () = self.gone.cancelled() => {}
            () = telling => {}
        }
    }

    /// Notifies a client of a revision without subscriptions of every change from now on. Only the first call
    /// has an effect.
    pub(super) fn announce(&self, peer: &Peer<RoleServer>) {
        if self.log_settings.announced.swap(true, std::sync::atomic::Ordering::Relaxed) {
            return;
        }
        let (peer, changes) = (peer.clone(), self.backend.changes());
        let (notices, log_settings) = (self.backend.notices(), Arc::clone(&self.log_settings));
        spawn_until(self.gone.clone(), async move {
            let peer = &peer;
            tokio::join!(
                follow(changes.tools, || async { peer.notify_tool_list_changed().await.is_ok() }),
                follow(changes.documents, || async { peer.notify_resource_list_changed().await.is_ok() }),
                follow(changes.prompts, || async { peer.notify_prompt_list_changed().await.is_ok() }),
                log_settings.send_notices(notices, peer),
            );
        });
    }
}

/// Notifies a client whenever the document changes, until this is cancelled.
pub(super) fn send_updates(
    uri: String,
    changes: watch::Receiver<u64>,
    peer: Peer<RoleServer>,
    over: CancellationToken,
) {
    spawn_until(over, async move {
        let (peer, uri) = (&peer, &uri);
        let tell = || async {
            peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri.clone())).await.is_ok()
        };
        follow(Some(changes), tell).await;
    });
}

fn spawn_until(over: CancellationToken, telling: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(async move {
        tokio::select! {
            () = over.cancelled() => {}
            () = telling => {}
        }
    });
}

/// Notifies of each change, rate-limited, until the source or the receiver ends.
async fn follow<F: Future<Output = bool> + Send>(
    changes: Option<watch::Receiver<u64>>,
    tell: impl Fn() -> F + Send,
) {
    let Some(mut changes) = changes else { return };
    while changes.changed().await.is_ok() && tell().await {
        sleep(PACE).await;
    }
}
