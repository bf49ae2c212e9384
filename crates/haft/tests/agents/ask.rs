//! Questions of agents to the person: each names the agent that asks.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
};

use haft::{
    agent::Asker,
    kit::{
        Fault,
        effect::Scope,
        services::{Question, Soon},
    },
    policy::Approve,
    runtime::{Approver, Request, Verdict},
};
use serde_json::json;

use super::support::{Fixture, Players, Wish, calls, says};

/// Answers with the last option, and says yes.
#[derive(Default)]
struct Kind {
    asked: Mutex<Vec<String>>,
}

impl Asker for Kind {
    fn ask(&self, question: Question) -> Soon<'_, Result<String, Fault>> {
        self.asked.lock().unwrap().push(question.text.clone());
        Box::pin(async move {
            match question.options.last() {
                Some(option) => Ok(option.clone()),
                None => std::future::pending().await,
            }
        })
    }
}

impl Approver for Kind {
    fn approve(&self, request: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        self.asked.lock().unwrap().push(format!("{:?} {}", request.agent, request.tool));
        Box::pin(std::future::ready(Verdict::Yes(Scope::Session)))
    }
}

#[tokio::test]
async fn the_person_answers_or_lets_it_pass_or_is_not_there() {
    let fixture = Fixture::new(&[]).await;
    let model = || Arc::new(Players::new(&[("", &says("x"))]));
    let home = fixture.agent(model(), Wish { person: Arc::new(Kind::default()), ..Wish::default() });
    let said = home.says("ask_user", json!({"question": "which?", "options": ["red", "blue"]})).await;
    assert_eq!(said, "blue");
    let said = home.says("ask_user", json!({"question": "and why?", "within": 1})).await;
    assert!(said.contains("nobody answered within 1 s"), "{said}");
    let home = fixture.agent(model(), Wish::default());
    assert!(home.says("ask_user", json!({"question": "which?"})).await.contains("nobody to ask"));
}

#[tokio::test]
async fn an_approval_names_the_agent_that_asks_and_holds_for_the_conversation() {
    let files = [(".haft/agents/scout.md", "---\ndescription: looks\n---\nSCOUT\n")];
    let fixture = Fixture::with(&files, Approve::Ask).await;
    let parent = calls(&[("subagent", json!({"prompt": "go", "profile": "scout"}))])
        + &calls(&[("edit", json!({"path": ".envrc", "edits": [{"old": "one", "new": "two"}]}))])
        + &says("ok");
    let child = calls(&[("write", json!({"path": ".envrc", "content": "one"}))]) + &says("done");
    let model = Arc::new(Players::new(&[("THE FIRST", &parent), ("SCOUT", &child)]));
    let person = Arc::new(Kind::default());
    let mut home = fixture.agent(model, Wish { approver: person.clone(), ..Wish::default() });
    home.turn().await;
    let asked = person.asked.lock().unwrap();
    assert_eq!(asked.len(), 1, "{asked:?}: what was allowed for the session is not asked again");
    assert!(asked[0].starts_with("Some(\"scout_") && asked[0].ends_with(" write"), "{asked:?}");
    assert_eq!(fixture.read(".envrc"), "two", "{:?}", home.answered("edit"));
}

/// Refuses what it is shown, and says what to do instead.
#[derive(Default)]
struct Reviewer {
    asked: Mutex<Vec<Request>>,
}

impl Approver for Reviewer {
    fn approve(&self, request: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        self.asked.lock().unwrap().push(request);
        Box::pin(std::future::ready(Verdict::Instead("keep it as it is".to_owned())))
    }
}

#[tokio::test]
async fn an_agent_below_asks_about_each_change_with_its_diff() {
    let files = [(".haft/agents/scout.md", "---\ndescription: looks\n---\nSCOUT\n"), ("a.txt", "one\n")];
    let fixture = Fixture::with(&files, Approve::AskEdits).await;
    let parent = calls(&[("subagent", json!({"prompt": "go", "profile": "scout"}))]) + &says("ok");
    let edit = json!({"path": "a.txt", "edits": [{"old": "one", "new": "two"}]});
    let child = calls(&[("edit", edit)]) + &says("done");
    let model = Arc::new(Players::new(&[("THE FIRST", &parent), ("SCOUT", &child)]));
    let person = Arc::new(Reviewer::default());
    let mut home = fixture.agent(model, Wish { approver: person.clone(), ..Wish::default() });
    home.turn().await;
    let asked = person.asked.lock().unwrap();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].agent.as_ref().unwrap().starts_with("scout_"), "{asked:?}");
    assert!(asked[0].changes[0].diff.ends_with("\n-one\n+two\n"), "{asked:?}");
    let said = home.answered_below("edit");
    assert!(said[0].contains("the person said no: keep it as it is"), "{said:?}");
    assert_eq!(fixture.read("a.txt"), "one\n");
}

#[tokio::test]
async fn reflect_asks_three_critics() {
    let fixture = Fixture::new(&[]).await;
    let model = Arc::new(Players::new(&[
        ("You are the critic", &says("wrong")),
        ("You are the pragmatist", &says("do this")),
        ("You are the one who reads closely", &says("look there")),
    ]));
    let home = fixture.agent(model, Wish::default());
    let said = home.says("reflect", json!({"situation": "stuck", "assumptions": "none"})).await;
    assert_eq!(said, "Critic:\nwrong\n\nPragmatist:\ndo this\n\nDetailer:\nlook there");
}
