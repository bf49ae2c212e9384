//! navi's `tool_manual`: shows a tool's manual.

use kit::prelude::*;

use crate::toolsmith::explain;

/// Show the manual of a tool: its author's, or one made from its schema.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolManual {
    /// The tool's name.
    name: String,
}

impl Tool for ToolManual {
    const NAME: &str = "tool_manual";
    const STANDS_FOR: &'static [StandsFor] = &[StandsFor::tool("info")];
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        explain(cx, &self.name, |tool| crate::manual_in("navi", tool)).await
    }
}
