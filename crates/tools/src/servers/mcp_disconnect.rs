//! `mcp_disconnect`: ends the connection to a server.

use kit::prelude::*;

/// Stop an MCP server. The next call of one of its tools restarts it, unless mcp_connect added it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpDisconnect {
    /// Its name.
    server: String,
}

impl Tool for McpDisconnect {
    const NAME: &str = "mcp_disconnect";
    const AT_MOST: Kinds = Kinds::SESSION;

    fn touches(&self) -> Touches {
        Touches::session("mcp")
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.check()?;
        let was_there = cx.servers().disconnect(&self.server).await?;
        let how = if was_there { "ended" } else { "did not run" };
        Ok(Output::text(format!("{}: {how}", self.server)))
    }
}
