//! navi's `tool_manual`: how is a tool used?

use kit::prelude::*;

use crate::toolsmith::explain;

/// The manual of a tool: what somebody wrote down, or what its schema says.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolManual {
    /// The tool's name.
    name: String,
}

impl Tool for ToolManual {
    const NAME: &str = "tool_manual";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        explain(cx, &self.name, manual).await
    }
}

/// The manuals of the tools that are the same under both names; others would tell of other arguments.
fn manual(tool: &str) -> Option<&'static str> {
    if tool == "write_tool" { crate::manual(tool) } else { None }
}
