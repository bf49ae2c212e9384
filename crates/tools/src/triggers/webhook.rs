//! `webhook`: begins a turn when a program posts a signed request.

use kit::prelude::*;
use serde::Serialize;

use super::{MAKES, add, touches};

/// Begin a turn of yours at each signed request to a URL of `haft mcp --http`. The answer has the URL and, once, the secret.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Webhook {
    /// Message that begins the turn.
    prompt: String,
    /// `github` (X-Hub-Signature-256) or `standard` (Standard Webhooks). Default: github.
    #[serde(skip_serializing_if = "Option::is_none")]
    scheme: Option<Scheme>,
    /// Name of the secret in the person's haft.toml; default: a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    /// Most seconds between a signed time and now. Default: 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    window_seconds: Option<u64>,
    /// Its id; default: a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Grants of its turns: `run cargo test`, `net HOST`, `write PATH`. Nobody is asked then; anything else that needs approval fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    grants: Vec<String>,
    /// Maximum fires a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_per_day: Option<u64>,
}

impl Tool for Webhook {
    const NAME: &str = "webhook";
    const AT_MOST: Kinds = MAKES;

    fn touches(&self) -> Touches {
        touches(Self::NAME, self)
    }

    fn title(&self) -> String {
        self.name.clone().unwrap_or_default()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        add(Self::NAME, &self, cx).await
    }
}

/// How requests are signed.
#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Scheme {
    Github,
    Standard,
}
