//! Detection of the transport of 2024-11-05, which haft does not support.

use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use kit::{Fault, Kind};
use reqwest::{Client, Url};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::time::timeout;

/// Limits for the first event, which names the endpoint: time, and bytes.
const AT_ONCE: Duration = Duration::from_secs(3);
const FEW: usize = 4 << 10;

/// Returns whether the server's stream begins with an `endpoint` event.
pub(super) async fn speaks(client: &Client, url: &Url, config: &StreamableHttpClientTransportConfig) -> bool {
    let asked = async {
        let mut request = client.get(url.clone()).header(ACCEPT, "text/event-stream");
        for (name, value) in &config.custom_headers {
            request = request.header(name, value);
        }
        if let Some(token) = &config.auth_header {
            request = request.bearer_auth(token);
        }
        let mut response = request.send().await.ok()?;
        let kind = response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
        if !response.status().is_success() || !kind.starts_with("text/event-stream") {
            return None;
        }
        let mut head = Vec::new();
        while head.len() < FEW && !head.windows(2).any(|it| it == b"\n\n") {
            head.extend_from_slice(&response.chunk().await.ok()??);
        }
        Some(String::from_utf8_lossy(&head).lines().any(|line| line.trim_end() == "event: endpoint"))
    };
    matches!(timeout(AT_ONCE, asked).await, Ok(Some(true)))
}

/// Returns the fault for such a server.
pub(super) fn fault(name: &str) -> Fault {
    let what = format!(
        "the server `{name}` speaks HTTP+SSE, the transport of 2024-11-05, which haft does not support"
    );
    Fault::new(Kind::Unavailable, what)
        .next("Most such servers have a newer address beside it, often `/mcp` in place of `/sse`.")
}
