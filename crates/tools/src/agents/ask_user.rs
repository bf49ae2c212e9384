//! `ask_user`: asks the person.

use std::time::Duration;

use kit::{prelude::*, services::Question};

use super::subagent::TIMEOUT;

/// Ask the person, and wait for the answer. For what only they can decide.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AskUser {
    /// One question.
    question: String,
    /// Answers to choose from; they may say something else.
    #[serde(default)]
    options: Vec<String>,
    /// Seconds to wait. Default: as long as it takes.
    within: Option<u32>,
}

impl Tool for AskUser {
    const NAME: &str = "ask_user";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(time_limit(self.within))
    }

    fn title(&self) -> String {
        self.question.lines().next().unwrap_or_default().to_owned()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        ask(self.question, self.options, self.within, cx).await
    }
}

/// Returns the time limit of a question with this waiting time.
pub(crate) fn time_limit(within: Option<u32>) -> Duration {
    within.map_or(TIMEOUT, |it| Duration::from_secs(it.into()))
}

/// Asks the person.
pub(crate) async fn ask(
    text: String,
    options: Vec<String>,
    within: Option<u32>,
    cx: &Cx,
) -> Result<Output, Fault> {
    if text.trim().is_empty() {
        return Err(Fault::bad_args("`question` is empty"));
    }
    let within = within.map(|it| Duration::from_secs(it.into()));
    cx.agents().ask(Question { text, options, within }, cx).await.map(Output::text)
}
