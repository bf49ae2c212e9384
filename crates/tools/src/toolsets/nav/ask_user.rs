//! nav's `ask_user`: questions to the person while a plan is made, one after the other.

use std::time::Duration;

use kit::prelude::*;

use crate::agents::{ask_user::ask, subagent::TIMEOUT};

/// Maximum number of questions in one call.
const MOST: usize = 20;

/// Ask the person questions, one after the other, and wait for the answers. For what only they can decide.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AskUser {
    /// The questions, in order.
    questions: Vec<String>,
}

impl Tool for AskUser {
    const NAME: &str = "ask_user";
    const AT_MOST: Kinds = Kinds::NONE;
    const ONLY_IN_PLAN_MODE: bool = true;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(TIMEOUT)
    }

    fn title(&self) -> String {
        self.questions.first().and_then(|it| it.lines().next()).unwrap_or_default().to_owned()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let count = self.questions.len();
        if count == 0 || count > MOST {
            return Err(Fault::bad_args(format!("`questions` has {count} questions; 1 to {MOST} are asked")));
        }
        if let Some(at) = self.questions.iter().position(|it| it.trim().is_empty()) {
            return Err(Fault::bad_args(format!("`questions[{at}]` is empty; nothing was asked")));
        }
        let mut answered: Vec<String> = Vec::new();
        for question in self.questions {
            match ask(question.clone(), Vec::new(), None, cx).await {
                Ok(answer) => answered.push(format!("Q: {question}\nA: {}", answer.as_text())),
                // The person need not answer a question twice.
                Err(fault) if !answered.is_empty() => {
                    return Err(fault.seen(Output::text(answered.join("\n\n"))));
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(Output::text(answered.join("\n\n")))
    }
}
