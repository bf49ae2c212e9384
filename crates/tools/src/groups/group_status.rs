//! `group_status`: the members, channels and wires of the group.

use kit::{prelude::*, services::GroupAct};

use super::{GROUP, answer};

/// Show your group: agents with their state, channels, output wires, and the configs that can be started.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupStatus {
    /// Whether each channel's newest messages are shown.
    #[serde(default)]
    include_history: bool,
    /// How many messages of each channel, with include_history.
    #[serde(default = "ten")]
    history_limit: usize,
    /// Whether configs that can be started are shown.
    #[serde(default = "yes")]
    include_spawnable: bool,
}

fn ten() -> usize {
    10
}

fn yes() -> bool {
    true
}

impl Tool for GroupStatus {
    const NAME: &str = "group_status";
    const AT_MOST: Kinds = Kinds::SESSION;
    const ONLY_AMONG_AGENTS: bool = true;

    fn touches(&self) -> Touches {
        Touches::session(GROUP)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let limit = if self.history_limit == 0 { ten() } else { self.history_limit };
        let history = self.include_history.then_some(limit);
        answer(cx, GroupAct::Status { history, spawnable: self.include_spawnable }).await
    }
}
