//! Switching a session's sandbox: by whom, its effect on what runs, and after a restart.

use serde_json::{Value, json};

use super::support::{Row, Served, Stage, wait_for};

fn writes(path: &str) -> Value {
    json!({"calls": [{"tool": "write", "arguments": {"path": path, "content": "1\n", "overwrite": true}}]})
}

fn runs(command: &str) -> Value {
    json!({"calls": [{"tool": "shell", "arguments": {"command": command}}]})
}

fn done() -> Value {
    json!({"say": "Done."})
}

fn switch(served: &Served, session: &str, to: &str) -> Value {
    served.does(200, &format!("PATCH /api/v1/sessions/{session}"), &json!({"sandbox": to}))
}

/// Returns whether the only call among these rows did what it was to do, and its answer.
fn answer(rows: &[Row]) -> (bool, String) {
    let all: Vec<&Row> = rows.iter().filter(|it| it.kind() == "answered").collect();
    assert_eq!(all.len(), 1, "{rows:?}");
    let event = &all[0].event;
    let is_done = event["ok"] == true && [&json!(null), &json!(0)].contains(&&event["exit"]);
    (is_done, event["text"].as_str().unwrap().to_owned())
}

fn begin(served: &Served, body: &Value) -> String {
    served.does(201, "POST /api/v1/sessions", body)["id"].as_str().unwrap().to_owned()
}

#[test]
fn only_the_owner_switches_the_sandbox() {
    let stage = Stage::new(&[done()]);
    let served = stage.serve();
    let session = begin(&served, &Value::Null);
    let lines = [format!("PATCH /api/v1/sessions/{session}"), "POST /api/v1/sessions".to_owned()];
    for line in &lines {
        for role in ["view", "say", "approve"] {
            let reply = served.ask(role, line, &json!({"sandbox": "read-only", "title": "Not this"}));
            assert_eq!(reply.status, 403, "{line} as {role}: {reply:?}");
            if role != "view" {
                assert!(reply.body.contains("needs the role `own`"), "{line} as {role}: {reply:?}");
            }
        }
    }
    let now = served.get(&format!("sessions/{session}"));
    assert_eq!((&now["sandbox"], &now["title"]), (&json!("workspace"), &json!("")), "{now}");
    assert_eq!(served.get("sessions")["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(switch(&served, &session, "read-only")["sandbox"], "read-only");
    let wrong = served.does(400, &lines[0], &json!({"sandbox": "none"}));
    assert!(wrong["error"]["next"].as_str().unwrap().contains("`read-only`"), "{wrong}");
}

#[test]
fn sandbox_wider_than_the_configured_one_is_refused() {
    let stage = Stage::new(&[done()]);
    let served = stage.serve();
    let session = begin(&served, &Value::Null);
    for line in [format!("PATCH /api/v1/sessions/{session}"), "POST /api/v1/sessions".to_owned()] {
        let refused = served.does(403, &line, &json!({"sandbox": "full"}));
        let what = refused["error"]["what"].as_str().unwrap();
        assert!(what.contains("`full` is wider than `workspace`"), "{refused}");
        assert!(refused["error"]["next"].as_str().unwrap().contains("--sandbox full"), "{refused}");
    }
    assert_eq!(served.get(&format!("sessions/{session}"))["sandbox"], "workspace");
}

#[test]
fn read_only_session_changes_nothing_until_it_is_widened() {
    let stage = Stage::new(&[
        writes("a.txt"),
        done(),
        writes("b.txt"),
        done(),
        runs("echo x > c.txt"),
        done(),
        writes("b.txt"),
        done(),
        runs("echo x > c.txt"),
        done(),
    ]);
    let served = stage.serve_with(&["--approve", "auto"]);
    let session = begin(&served, &Value::Null);
    assert!(answer(&served.prompt(&session, "one")).0);
    let mut watcher = served.watch(&session, 0);
    switch(&served, &session, "read-only");
    let rows = watcher.until(|row| row.kind() == "sandbox_chosen");
    let event = &rows.last().unwrap().event;
    assert_eq!((&event["sandbox"], &event["by"]), (&json!("read-only"), &json!("owner")));
    let (ok, text) = answer(&served.prompt(&session, "two"));
    assert!(!ok && text.contains("narrowed the sandbox"), "{text}");
    assert!(!answer(&served.prompt(&session, "three")).0);
    // A person's own command has no wider one.
    served.does(
        202,
        &format!("POST /api/v1/sessions/{session}/command"),
        &json!({"command": "echo x > d.txt"}),
    );
    let rows = watcher.until(|row| row.kind() == "command");
    assert_eq!(rows.last().unwrap().event["command"], "echo x > d.txt");
    let rows = watcher.until(|row| row.kind() == "answered");
    assert!(!answer(&rows[rows.len() - 1..]).0, "{rows:?}");
    assert_eq!(["b.txt", "c.txt", "d.txt"].map(|it| stage.text(it)), [None, None, None]);
    switch(&served, &session, "workspace");
    assert!(answer(&served.prompt(&session, "four")).0);
    assert!(answer(&served.prompt(&session, "five")).0);
    assert_eq!(["b.txt", "c.txt"].map(|it| stage.text(it).is_some()), [true, true]);
}

#[test]
fn narrowing_is_done_at_once_and_kills_the_running_command() {
    let stage = Stage::new(&[runs("touch begun; sleep 100; touch late"), done()]);
    let served = stage.serve_with(&["--approve", "auto"]);
    let session = served.begin("go");
    wait_for("the command", || stage.text("begun"));
    switch(&served, &session, "read-only");
    let rows = served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    assert!(!answer(&rows).0, "{rows:?}");
    let kinds: Vec<&str> = rows.iter().map(Row::kind).collect();
    let at = |kind: &str| kinds.iter().position(|it| *it == kind).unwrap();
    assert!(at("sandbox_chosen") < at("answered"), "{kinds:?}");
    assert_eq!(stage.text("late"), None);
}

#[test]
fn call_that_waited_for_approval_when_the_sandbox_was_narrowed_is_not_run() {
    let stage = Stage::new(&[writes(".envrc"), done()]);
    let served = stage.serve();
    let session = served.begin("go");
    let approval = served.approval(&session);
    switch(&served, &session, "read-only");
    let line = format!("POST /api/v1/sessions/{session}/approvals/{}", approval["id"].as_str().unwrap());
    served.does(200, &line, &json!({"decision": "once", "hash": approval["hash"]}));
    let rows = served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    let (ok, text) = answer(&rows);
    assert!(!ok && text.contains("was narrowed before this call ran"), "{text}");
    assert_eq!(stage.text(".envrc"), None);
}

#[test]
fn chosen_sandbox_survives_a_killed_server_and_goes_to_forks() {
    let stage = Stage::new(&[done(), writes("a.txt"), done()]);
    let served = stage.serve();
    let session = begin(&served, &json!({"sandbox": "read-only"}));
    served.prompt(&session, "one");
    served.kill();
    let served = stage.serve();
    assert_eq!(served.get(&format!("sessions/{session}"))["sandbox"], "read-only", "asleep");
    let forked = served.does(201, &format!("POST /api/v1/sessions/{session}/fork"), &json!({}));
    for session in [session.as_str(), forked["id"].as_str().unwrap()] {
        assert!(!answer(&served.prompt(session, "two")).0);
        assert_eq!(served.get(&format!("sessions/{session}"))["sandbox"], "read-only");
    }
    assert_eq!(stage.text("a.txt"), None);
}

#[test]
fn session_without_a_sandbox_gets_one() {
    let stage = Stage::new(&[]);
    let (first, second, third) = ["first", "second", "third"].map(|it| stage.path("home").join(it)).into();
    let touch = |it: &std::path::Path| runs(&format!("touch {}", it.display()));
    stage.script(&[touch(&first), done(), touch(&second), done(), touch(&third), done()]);
    let served = stage.serve_with(&["--approve", "auto", "--sandbox", "full"]);
    let session = begin(&served, &Value::Null);
    assert!(answer(&served.prompt(&session, "one")).0 && first.exists());
    assert_eq!(switch(&served, &session, "workspace")["sandbox"], "workspace");
    // The command has a home folder of its own now, which ends with it.
    answer(&served.prompt(&session, "two"));
    assert!(!second.exists());
    switch(&served, &session, "full");
    assert!(answer(&served.prompt(&session, "three")).0 && third.exists());
}
