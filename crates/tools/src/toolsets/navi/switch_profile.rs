//! navi-1's `switch_profile`: switches to another profile.

use kit::prelude::*;

use crate::agents::switch_profile::switch;

/// Switch the active profile; it holds from your next answer on.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SwitchProfile {
    /// The profile[?; `tool:list_profiles` shows them?].
    profile_id: String,
}

impl Tool for SwitchProfile {
    const NAME: &str = "switch_profile";
    const AT_MOST: Kinds = Kinds::SESSION;

    fn touches(&self) -> Touches {
        Touches::session("profile")
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        switch(self.profile_id, cx).await
    }
}
