//! Ends of a connection: revoked tokens, the end of the server, readers that are too slow.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::support::Editor;
use crate::serve::support::{Stage, wait_for};

fn works() -> Value {
    json!({"calls": [{"tool": "shell", "arguments": {"command": "echo began > began; exec sleep 1000"}}]})
}

#[test]
fn revoked_token_closes_the_connection_and_stops_its_turn() {
    let stage = Stage::new(&[works()]);
    let served = stage.serve_with(&["--approve", "auto"]);
    let made = served.does(201, "POST /api/v1/tokens", &json!({"name": "ci", "role": "approve"}));
    let bearer = format!("Bearer {}", made["token"].as_str().unwrap());
    let mut editor = Editor::with(&served, "Authorization", &bearer);
    editor.ask("initialize", json!({"protocolVersion": 1}));
    let session = editor.session(&stage);
    editor.prompt(&session, "go");
    wait_for("the command", || stage.text("began"));
    served.does(204, "DELETE /api/v1/tokens/ci", &Value::Null);
    let closed = editor.closed().unwrap();
    assert_eq!((closed.code, closed.reason.as_str()), (CloseCode::Policy, "this access has ended"));
    let rows = served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    assert_eq!(rows.last().unwrap().event["ended"], "cancelled", "{rows:?}");
}

#[test]
fn server_that_is_told_to_end_tells_its_editors() {
    let stage = Stage::new(&[works()]);
    let mut served = stage.serve_with(&["--approve", "auto"]);
    let mut editor = Editor::open(&served, "approve");
    let session = editor.session(&stage);
    editor.prompt(&session, "go");
    wait_for("the command", || stage.text("began"));
    kill_process(Pid::from_raw(served.pid().try_into().unwrap()).unwrap(), Signal::TERM).unwrap();
    assert_eq!(editor.closed().unwrap().code, CloseCode::Away);
    assert!(served.wait().success());
}

#[test]
fn editor_that_does_not_read_is_dropped_and_the_session_goes_on() {
    let long = "x".repeat(1 << 20);
    let script: Vec<Value> = (0..12).map(|_| json!({"say": long})).collect();
    let stage = Stage::new(&script);
    let served = stage.serve();
    let mut editor = Editor::open(&served, "say");
    let session = served.does(201, "POST /api/v1/sessions", &json!({}))["id"].as_str().unwrap().to_owned();
    for _ in 0..11 {
        served.prompt(&session, "more");
    }
    // Each replays 11 MiB: together more than what the buffers of both sockets take.
    for _ in 0..4 {
        let params = json!({"sessionId": session, "cwd": stage.path("ws"), "mcpServers": []});
        editor.begin("session/load", params);
    }
    let began = Instant::now();
    let is_dropped = || {
        let text = served.raw("GET /metrics", "", b"").body;
        let streams = text.lines().find_map(|it| it.strip_prefix("haft_event_streams ")).unwrap().to_owned();
        (streams.trim() == "0").then_some(())
    };
    wait_for("the end of the connection", is_dropped);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let rows = served.prompt(&session, "last");
    assert_eq!(rows.last().unwrap().kind(), "turn_ended");
    drop(editor);
}
