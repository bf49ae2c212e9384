//! `group_stop_node`: stops a member, whose session stays.

use kit::{
    prelude::*,
    services::{GroupAct, LifeChange},
};

use super::{GROUP, answer, required};

/// Stop an agent of your group; its session stays and can be started again. Not for removing it [?: that is `tool:group_remove_node`?].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupStopNode {
    /// Id of the agent, or its name if that is unique in your group.
    creature_id: String,
}

impl Tool for GroupStopNode {
    const NAME: &str = "group_stop_node";
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
        answer(cx, GroupAct::Life { member, change: LifeChange::Stop }).await
    }
}
