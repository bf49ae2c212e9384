//! `group_spawn_child`: adds an agent to the group and gives it its first task.

use kit::{
    prelude::*,
    services::{GroupAct, NewNode},
};

use super::{GROUP, answer, optional, required};

/// Add an agent and hand over its first job; later messages reach it[? by `tool:group_send`?].
/// [?A single job for you alone is for `tool:subagent`.?]
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupSpawnChild {
    /// Config of the agent: a folder, `@package/creatures/NAME`, or the name of a profile.
    config_ref: String,
    /// Its first task.
    task: Option<String>,
    /// Its name. Default: that of the config.
    name: Option<String>,
    /// Its model. Default: the config's, else yours.
    llm: Option<String>,
    /// Its folder. Default: yours.
    pwd: Option<String>,
}

impl Tool for GroupSpawnChild {
    const NAME: &str = "group_spawn_child";
    const AT_MOST: Kinds = Kinds::SESSION;
    const ONLY_AMONG_AGENTS: bool = true;

    fn touches(&self) -> Touches {
        Touches::session(GROUP)
    }

    fn title(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.config_ref.clone())
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let node = NewNode {
            config: required("config_ref", &self.config_ref)?,
            task: optional(self.task),
            name: optional(self.name),
            model: optional(self.llm),
            pwd: optional(self.pwd),
            says_delivered: true,
        };
        answer(cx, GroupAct::Add(node)).await
    }
}
