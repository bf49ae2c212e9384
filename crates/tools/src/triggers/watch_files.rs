//! `watch_files`: begins a turn when files change.

use kit::prelude::*;
use serde::Serialize;

use super::{MAKES, add, touches};

/// Begin a turn of yours when files of the workspace change. Ignored files do not count; changes that follow each other come together.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WatchFiles {
    /// Files, relative to the workspace, such as `src/**/*.rs`.
    glob: Vec<String>,
    /// Message that begins the turn.
    prompt: String,
    /// Milliseconds without a change before it fires. Default: 500.
    #[serde(skip_serializing_if = "Option::is_none")]
    debounce_ms: Option<u64>,
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

impl Tool for WatchFiles {
    const NAME: &str = "watch_files";
    const AT_MOST: Kinds = MAKES;

    fn touches(&self) -> Touches {
        touches(Self::NAME, self)
    }

    fn title(&self) -> String {
        self.glob.join(", ")
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        add(Self::NAME, &self, cx).await
    }
}
