//! Sessions of the server, driven by an editor.

use serde_json::{Value, json};

use super::support::Editor;
use crate::serve::support::{Stage, wait_for};

fn writes(path: &str) -> Value {
    json!({"calls": [{"tool": "write", "arguments": {"path": path, "content": "export A=1\n"}}]})
}

/// Chooses an option of this kind for the permission that haft asks for.
#[track_caller]
fn permit(editor: &mut Editor, kind: &str) -> Value {
    let asked = editor.until(|it| it["method"] == "session/request_permission");
    let options = asked["params"]["options"].as_array().unwrap();
    let option = options.iter().find(|it| it["kind"] == kind).unwrap();
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": option["optionId"]}});
    editor.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": outcome}));
    asked
}

#[test]
fn editor_and_page_share_one_session_that_goes_on_without_the_editor() {
    let stage = Stage::new(&[
        json!({"say": "From the editor."}),
        json!({"say": "From the page."}),
        json!({"say": "Once more."}),
    ]);
    let served = stage.serve();
    let mut editor = Editor::open(&served, "say");
    let session = editor.session(&stage);
    let prompt = editor.prompt(&session, "hello");
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(editor.text(), "From the editor.");
    // The page prompts the same session, and the editor sees it.
    served.prompt(&session, "hello from the page");
    editor.until(|it| it["params"]["update"]["content"]["text"] == "From the page.");
    let page = served.get(&format!("sessions/{session}/rows?limit=20000")).to_string();
    assert!(page.contains("From the editor.") && page.contains("\"by\":\"sayer\""), "{page}");
    editor.socket.close(None).unwrap();
    editor.closed();
    served.prompt(&session, "without the editor");
    // Another connection has all of it again.
    let mut again = Editor::open(&served, "say");
    let cwd = stage.path("ws");
    let listed = again.result("session/list", json!({"cwd": cwd}));
    assert_eq!(listed["sessions"][0]["sessionId"], session.as_str(), "{listed}");
    again.result("session/load", json!({"sessionId": session, "cwd": cwd, "mcpServers": []}));
    assert_eq!(again.text(), "From the editor.From the page.Once more.");
}

#[test]
fn approver_decides_at_the_editor_and_others_wait_for_somebody_who_may() {
    let stage = Stage::new(&[writes(".envrc"), json!({"say": "Written."})]);
    let served = stage.serve();
    let mut editor = Editor::open(&served, "approve");
    let session = editor.session(&stage);
    let prompt = editor.prompt(&session, "go");
    let asked = permit(&mut editor, "allow_once");
    assert!(asked.to_string().contains(".envrc"), "{asked}");
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(stage.text(".envrc").as_deref(), Some("export A=1\n"));
    let rows = served.get(&format!("sessions/{session}/rows")).to_string();
    assert!(rows.contains("\"by\":\"approveer\""), "{rows}");

    let stage = Stage::new(&[writes(".envrc"), json!({"say": "Written."})]);
    let served = stage.serve();
    let mut editor = Editor::open(&served, "say");
    let session = editor.session(&stage);
    let prompt = editor.prompt(&session, "go");
    let approval = served.approval(&session);
    let line = format!("POST /api/v1/sessions/{session}/approvals/{}", approval["id"].as_str().unwrap());
    assert_eq!(
        served.ask("approve", &line, &json!({"decision": "once", "hash": approval["hash"]})).status,
        200
    );
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    assert!(!editor.seen.iter().any(|it| it["method"] == "session/request_permission"), "{:?}", editor.seen);
    assert_eq!(stage.text(".envrc").as_deref(), Some("export A=1\n"));
}

#[test]
fn question_is_answered_at_the_editor() {
    let stage = Stage::new(&[
        json!({"calls": [{"tool": "ask_user", "arguments": {"question": "Which?", "options": ["a", "b"]}}]}),
        json!({"expect": ["b"], "say": "So b."}),
    ]);
    let served = stage.serve();
    let mut editor = Editor::open(&served, "say");
    let session = editor.session(&stage);
    let prompt = editor.prompt(&session, "go");
    let asked = editor.until(|it| it["method"] == "session/request_permission");
    let option = asked["params"]["options"].as_array().unwrap().iter().find(|it| it["name"] == "b").unwrap();
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": option["optionId"]}});
    editor.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": outcome}));
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(editor.text(), "So b.");
}

#[test]
fn editor_that_disconnects_stops_its_turn_and_frees_the_session() {
    let stage = Stage::new(&[
        json!({"calls": [{"tool": "shell", "arguments": {"command": "echo began > began; exec sleep 1000"}}]}),
        json!({"say": "Next."}),
    ]);
    let served = stage.serve_with(&["--approve", "auto"]);
    let mut editor = Editor::open(&served, "approve");
    let session = editor.session(&stage);
    editor.prompt(&session, "go");
    wait_for("the command", || stage.text("began"));
    // Cut, without a closing handshake.
    editor.socket.get_ref().shutdown(std::net::Shutdown::Both).unwrap();
    let rows = served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    assert_eq!(rows.last().unwrap().event["ended"], "cancelled", "{rows:?}");
    let rows = served.prompt(&session, "next");
    assert_eq!(rows.last().unwrap().event["text"], "Next.");
}
