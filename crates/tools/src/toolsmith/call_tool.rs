//! `call_tool`: calls a tool that is not listed.

use std::time::Duration;

use kit::{Part, prelude::*};
use serde_json::{Map, Value};

use super::test_tool::{LONGEST, TRIED};

/// Call a tool by name, listed or not. The answer is that tool's own.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallTool {
    /// The tool.
    name: String,
    /// Its arguments.
    #[serde(default)]
    arguments: Map<String, Value>,
}

impl Tool for CallTool {
    const NAME: &str = "call_tool";
    const AT_MOST: Kinds = TRIED;

    // The call is one of its own, with its own rules and locks. Locks held here would block it for ever.
    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(LONGEST)
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.check()?;
        if self.name == Self::NAME {
            return Err(Fault::bad_args("`call_tool` can't call itself").next("Name the tool that is meant."));
        }
        let called = cx.tools().call(&self.name, Value::Object(self.arguments)).await;
        let notes = called.notes.into_iter().map(|note| format!("note: {note}"));
        match called.result {
            Ok(mut output) => {
                output.parts.extend(notes.map(|text| Part::Text { text }));
                // It was truncated already.
                output.paged = true;
                Ok(output)
            }
            Err(fault) => {
                let next: Vec<String> = fault.next.clone().into_iter().chain(notes).collect();
                Err(if next.is_empty() { fault } else { fault.next(next.join("\n")) })
            }
        }
    }
}
