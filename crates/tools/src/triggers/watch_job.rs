//! `watch_job`: begins a turn when a job writes something or ends.

use kit::prelude::*;
use serde::Serialize;

use super::{MAKES, add, touches};

/// Begin a turn of yours, one time, when a job writes a line that matches `pattern`, or without one when it ends.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WatchJob {
    /// Such as job_3.
    job: String,
    /// Message that begins the turn.
    prompt: String,
    /// Regular expression for a line of its output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pattern: Option<String>,
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

impl Tool for WatchJob {
    const NAME: &str = "watch_job";
    const AT_MOST: Kinds = MAKES;

    fn touches(&self) -> Touches {
        touches(Self::NAME, self)
    }

    fn title(&self) -> String {
        self.job.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        add(Self::NAME, &self, cx).await
    }
}
