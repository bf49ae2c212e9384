//! `list_triggers`: the triggers of the session.

use kit::prelude::*;

/// List your triggers: what each waits for, its state, when it fires next.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListTriggers {}

impl Tool for ListTriggers {
    const NAME: &str = "list_triggers";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let all = cx.triggers().list().await?;
        Ok(Output::text(if all.is_empty() { "no triggers".to_owned() } else { all.join("\n") }))
    }
}
