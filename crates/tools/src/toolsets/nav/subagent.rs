//! nav's `subagent`: runs a subagent by its id.

use std::time::Duration;

use kit::{prelude::*, services::Task};

use crate::agents::{DELEGATED, report, subagent::TIMEOUT};

/// Run a subagent with its own system prompt; its final reply is the result.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Subagent {
    /// Id of the subagent.
    agent: String,
    /// The task.
    prompt: String,
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
        self.agent.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let known = cx.blocking(|cx| Ok(cx.agents().profiles().known)).await?;
        let id = &self.agent;
        let profile = known.iter().find(|it| it.name == *id);
        if profile.is_none() && !known.is_empty() {
            let ids: Vec<&str> = known.iter().map(|it| it.name.as_str()).collect();
            return Err(Fault::not_found(format!(
                "Unknown subagent id \"{id}\". Loaded ids: {}",
                ids.join(", ")
            )));
        }
        let title = profile.map_or(id.as_str(), |it| it.title.as_str());
        let task = Task { profile: Some(id.clone()), prompt: self.prompt, ..Task::default() };
        match cx.agents().delegate(task, cx).await {
            Ok(report) => {
                let ended = match &report.ended {
                    kit::services::TaskEnd::Completed => "finished".to_owned(),
                    kit::services::TaskEnd::Limit(which) => format!("stopped at a limit, {which}"),
                };
                Ok(Output::text(format!(
                    "Subagent \"{title}\" ({id}) {ended}.\n\n{}",
                    report::message_and_notes(&report)
                )))
            }
            Err(fault) if fault.kind == Kind::Cancelled => {
                Err(Fault { what: "(subagent run aborted)".to_owned(), ..fault })
            }
            Err(fault) => Err(fault),
        }
    }
}
