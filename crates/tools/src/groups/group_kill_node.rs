//! `group_kill_node`: ends a member with everything it started.

use kit::{
    prelude::*,
    services::{GroupAct, LifeChange},
};

use super::{GROUP, answer, required};

/// Kill an agent of your group: its turn, its commands and everything it started end at once. Its session stays.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupKillNode {
    /// Id of the agent, or its name if that is unique in your group.
    creature_id: String,
}

impl Tool for GroupKillNode {
    const NAME: &str = "group_kill_node";
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
        answer(cx, GroupAct::Life { member, change: LifeChange::Kill }).await
    }
}
