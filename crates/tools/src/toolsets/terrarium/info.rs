//! `info` as KohakuTerrarium has it: the documentation of a tool.

use kit::prelude::*;

use crate::toolsmith::explain;

/// Show the documentation of a tool.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Info {
    /// The tool's name.
    #[serde(alias = "tool_name")]
    name: String,
}

impl Tool for Info {
    const NAME: &str = "info";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        explain(cx, &self.name, |tool| crate::manual_in("terrarium", tool)).await.map_err(|fault| match fault
            .kind
        {
            Kind::NotFound => {
                let what = format!("No documentation found for '{}'.", self.name);
                Fault { what, ..fault }
            }
            _ => fault,
        })
    }
}
