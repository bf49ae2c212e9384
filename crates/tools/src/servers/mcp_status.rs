//! `mcp_status`: how do things stand with the MCP servers?

use kit::prelude::*;

use super::standing;

/// Status of the MCP servers, one line each. Starts none.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpStatus {
    /// Only this one.
    server: Option<String>,
}

impl Tool for McpStatus {
    const NAME: &str = "mcp_status";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.check()?;
        let servers = cx.servers().list();
        let Some(name) = &self.server else {
            if servers.is_empty() {
                return Ok(Output::text("no MCP servers are configured"));
            }
            return Ok(Output::text(servers.iter().map(standing).collect::<Vec<_>>().join("\n")));
        };
        match servers.iter().find(|it| it.name == *name) {
            Some(it) => Ok(Output::text(standing(it))),
            None => {
                let names: Vec<&str> = servers.iter().map(|it| it.name.as_str()).collect();
                Err(Fault::not_found(format!("there is no server `{name}`"))
                    .next(format!("The servers are: {}.", names.join(", "))))
            }
        }
    }
}
