//! `explore`: KohakuTerrarium's sub-agent of that name.

use std::time::Duration;

use kit::{prelude::*, services::Task};

use crate::agents::{DELEGATED, report, subagent::TIMEOUT};

/// Have an agent search the workspace and answer a question; it changes nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Explore {
    /// The whole task: it sees nothing of this conversation.
    task: String,
}

impl Tool for Explore {
    const NAME: &str = "explore";
    const AT_MOST: Kinds = DELEGATED;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(TIMEOUT)
    }

    fn title(&self) -> String {
        self.task.lines().next().unwrap_or_default().to_owned()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let task = Task { profile: Some("explore".to_owned()), prompt: self.task, ..Task::default() };
        Ok(report::whole(&cx.agents().delegate(task, cx).await?))
    }
}
