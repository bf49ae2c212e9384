//! `mcp_connect`: connects to a server, or adds one.

use std::time::Duration;

use kit::{prelude::*, services::NewServer};

use super::{standing, starts};

/// Fetching a server for the first time may take long.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Start an MCP server now. With `command` or `url`, a new one for this session, which a person has to approve.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpConnect {
    /// Its name.
    server: String,
    /// Program and arguments of a new one.
    #[serde(default)]
    command: Vec<String>,
    /// Address of a new one.
    url: Option<String>,
}

impl McpConnect {
    fn is_new(&self) -> bool {
        !self.command.is_empty() || self.url.is_some()
    }
}

impl Tool for McpConnect {
    const NAME: &str = "mcp_connect";
    const AT_MOST: Kinds = Kinds::RUN.with(Kinds::NET).with(Kinds::SESSION);

    fn touches(&self) -> Touches {
        if !self.is_new() {
            return starts(&self.server);
        }
        let what = self.url.clone().unwrap_or_else(|| self.command.join(" "));
        Touches::none().and(Touch::Server { name: format!("{}: {what}", self.server), reads: false })
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(TIMEOUT)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.check()?;
        let connected = if self.is_new() {
            if self.url.is_some() && !self.command.is_empty() {
                return Err(Fault::bad_args("`command` and `url` are both given").next("Give one of them."));
            }
            if self.url.as_ref().is_some_and(|it| !it.starts_with("http://") && !it.starts_with("https://")) {
                return Err(Fault::bad_args("`url` is not an http address"));
            }
            let name = self.server;
            let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
            if name.is_empty() || name.len() > 40 || !name.chars().all(is_word) {
                return Err(Fault::bad_args(format!("`{name}` can't be the name of a server"))
                    .next("A name has 1 to 40 letters, digits, `_` or `-`."));
            }
            cx.servers().add(NewServer { name, command: self.command, url: self.url }).await?
        } else {
            cx.servers().connect(&self.server).await?
        };
        Ok(Output::text(standing(&connected)))
    }
}
