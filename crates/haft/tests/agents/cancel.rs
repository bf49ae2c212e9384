//! Cancellation: it reaches every agent and job below.

use std::{sync::Arc, time::Duration};

use haft::{
    agent::Ended,
    runtime::{Call, config::SubagentSection},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::support::{Fixture, HANG, Players, Wish, calls, says, until};

const SCOUT: (&str, &str) = (".haft/agents/scout.md", "---\ndescription: looks\n---\nSCOUT\n");
const DEEP: (&str, &str) = (".haft/agents/deep.md", "---\ndescription: looks\n---\nDEEP\n");

#[tokio::test]
async fn cancelled_call_ends_all_agents_below() {
    let fixture = Fixture::new(&[SCOUT, DEEP]).await;
    let scout = calls(&[
        ("shell", json!({"command": "touch job; sleep 1000", "run_in_background": true})),
        ("subagent", json!({"prompt": "deeper", "profile": "deep"})),
    ]) + &says("never");
    let deep = calls(&[(
        "bash",
        json!({"command": "touch begun; sleep 1000 & sleep 1000", "allow_concurrent": true}),
    )]);
    let model = Arc::new(Players::new(&[("SCOUT", &scout), ("DEEP", &deep)]));
    let section = SubagentSection { nested: Some(true), ..Default::default() };
    let home = fixture.agent(model, Wish { section, ..Wish::default() });
    let call = Call::new("subagent", json!({"prompt": "go", "profile": "scout"}));
    let cancel = call.cancel.clone();
    let stopping = async {
        until(|| fixture.path("begun").exists() && fixture.path("job").exists()).await;
        assert!(fixture.processes() > 0);
        cancel.cancel();
        std::time::Instant::now()
    };
    let both = async { tokio::join!(home.session().call(call), stopping) };
    let (answer, stopped) = tokio::time::timeout(HANG, both).await.unwrap();
    assert_eq!(answer.result.unwrap_err().kind, haft::kit::Kind::Cancelled);
    // A generous bound: on a busy machine the promised 200 ms are not ours alone.
    assert!(stopped.elapsed() < Duration::from_secs(10));
    until(|| fixture.processes() == 0).await;
}

#[tokio::test]
async fn a_stopped_turn_leaves_a_conversation_that_can_go_on() {
    let fixture = Fixture::new(&[SCOUT]).await;
    let parent = calls(&[("subagent", json!({"prompt": "go", "profile": "scout"}))]) + &says("went on");
    let scout = calls(&[("bash", json!({"command": "touch begun; sleep 1000"}))]);
    let model = Arc::new(Players::new(&[("THE FIRST", &parent), ("SCOUT", &scout)]));
    let mut home = fixture.agent(model, Wish::default());
    let cancel = CancellationToken::new();
    let stopping = async {
        until(|| fixture.path("begun").exists()).await;
        cancel.cancel();
    };
    let both = async { tokio::join!(home.agent.turn(Some("begin".to_owned()), &cancel), stopping) };
    let (outcome, ()) = tokio::time::timeout(HANG, both).await.unwrap();
    assert_eq!(outcome.unwrap().ended, Ended::Cancelled);
    until(|| fixture.processes() == 0).await;
    assert_eq!(home.turn().await.text, "went on");
}

#[tokio::test]
async fn jobs_of_an_agent_end_with_it_and_are_reported() {
    let fixture = Fixture::new(&[SCOUT]).await;
    let parent = calls(&[("subagent", json!({"prompt": "go", "profile": "scout"}))]) + &says("ok");
    let scout = calls(&[("shell", json!({"command": "sleep 1000", "wait_ms": 50}))]) + &says("left one");
    let model = Arc::new(Players::new(&[("THE FIRST", &parent), ("SCOUT", &scout)]));
    let mut home = fixture.agent(model, Wish::default());
    home.turn().await;
    let said = &home.answered("subagent")[0];
    assert!(said.contains("left one") && said.contains("stopped with it: job_1"), "{said}");
    until(|| fixture.processes() == 0).await;
}
