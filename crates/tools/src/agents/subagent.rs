//! `subagent`: have another agent do a task.

use std::time::Duration;

use kit::{prelude::*, services::Task};

use super::{DELEGATED, report};

/// A subagent has a time limit of its own, which is shorter unless a person configures it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(3600);

/// Have another agent do one task on its own; its last answer is the result. Those called together work at the same
/// time; with `run_in_background: true` the call answers at once with a job id.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Subagent {
    /// The whole task: it sees nothing of this conversation.
    prompt: String,
    /// Profile it works under, such as `explore`[?; `tool:list_profiles` shows them?]. Default: yours.
    profile: Option<String>,
    /// Maximum model responses.
    max_turns: Option<usize>,
    /// Labels of a worker on another machine, such as `gpu`; it gets a copy of the workspace, and its changes land here.
    on: Option<String>,
}

impl Tool for Subagent {
    const NAME: &str = "subagent";
    const AT_MOST: Kinds = DELEGATED;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(TIMEOUT)
    }

    fn title(&self) -> String {
        self.prompt.lines().next().unwrap_or_default().to_owned()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let task = Task {
            profile: self.profile,
            prompt: self.prompt,
            steps: self.max_turns,
            on: self.on,
            ..Task::default()
        };
        Ok(report::whole(&cx.agents().delegate(task, cx).await?))
    }
}
