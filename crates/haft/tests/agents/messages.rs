//! Messages between an agent and the agents that it started.

use std::{sync::Arc, time::Duration};

use haft::agent::{Driver, Driving, Input, Settled};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::support::{Fixture, HANG, Home, Players, Wish, calls, python_tool, says};

async fn settled(home: &mut Home) -> Settled {
    let cancel = CancellationToken::new();
    let mut driver = Driver::new(Driving { wait: HANG, wakes: 20 });
    let settling = driver.settle(&mut home.agent, Some(Input::new("begin")), &cancel);
    tokio::time::timeout(HANG, settling).await.unwrap().unwrap()
}

/// Returns a tool that waits until a file is there.
fn hold(name: &str, file: &str) -> (String, String) {
    let body = format!(
        "import asyncio, os\nwhile not os.path.exists({file:?}):\n    await asyncio.sleep(0.01)\nreturn 'it is there'"
    );
    python_tool(name, &body)
}

fn expecting(text: &str, answer: &str) -> String {
    let mut answer: serde_json::Value = serde_json::from_str(answer.trim()).unwrap();
    answer["expect"] = json!([text]);
    answer.to_string() + "\n"
}

#[tokio::test]
async fn background_agent_is_messaged_while_it_works_and_messages_its_parent() {
    kit::needs!(Python);
    let (ready, go) = (hold("until_ready", "ready"), hold("until_go", "go"));
    let fixture = Fixture::new(&[(&ready.0, &ready.1), (&go.0, &go.1)]).await;
    let write = |path: &str| calls(&[("write", json!({"path": path, "content": "x"}))]);
    let parent = calls(&[("subagent", json!({"prompt": "look", "run_in_background": true}))])
        + &calls(&[("until_ready", json!({}))])
        + &calls(&[("group_send", json!({"to": "job_1", "message": "LOOK AT B TOO"}))])
        + &write("go")
        + &says("I wait")
        + &says("I wait")
        + &says("I wait");
    let child = write("ready")
        + &calls(&[("until_go", json!({}))])
        + &expecting(
            "[direct from parent] LOOK AT B TOO",
            &calls(&[("group_send", json!({"to": "parent", "message": "B IS EMPTY"}))]),
        )
        + &says("both are empty");
    let model = Arc::new(Players::new(&[("THE FIRST", &parent), ("BASE", &child)]));
    let mut home = fixture.agent(model.clone(), Wish::default());
    settled(&mut home).await;
    let sent = &home.answered("group_send")[0];
    assert!(sent.contains("\"delivered\":true") && sent.contains("\"message_id\":\"direct_"), "{sent}");
    let answered = &home.answered_below("group_send")[0];
    assert!(answered.contains("\"to\":\"parent\""), "{answered}");
    let items = format!("{:?}", home.agent.transcript().items());
    assert!(items.contains("B IS EMPTY") && items.contains("both are empty"), "{items}");
    assert_eq!(items.matches("] B IS EMPTY").count(), 1);
    let below =
        model.asked.lock().unwrap().iter().filter(|it| it.0.starts_with("BASE")).cloned().collect::<Vec<_>>();
    assert!(
        below[0].0.contains("You can send one to `parent`") && below[0].1.contains(&"group_send".to_owned())
    );
    // It ended: nobody is there any more.
    let refused = home.says("group_send", json!({"to": "job_1", "message": "more"})).await;
    assert!(
        refused.contains("not in your group") && refused.contains("Nobody else is running."),
        "{refused}"
    );
}

#[tokio::test]
async fn message_at_the_last_moment_is_read_before_the_report() {
    kit::needs!(Python);
    let ready = hold("until_ready", "ready");
    let fixture = Fixture::new(&[(&ready.0, &ready.1)]).await;
    let parent = calls(&[("subagent", json!({"prompt": "look", "run_in_background": true}))])
        + &calls(&[("until_ready", json!({}))])
        + &calls(&[("group_send", json!({"to": "job_1", "message": "ONE MORE THING"}))])
        + &says("I wait")
        + &says("I wait");
    // Its last answer takes until after the message: nothing of it is lost.
    let child = calls(&[("write", json!({"path": "ready", "content": "x"}))])
        + &json!({"say": "the first report ".repeat(20), "chunks": 40, "chunk_ms": 50}).to_string()
        + "\n"
        + &expecting("ONE MORE THING", &says("the second report"));
    let model = Arc::new(Players::new(&[("THE FIRST", &parent), ("BASE", &child)]));
    let mut home = fixture.agent(model, Wish::default());
    settled(&mut home).await;
    let items = format!("{:?}", home.agent.transcript().items());
    assert!(items.contains("the first report") && items.contains("the second report"), "{items}");
}

#[tokio::test]
async fn session_without_others_has_no_tools_for_a_group() {
    let fixture = Fixture::new(&[]).await;
    let model = Arc::new(Players::new(&[("THE FIRST", &says("hello"))]));
    let mut home = fixture.agent(model.clone(), Wish::default());
    tokio::time::timeout(Duration::from_secs(60), home.turn()).await.unwrap();
    let shown = model.shown("THE FIRST").pop().unwrap();
    assert!(shown.contains(&"group_send".to_owned()), "{shown:?}");
    assert!(
        !shown.contains(&"send_channel".to_owned()) && !shown.contains(&"send_message".to_owned()),
        "{shown:?}"
    );
    let refused = home.says("send_channel", json!({"channel": "x", "message": "x"})).await;
    assert!(refused.contains("only available to agents of a group"), "{refused}");
}
