//! navi's `test_tool`: tries a tool.

use std::time::Duration;

use kit::prelude::*;
use serde_json::{Map, Value};

use crate::toolsmith::{LONGEST, TRIED, Try};

/// Run a tool and verify its output.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TestTool {
    /// The tool's name.
    tool_name: String,
    /// The parameters to run it with.
    #[serde(default)]
    params: Map<String, Value>,
}

impl Tool for TestTool {
    const NAME: &str = "test_tool";
    const STANDS_FOR: &'static [StandsFor] =
        &[StandsFor::tool("test_tool").naming(&[("name", "tool_name"), ("arguments", "params")])];
    const AT_MOST: Kinds = TRIED;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(LONGEST)
    }

    fn title(&self) -> String {
        self.tool_name.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        Try { name: self.tool_name, arguments: self.params }.run(cx, Self::NAME).await
    }
}
