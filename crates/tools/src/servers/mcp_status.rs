//! `mcp_status`: shows the state of the servers.

use std::time::Duration;

use kit::{
    prelude::*,
    services::{Listed, ServerInfo},
};

use super::{mcp_list::tools_of, standing, starts};

/// Fetching a server for the first time may take long.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Check the MCP servers and list their tools. Starts those whose tools are not known yet; with `server`, that one.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpStatus {
    /// Only this one.
    server: Option<String>,
}

impl Tool for McpStatus {
    const NAME: &str = "mcp_status";
    const AT_MOST: Kinds = Kinds::SESSION;

    fn touches(&self) -> Touches {
        self.server.as_deref().map_or_else(Touches::none, starts)
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(TIMEOUT)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.check()?;
        let Some(name) = &self.server else {
            let servers = cx.servers().checked().await;
            if servers.is_empty() {
                return Ok(Output::text("no MCP servers are configured"));
            }
            let listed = cx.tools().list();
            let lines: Vec<String> = servers.iter().map(|it| whole(&listed, it)).collect();
            return Ok(Output::text(lines.join("\n")));
        };
        let connected = cx.servers().connect(name).await;
        let listed = cx.tools().list();
        match (connected, cx.servers().list().iter().find(|it| it.name == *name)) {
            (Ok(it), _) => Ok(Output::text(whole(&listed, &it))),
            // Its status explains why it did not answer.
            (Err(fault), Some(it)) => Err(fault.seen(Output::text(whole(&listed, it)))),
            (Err(fault), None) => Err(fault),
        }
    }
}

/// Formats a server's status, and the names of its tools.
fn whole(listed: &Listed, server: &ServerInfo) -> String {
    let tools = tools_of(listed, &server.name);
    let mut text = standing(server);
    if !tools.is_empty() {
        text.push_str(&format!("\n  tools: {}", tools.join(", ")));
    }
    text
}
