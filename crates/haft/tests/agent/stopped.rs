//! Stopped turns: they end at once, whatever their tools do.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use haft::agent::{
    Agent, Bounds, Ended, Settings, Silent,
    model::{Item, Piece, script::Script},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::support::TestWorkspace;

/// Far more than a turn may take to end, and far less than its commands would.
const GENEROUS: Duration = Duration::from_secs(10);

#[tokio::test]
async fn commands_that_ignore_every_signal_are_stopped_with_the_turn() {
    let test_ws = TestWorkspace::new();
    let stubborn =
        |name: &str| format!("trap '' TERM INT HUP; echo begun > {name}; while :; do sleep 1; done");
    let script = [
        json!({"say": "I start them.", "calls": [
            {"tool": "write", "arguments": {"path": "w", "content": "written\n"}},
            {"tool": "shell", "arguments": {"command": stubborn("one"), "wait_ms": 60_000, "allow_concurrent": true}},
            {"tool": "shell", "arguments": {"command": stubborn("two"), "wait_ms": 60_000, "allow_concurrent": true}},
        ], "end_ms": 600_000}),
        json!({"expect": ["The person stopped you here", "what now"], "say": "Nothing."}),
    ];
    let text: String = script.iter().map(|it| format!("{it}\n")).collect();
    let mut agent = Agent::open(Settings {
        session: test_ws.session(),
        model: Arc::new(Script::parse("script", &text).unwrap()),
        system: "".into(),
        bounds: Bounds::default(),
        visible: Default::default(),
        host: Arc::new(Silent),
    })
    .unwrap();
    let cancel = CancellationToken::new();
    let stop = async {
        while test_ws.text("one").is_empty() || test_ws.text("two").is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
        Instant::now()
    };
    let (outcome, stopped) = tokio::join!(agent.turn(Some("start them".to_owned()), &cancel), stop);
    assert!(stopped.elapsed() < GENEROUS, "{:?}", stopped.elapsed());
    let outcome = outcome.unwrap();
    assert_eq!((outcome.ended, outcome.text.as_str()), (Ended::Cancelled, "I start them."));
    let Some(Item::Results { results }) = agent.transcript().items().last() else { panic!() };
    assert_eq!(results.iter().map(|it| it.ok).collect::<Vec<_>>(), [true, false, false]);
    assert!(Piece::lines(&results[1].pieces).contains("stopped"), "{results:?}");
    let outcome = agent.turn(Some("what now".to_owned()), &CancellationToken::new()).await.unwrap();
    assert_eq!(outcome.text, "Nothing.");
    agent.session().end().await;
}
