//! KohakuTerrarium's `ask_user`: asks the person.

use std::time::Duration;

use kit::prelude::*;

use crate::agents::ask_user;

/// Ask the user and wait for the answer.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AskUser {
    /// The question.
    question: String,
    /// Answers to choose from.
    #[serde(default)]
    options: Vec<String>,
    /// An example of an answer.
    #[serde(default)]
    placeholder: String,
    /// Seconds to wait; 0 for as long as it takes.
    timeout_s: Option<u32>,
}

impl Tool for AskUser {
    const NAME: &str = "ask_user";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(ask_user::time_limit(self.within()))
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        if self.question.trim().is_empty() {
            return Err(Fault::bad_args("Question is required"));
        }
        let within = self.within();
        let question = match self.placeholder.trim() {
            "" => self.question,
            example => format!("{}\n(such as: {example})", self.question),
        };
        match ask_user::ask(question, self.options, within, cx).await {
            Ok(answer) if answer.as_text().trim().is_empty() => Ok(Output::text("(no response)")),
            Err(fault) if fault.kind == Kind::Timeout => Ok(Output::text("(no response within timeout)")),
            answered => answered,
        }
    }
}

impl AskUser {
    fn within(&self) -> Option<u32> {
        self.timeout_s.filter(|it| *it > 0)
    }
}
