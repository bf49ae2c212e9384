//! `group_start_node`: starts a stopped member again.

use kit::{
    prelude::*,
    services::{GroupAct, LifeChange},
};

use super::{GROUP, answer, required};

/// Start a stopped agent of your group again. Not for a new one [?: that is `tool:group_spawn_child`?].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupStartNode {
    /// Id of the agent, or its name if that is unique in your group.
    creature_id: String,
}

impl Tool for GroupStartNode {
    const NAME: &str = "group_start_node";
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
        answer(cx, GroupAct::Life { member, change: LifeChange::Start }).await
    }
}
