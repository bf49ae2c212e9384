//! `mcp_call`: calls a tool of a server.

use kit::prelude::*;
use serde_json::{Map, Value};

use super::starts;
use crate::toolsmith::TRIED;

/// Call a tool of an MCP server by the server's own name for it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpCall {
    /// The server.
    server: String,
    /// The tool.
    name: String,
    /// Its arguments.
    #[serde(default)]
    arguments: Map<String, Value>,
}

impl Tool for McpCall {
    const NAME: &str = "mcp_call";
    const AT_MOST: Kinds = TRIED;

    // The called tool's own touches are approved in its own call.
    fn touches(&self) -> Touches {
        starts(&self.server)
    }

    fn title(&self) -> String {
        crate::shell::title(&format!("{} {}", self.server, self.name))
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.check()?;
        let name = cx.servers().name_of(&self.server, &self.name).await?;
        let called = cx.tools().call(&name, Value::Object(self.arguments)).await;
        let mut output = called.result?;
        output.parts.extend(called.notes.iter().map(|it| kit::Part::Text { text: format!("note: {it}") }));
        Ok(output)
    }
}
