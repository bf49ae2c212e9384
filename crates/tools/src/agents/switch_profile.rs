//! `switch_profile`: go on as another agent.

use kit::prelude::*;

/// Switch to another profile, from your next answer on: its prompt, model and tools.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SwitchProfile {
    /// The profile[?; `tool:list_profiles` shows them?].
    profile: String,
}

impl Tool for SwitchProfile {
    const NAME: &str = "switch_profile";
    const AT_MOST: Kinds = Kinds::SESSION;

    fn touches(&self) -> Touches {
        Touches::session("profile")
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        switch(self.profile, cx).await
    }
}

/// Switches to this profile.
pub(crate) async fn switch(profile: String, cx: &Cx) -> Result<Output, Fault> {
    cx.blocking(move |cx| cx.agents().switch(&profile)).await.map(Output::text)
}
