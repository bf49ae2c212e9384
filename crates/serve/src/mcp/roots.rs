//! Roots of a client: the folders that it works in.

use std::time::Duration;

use rmcp::{RoleServer, service::Peer};
use tokio::time::timeout;

use super::{LISTENING, McpServer};
use crate::backend::Backend;

/// Time limit for a client to report its roots; after that it is taken to work where haft was started.
const TIMEOUT: Duration = Duration::from_secs(1);

impl<H: Backend> McpServer<H> {
    /// Reports the roots of a client to the backend. From 2026-07-28 on no client sends them.
    pub(super) async fn meet(&self, peer: &Peer<RoleServer>) {
        let tells = peer.peer_info().is_some_and(|info| {
            info.capabilities.roots.is_some() && info.protocol_version.as_str() < LISTENING
        });
        if tells {
            self.backend.met(folders(peer)).await;
        }
    }
}

/// Returns the addresses of its folders; none if it does not report any.
#[expect(deprecated, reason = "clients of revisions until 2025-11-25 say it so")]
async fn folders(peer: &Peer<RoleServer>) -> Vec<String> {
    match timeout(TIMEOUT, peer.list_roots()).await {
        Ok(Ok(listed)) => listed.roots.into_iter().map(|root| root.uri).collect(),
        Ok(Err(error)) => {
            tracing::info!(%error, "the client does not say where it works");
            Vec::new()
        }
        Err(_) => {
            tracing::info!("the client does not say in time where it works");
            Vec::new()
        }
    }
}
