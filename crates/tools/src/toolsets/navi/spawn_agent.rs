//! navi-1's `spawn_agent`: runs a subagent.

use std::time::Duration;

use kit::{
    prelude::*,
    services::{Task, TaskEnd},
};

use crate::agents::{DELEGATED, report, subagent::TIMEOUT};

/// Time limit of a subagent of navi-1.
const TIME: Duration = Duration::from_secs(300);

/// Spawn an isolated subagent and wait for its result.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SpawnAgent {
    /// The whole task: it sees nothing of this conversation.
    task: String,
    /// Background that it should know.
    briefing: Option<String>,
    /// Its profile. Default: yours.
    profile_id: Option<String>,
    /// A system prompt of its own.
    system_prompt: Option<String>,
    /// Keep the profile's prompt before `system_prompt`.
    #[serde(default)]
    inherit_system_prompt: bool,
    /// Maximum model responses. Default: 40.
    max_iterations: Option<usize>,
}

impl Tool for SpawnAgent {
    const NAME: &str = "spawn_agent";
    const STANDS_FOR: &'static [StandsFor] =
        &[StandsFor::tool("subagent").naming(&[("task", "task"), ("profile", "profile_id")])];
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
        let task = Task {
            profile: self.profile_id,
            prompt: self.task,
            briefing: self.briefing,
            system: self.system_prompt,
            keep_system: self.inherit_system_prompt,
            steps: self.max_iterations,
            time: Some(TIME),
            tokens: None,
            on: None,
        };
        let report = cx.agents().delegate(task, cx).await?;
        let status = match report.ended {
            TaskEnd::Completed => "completed",
            TaskEnd::Limit(_) => "limit_reached",
        };
        Ok(Output::text(format!("[STATUS: {status}]\n{}", report::message_and_notes(&report))))
    }
}
