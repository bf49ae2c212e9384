//! The limit of sessions that are open at once.

use serde_json::{Value, json};

use super::{
    acp::Editor,
    support::{Served, Stage, wait_for},
};

/// Begins a session as whoever has this role. Gives its id, or the status and the text of the error.
fn begin(served: &Served, role: &str, body: &Value) -> Result<String, (u16, String)> {
    let reply = served.ask(role, "POST /api/v1/sessions", body);
    if reply.status != 201 {
        return Err((reply.status, reply.body));
    }
    let session: Value = serde_json::from_str(&reply.body).unwrap();
    Ok(session["id"].as_str().unwrap().to_owned())
}

fn state(served: &Served, session: &str) -> String {
    served.get(&format!("sessions/{session}"))["state"].as_str().unwrap().to_owned()
}

#[test]
fn idle_sessions_are_closed_for_new_ones_the_oldest_first_and_open_again_when_used() {
    let stage = Stage::new(&[json!({"say": "Hello."})]);
    let served = stage.serve_within([3, 2, 60_000]);
    let owner = begin(&served, "own", &json!({})).unwrap();
    let all: Vec<String> = (0..4).map(|_| begin(&served, "say", &json!({})).unwrap()).collect();
    let states: Vec<String> = all.iter().map(|it| state(&served, it)).collect();
    assert_eq!(states, ["asleep", "asleep", "idle", "idle"]);
    assert_eq!(
        state(&served, &owner),
        "idle",
        "one person's sessions close nobody else's while there is space"
    );
    // An editor's new session counts as any other.
    let mut editor = Editor::open(&served, "say");
    editor.session(&stage);
    assert_eq!((state(&served, &all[2]).as_str(), state(&served, &all[3]).as_str()), ("asleep", "idle"));
    let rows = served.prompt(&all[0], "hello");
    assert_eq!(rows.last().unwrap().event["text"], "Hello.", "a session that was closed goes on");
    // In all: the third person has one closed that is used least.
    begin(&served, "approve", &json!({})).unwrap();
    assert_eq!(state(&served, &all[0]), "idle", "{}", served.get("sessions"));
}

#[test]
fn where_all_sessions_work_a_new_one_gets_429_until_one_has_ended_its_turn() {
    let works = json!({"calls": [{"tool": "shell", "arguments": {"command": "exec sleep 1000"}}]});
    let stage = Stage::new(&[works]);
    let served = stage.serve_within([3, 2, 60_000]);
    let prompted = json!({"prompt": {"text": "go"}});
    let busy: Vec<String> = (0..2).map(|_| begin(&served, "say", &prompted).unwrap()).collect();
    for session in &busy {
        wait_for("the turn", || (state(&served, session) == "running").then_some(()));
    }
    let (status, text) = begin(&served, "say", &json!({})).unwrap_err();
    assert_eq!(status, 429, "{text}");
    assert!(text.contains("all 2 sessions that `sayer` has open here work"), "{text}");
    let mut editor = Editor::open(&served, "say");
    let refused = editor.refused("session/new", json!({"cwd": stage.path("ws"), "mcpServers": []}));
    assert!(refused.contains("no more can be opened now"), "{refused}");
    let third = begin(&served, "own", &prompted).unwrap();
    wait_for("the turn", || (state(&served, &third) == "running").then_some(()));
    let (status, text) = begin(&served, "approve", &json!({})).unwrap_err();
    assert!(status == 429 && text.contains("all 3 sessions"), "{text}");
    served.does(200, &format!("POST /api/v1/sessions/{third}/cancel"), &json!({}));
    served.watch(&third, 0).until(|row| row.kind() == "turn_ended");
    wait_for("space", || begin(&served, "approve", &json!({})).ok());
    assert_eq!(state(&served, &busy[0]), "running");
}
