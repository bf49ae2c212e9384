//! `show_card` as KohakuTerrarium has it: a card with actions is a question with answers to choose from.

use std::time::Duration;

use kit::prelude::*;

use crate::agents::ask_user;

/// Show the user a card, and wait for the action that they choose.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShowCard {
    /// Its title.
    title: String,
    /// What it says.
    #[serde(default)]
    body: String,
    /// Ids of the actions to choose from.
    #[serde(default)]
    actions: Vec<String>,
    /// Seconds to wait; 0 for as long as it takes.
    timeout_s: Option<u32>,
}

impl Tool for ShowCard {
    const NAME: &str = "show_card";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn patience(&self) -> Option<Duration> {
        Some(ask_user::patience(self.within()))
    }

    fn title(&self) -> String {
        self.title.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        if self.actions.is_empty() {
            return Err(Fault::new(
                Kind::Unavailable,
                "there is no page here to show a card without actions on",
            )
            .next("Say it in your answer, or give `actions` to choose from."));
        }
        let within = self.within();
        let text = [self.title.as_str(), self.body.as_str()].join("\n");
        match ask_user::ask(text.trim().to_owned(), self.actions, within, cx).await {
            Ok(action) => Ok(Output::text(format!("action: {}", action.as_text()))),
            Err(fault) if fault.kind == Kind::Timeout => Ok(Output::text("card timed out without reply")),
            Err(fault) => Err(fault),
        }
    }
}

impl ShowCard {
    fn within(&self) -> Option<u32> {
        self.timeout_s.filter(|it| *it > 0)
    }
}
