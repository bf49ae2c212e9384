//! `mcp_list`: lists the tools of a server.

use kit::{Origin, prelude::*, services::Listed};
use serde_json::json;

use super::starts;

/// List the tools of an MCP server with their schemas, ready to call; without `server`, the names of all.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpList {
    /// Started if its tools are not known yet.
    server: Option<String>,
}

impl Tool for McpList {
    const NAME: &str = "mcp_list";
    const AT_MOST: Kinds = Kinds::SESSION;

    fn touches(&self) -> Touches {
        self.server.as_deref().map_or_else(Touches::none, starts)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.check()?;
        let Some(server) = &self.server else { return Ok(Output::text(names(cx))) };
        let tools = cx.servers().tools(server).await?;
        if tools.is_empty() {
            return Ok(Output::text(format!(
                "`{server}` has no tools that can be called; mcp_status says more"
            )));
        }
        let line = |it: &kit::Spec| {
            json!({"name": it.name, "description": it.description, "inputSchema": it.schema}).to_string()
        };
        Ok(Output::text(tools.iter().map(line).collect::<Vec<_>>().join("\n")))
    }
}

/// Returns the names of a server's tools among those of the session.
pub(super) fn tools_of<'a>(listed: &'a Listed, server: &str) -> Vec<&'a str> {
    let of_it = |it: &&kit::Spec| matches!(&it.origin, Origin::Server(name) if name == server);
    listed.tools.iter().filter(of_it).map(|it| it.name.as_str()).collect()
}

/// Lists each server with the names of its tools.
fn names(cx: &Cx) -> String {
    let (servers, listed) = (cx.servers().list(), cx.tools().list());
    let lines = servers.iter().map(|server| {
        let tools = tools_of(&listed, &server.name);
        match (server.tools, tools.as_slice()) {
            (None, _) => format!("{}: not known yet; give `server` to start it", server.name),
            (Some(_), []) => format!("{}: none", server.name),
            (Some(_), tools) => format!("{}: {}", server.name, tools.join(", ")),
        }
    });
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { "no MCP servers are configured".to_owned() } else { lines.join("\n") }
}
