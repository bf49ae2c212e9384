//! `reflect`: three other opinions on where the work stands.

use std::time::Duration;

use kit::prelude::*;

/// Each opinion is one response of a model.
const TIMEOUT: Duration = Duration::from_secs(300);

const CRITIC: &str = "You are the critic. You are shown where somebody's work stands. Say what is most likely wrong: which assumption \
    does not hold and how to test it, what the evidence does not show. At most five sentences, no praise.";
const PRAGMATIST: &str = "You are the pragmatist. You are shown where somebody's work stands. Say what to do next: the smallest step \
    that brings them on or shows that they are on the wrong way, and what to leave alone. At most five sentences.";
const DETAILER: &str = "You are the one who reads closely. You are shown where somebody's work stands. Say which detail was passed \
    over: a word in a message, a case, a number, a file that nobody looked at. At most five sentences, only what the text bears out.";

/// Get three opinions on where you stand: a critic's, a pragmatist's, one on details. For when you are stuck, or before
/// something that can't be undone.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reflect {
    /// Where you stand: the aim, and what you see.
    situation: String,
    /// Your assumptions.
    assumptions: String,
    /// Your attempts, and their results.
    tried: Option<String>,
}

impl Tool for Reflect {
    const NAME: &str = "reflect";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(TIMEOUT)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let mut prompt = format!("Situation:\n{}\n\nAssumptions:\n{}", self.situation, self.assumptions);
        if let Some(tried) = &self.tried {
            prompt.push_str(&format!("\n\nTried:\n{tried}"));
        }
        let think = |voice| cx.agents().think(voice, &prompt);
        let all = async { tokio::join!(think(CRITIC), think(PRAGMATIST), think(DETAILER)) };
        let (critic, pragmatist, detailer) = tokio::select! {
            biased;
            () = cx.cancelled() => return Err(Fault::new(Kind::Cancelled, "the voices were stopped")),
            all = all => all,
        };
        if let (Err(_), Err(_), Err(_)) = (&critic, &pragmatist, &detailer) {
            return critic.map(Output::text);
        }
        let voices = [("Critic", critic), ("Pragmatist", pragmatist), ("Detailer", detailer)];
        let said = voices.map(|(name, said)| {
            let said =
                said.map_or_else(|fault| format!("(no answer: {})", fault.what), |it| it.trim().to_owned());
            format!("{name}:\n{said}")
        });
        Ok(Output::text(said.join("\n\n")))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::sync::Arc;

    use expect_test::expect;
    use kit::{
        services::{Agents, NoAgent, Profiles, Question, Report, Soon, Task},
        testing::TestWorkspace,
    };

    use serde_json::json;

    use super::*;

    /// Answers with the first words of its prompt.
    struct Echo;

    impl Agents for Echo {
        fn profiles(&self) -> Profiles {
            Profiles::default()
        }

        fn switch(&self, profile: &str) -> Result<String, Fault> {
            NoAgent.switch(profile)
        }

        fn delegate<'a>(&'a self, task: Task, cx: &'a Cx) -> Soon<'a, Result<Report, Fault>> {
            NoAgent.delegate(task, cx)
        }

        fn ask<'a>(&'a self, question: Question, cx: &'a Cx) -> Soon<'a, Result<String, Fault>> {
            NoAgent.ask(question, cx)
        }

        fn think<'a>(&'a self, system: &'a str, prompt: &'a str) -> Soon<'a, Result<String, Fault>> {
            Box::pin(async move {
                if system.starts_with("You are the pragmatist") {
                    return Err(Fault::new(Kind::Unavailable, "busy"));
                }
                Ok(format!(
                    "{} / {}",
                    system.split('.').next().unwrap_or_default(),
                    prompt.replace('\n', " ")
                ))
            })
        }
    }

    #[test]
    fn three_perspectives_answer_side_by_side_and_one_may_fail() {
        let mut test_ws = TestWorkspace::empty();
        test_ws.agents = Arc::new(Echo);
        let arguments = json!({"situation": "it hangs", "assumptions": "the lock is free"});
        let said = test_ws.call_any(&*kit::erase::<Reflect>(), &arguments).unwrap().as_text();
        expect![[r#"
            Critic:
            You are the critic / Situation: it hangs  Assumptions: the lock is free

            Pragmatist:
            (no answer: busy)

            Detailer:
            You are the one who reads closely / Situation: it hangs  Assumptions: the lock is free"#]]
        .assert_eq(&said);
    }
}
