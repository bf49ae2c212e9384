//! Limits of sub-agents: steps, tokens and time, and how the end is reported.

use std::{sync::Arc, time::Duration};

use haft::runtime::config::SubagentSection;
use serde_json::json;

use super::support::{Fixture, Players, Wish, calls, says};

const SCOUT: (&str, &str) = (".haft/agents/scout.md", "---\ndescription: looks\n---\nSCOUT\n");

/// Returns the result that the parent reads of a scout that never ends by itself.
async fn ends(section: SubagentSection, arguments: serde_json::Value, wait: &str) -> String {
    let fixture = Fixture::new(&[SCOUT, ("a.txt", "one\n")]).await;
    let parent = calls(&[("subagent", arguments)]) + &says("ok");
    let step = format!(
        "{{\"say\": \"so far\", {wait}\"calls\": [{{\"tool\": \"read\", \"arguments\": {{\"path\": \"a.txt\"}}}}], \
         \"usage\": {{\"input\": 50, \"cached\": 0, \"kept\": 0, \"output\": 10, \"reasoning\": 0}}}}\n"
    );
    let model = Arc::new(Players::new(&[("THE FIRST", &parent), ("SCOUT", &step.repeat(30))]));
    let mut home = fixture.agent(model, Wish { section, ..Wish::default() });
    home.turn().await;
    home.answered("subagent")[0].clone()
}

fn call() -> serde_json::Value {
    json!({"prompt": "go", "profile": "scout"})
}

#[tokio::test]
async fn at_its_answers() {
    let section = SubagentSection { max_steps: Some(5), ..Default::default() };
    let said = ends(section, json!({"prompt": "go", "profile": "scout", "max_turns": 3}), "").await;
    assert!(
        said.contains("its 3 answers") && said.contains("(3 answers, 180 tokens") && said.contains("so far"),
        "{said}"
    );
    // The person's limit is the maximum.
    let section = SubagentSection { max_steps: Some(2), ..Default::default() };
    let said = ends(section, json!({"prompt": "go", "profile": "scout", "max_turns": 3}), "").await;
    assert!(said.contains("its 2 answers"), "{said}");
}

#[tokio::test]
async fn at_its_tokens() {
    let section = SubagentSection { tokens: Some(200), ..Default::default() };
    let said = ends(section, call(), "").await;
    assert!(said.contains("its 200 tokens") && said.contains("(4 answers, 240 tokens"), "{said}");
}

#[tokio::test]
async fn at_its_time() {
    let section = SubagentSection { seconds: Some(1), ..Default::default() };
    let began = std::time::Instant::now();
    let said = ends(section, call(), "\"after_ms\": 400, ").await;
    assert!(said.contains("its time of 1 s") && said.contains("so far"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(30));
}
