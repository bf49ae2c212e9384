//! `group_add_node`: adds an agent to the group.

use kit::{
    prelude::*,
    services::{GroupAct, NewNode},
};

use super::{GROUP, answer, optional, required};

/// Start an agent in your group, without a task and without channels.
/// [?A single job for you alone is for `tool:subagent`.?]
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupAddNode {
    /// Config of the agent: a folder, `@package/creatures/NAME`, or the name of a profile.
    config_path: String,
    /// Its name. Default: that of the config.
    name: Option<String>,
    /// Its model. Default: the config's, else yours.
    llm: Option<String>,
    /// Its folder. Default: yours.
    pwd: Option<String>,
}

impl Tool for GroupAddNode {
    const NAME: &str = "group_add_node";
    const AT_MOST: Kinds = Kinds::SESSION;
    const ONLY_AMONG_AGENTS: bool = true;

    fn touches(&self) -> Touches {
        Touches::session(GROUP)
    }

    fn title(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.config_path.clone())
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let node = NewNode {
            config: required("config_path", &self.config_path)?,
            name: optional(self.name),
            model: optional(self.llm),
            pwd: optional(self.pwd),
            ..NewNode::default()
        };
        answer(cx, GroupAct::Add(node)).await
    }
}
