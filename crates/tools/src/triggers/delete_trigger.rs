//! `delete_trigger`: removes a trigger.

use kit::prelude::*;

/// Remove a trigger.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteTrigger {
    /// Its id.
    trigger_id: String,
}

impl Tool for DeleteTrigger {
    const NAME: &str = "delete_trigger";
    // Removing is not harmless, though it needs no lock.
    const AT_MOST: Kinds = Kinds::SESSION.with(Kinds::EXCLUSIVE);

    fn touches(&self) -> Touches {
        Touches::session("triggers")
    }

    fn title(&self) -> String {
        self.trigger_id.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let id = self.trigger_id.trim();
        if cx.triggers().remove(id).await? {
            return Ok(Output::text(format!("Removed trigger: {id}")));
        }
        let all = cx.triggers().list().await?;
        let there = if all.is_empty() { "There is none.".to_owned() } else { all.join("\n") };
        Err(Fault::not_found(format!("Trigger not found: {id}")).next(there))
    }
}
