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

#[test]
fn decision_of_a_revoked_editor_does_not_count() {
    let writes = json!({"calls": [{"tool": "write", "arguments": {"path": ".envrc", "content": "A=1\n"}}]});
    let stage = Stage::new(&[writes, json!({"say": "Written."})]);
    let served = stage.serve();
    let made = served.does(201, "POST /api/v1/tokens", &json!({"name": "ci", "role": "approve"}));
    let bearer = format!("Bearer {}", made["token"].as_str().unwrap());
    let mut editor = Editor::with(&served, "Authorization", &bearer);
    editor.ask("initialize", json!({"protocolVersion": 1}));
    let session = editor.session(&stage);
    served.does(202, &format!("POST /api/v1/sessions/{session}/prompt"), &json!({"text": "go"}));
    let asked = editor.until(|it| it["method"] == "session/request_permission");
    let options = asked["params"]["options"].as_array().unwrap();
    let option = options.iter().find(|it| it["kind"] == "allow_once").unwrap();
    served.does(204, "DELETE /api/v1/tokens/ci", &Value::Null);
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": option["optionId"]}});
    editor.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": outcome}));
    assert_eq!(editor.closed().unwrap().code, CloseCode::Policy);
    assert_eq!(stage.text(".envrc"), None);
    let open = served.get("approvals")["approvals"][0]["approval"].clone();
    let line = format!("POST /api/v1/sessions/{session}/approvals/{}", open["id"].as_str().unwrap());
    served.does(200, &line, &json!({"decision": "once", "hash": open["hash"]}));
    served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    assert_eq!(stage.text(".envrc").as_deref(), Some("A=1\n"));
}

#[test]
fn editor_of_which_nothing_comes_is_dropped_and_one_that_speaks_stays() {
    let stage = Stage::new(&[]);
    let served = stage.serve_within([9, 9, 2000]);
    let (mut speaks, mut silent) = (Editor::open(&served, "say"), Editor::open(&served, "own"));
    let began = Instant::now();
    let ended = std::thread::spawn(move || {
        let reason = silent.closed();
        (reason.is_none(), began.elapsed())
    });
    let cwd = stage.path("ws");
    while !ended.is_finished() {
        speaks.result("session/list", json!({"cwd": cwd}));
        std::thread::sleep(Duration::from_millis(100));
    }
    let (is_cut, after) = ended.join().unwrap();
    assert!(is_cut && after >= Duration::from_millis(1900), "{after:?}");
    assert!(after < Duration::from_secs(30), "{after:?}");
    speaks.result("session/list", json!({"cwd": cwd}));
}
