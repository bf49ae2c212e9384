//! `group_pause_node`: holds a member's next turn.

use kit::{
    prelude::*,
    services::{GroupAct, LifeChange},
};

use super::{GROUP, answer, required};

/// Pause an agent of your group: it begins no further turn, and its messages wait.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupPauseNode {
    /// Id of the agent, or its name if that is unique in your group.
    creature_id: String,
}

impl Tool for GroupPauseNode {
    const NAME: &str = "group_pause_node";
    const AT_MOST: Kinds = Kinds::SESSION;
    const ONLY_AMONG_AGENTS: bool = true;

    fn touches(&self) -> Touches {
        Touches::session(GROUP)
    }

    fn title(&self) -> String {
        self.creature_id.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let member = required("creature_id", &self.creature_id)?;
        answer(cx, GroupAct::Life { member, change: LifeChange::Pause }).await
    }
}
