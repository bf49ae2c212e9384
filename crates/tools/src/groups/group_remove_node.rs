//! `group_remove_node`: removes a member of the group.

use kit::{
    prelude::*,
    services::{GroupAct, LifeChange},
};

use super::{GROUP, answer, required};

/// Remove an agent from your group for good; the group may split. Not for a pause [?: that is `tool:group_pause_node`?].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupRemoveNode {
    /// Id of the agent, or its name if that is unique in your group.
    creature_id: String,
}

impl Tool for GroupRemoveNode {
    const NAME: &str = "group_remove_node";
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
        answer(cx, GroupAct::Life { member, change: LifeChange::Remove }).await
    }
}
