//! Approvals: bound to the very call, and decided once.

use std::thread;

use serde_json::{Value, json};

use super::support::{Served, Stage};

fn writes(path: &str) -> Value {
    json!({"calls": [{"tool": "write", "arguments": {"path": path, "content": "export A=1\n"}}]})
}

#[test]
fn of_two_who_decide_at_once_one_wins_and_the_other_is_told_who() {
    let stage = Stage::new(&[writes(".envrc"), json!({"say": "Written."})]);
    let served = stage.serve();
    let session = served.begin("go");
    let approval = served.approval(&session);
    let path = format!("/api/v1/sessions/{session}/approvals/{}", approval["id"].as_str().unwrap());
    assert!(!approval["effects"].as_array().unwrap().is_empty(), "{approval}");
    assert_eq!(approval["changes"][0]["hunks"][0]["lines"], json!([["+", "export A=1"]]));
    let other = json!({"decision": "once", "hash": "0".repeat(64)});
    let wrong = served.ask("approve", &format!("POST {path}"), &other);
    assert!(wrong.status == 409 && !wrong.body.contains("winner"), "{wrong:?}");
    assert_eq!(stage.text(".envrc"), None);
    let body = json!({"decision": "once", "hash": approval["hash"]});
    let replies = thread::scope(|scope| {
        let asked = ["approve", "own"].map(|role| {
            let (served, line, body) = (&served, format!("POST {path}"), &body);
            scope.spawn(move || (role, served.ask(role, &line, body)))
        });
        asked.map(|it| it.join().unwrap())
    });
    let statuses: Vec<u16> = replies.iter().map(|it| it.1.status).collect();
    assert!(statuses == [200, 409] || statuses == [409, 200], "{replies:?}");
    let (won, lost) = if statuses[0] == 200 { (0, 1) } else { (1, 0) };
    let told: Value = serde_json::from_str(&replies[lost].1.body).unwrap();
    assert_eq!(told["error"]["winner"], format!("{}er allowed it", replies[won].0));
    let mut stream = served.watch(&session, 0);
    let rows = stream.until(|row| row.kind() == "turn_ended");
    let closed = rows.iter().find(|it| it.kind() == "approval_closed").unwrap();
    assert_eq!(closed.event["by"], format!("{}er", replies[won].0));
    assert_eq!(stage.text(".envrc").as_deref(), Some("export A=1\n"));
    assert_eq!(served.get("approvals")["approvals"], json!([]));
}

#[test]
fn refusal_with_words_reaches_the_model_and_the_call_does_not_run() {
    let stage =
        Stage::new(&[writes(".envrc"), json!({"expect": ["put it into .env"], "say": "As you like."})]);
    let served = stage.serve();
    let session = served.begin("go");
    let approval = served.approval(&session);
    let line = format!("POST /api/v1/sessions/{session}/approvals/{}", approval["id"].as_str().unwrap());
    let body = json!({"decision": "no", "hash": approval["hash"], "words": "put it into .env"});
    assert_eq!(served.ask("say", &line, &body).status, 403);
    served.does(200, &line, &body);
    let rows = served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    assert_eq!(rows.last().unwrap().event["text"], "As you like.");
    assert_eq!(stage.text(".envrc"), None);
}

#[test]
fn question_is_answered_once() {
    let stage = Stage::new(&[
        json!({"calls": [{"tool": "ask_user", "arguments": {"question": "Which?", "options": ["a", "b"]}}]}),
        json!({"expect": ["the b one"], "say": "So b."}),
    ]);
    let served = stage.serve();
    let session = served.begin("go");
    let rows = served.watch(&session, 0).until(|row| ["question_opened", "turn_ended"].contains(&row.kind()));
    let question = &rows.last().unwrap().event;
    assert_eq!(question["event"], "question_opened", "{rows:?}");
    assert_eq!(served.get("questions")["questions"][0]["session"], session.as_str());
    let line = format!("POST /api/v1/sessions/{session}/questions/{}", question["id"].as_str().unwrap());
    served.does(200, &line, &json!({"text": "the b one"}));
    let again = served.does(409, &line, &json!({"text": "a"}));
    assert!(again["error"]["winner"].as_str().is_some_and(|it| it.contains("owner")), "{again}");
    let rows = served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    assert_eq!(rows.last().unwrap().event["text"], "So b.");
}

#[test]
fn decision_for_the_project_is_kept_and_later_sessions_are_not_asked() {
    let stage = Stage::new(&[writes(".envrc"), json!({"say": "Written."})]);
    let served = stage.serve();
    let decide = |served: &Served, session: &str, decision: &str| {
        let open = served.approval(session);
        let line = format!("POST /api/v1/sessions/{session}/approvals/{}", open["id"].as_str().unwrap());
        served.does(200, &line, &json!({"decision": decision, "hash": open["hash"]}));
        served.watch(session, 0).until(|row| row.kind() == "turn_ended");
    };
    // For the session alone, the next one is asked.
    let session = served.begin("go");
    decide(&served, &session, "session");
    assert_eq!(stage.text(".envrc").as_deref(), Some("export A=1\n"));
    stage.remove(".envrc");
    let session = served.begin("go");
    decide(&served, &session, "project");
    let grants = served.get("grants")["grants"].as_array().unwrap().clone();
    let of_project: Vec<&Value> = grants.iter().filter(|it| it["session"].is_null()).collect();
    assert!(
        of_project.len() == 1 && of_project[0]["effect"].as_str().unwrap().contains(".envrc"),
        "{grants:?}"
    );
    served.kill();
    let served = stage.serve();
    stage.remove(".envrc");
    let session = served.begin("go");
    let rows = served.watch(&session, 0).until(|row| ["approval_opened", "turn_ended"].contains(&row.kind()));
    assert_eq!(rows.last().unwrap().kind(), "turn_ended", "it was asked again");
    assert_eq!(stage.text(".envrc").as_deref(), Some("export A=1\n"));
    // Revoked, it is asked again.
    let id = &of_project[0]["id"];
    served.does(204, &format!("DELETE /api/v1/grants/{id}"), &Value::Null);
    stage.remove(".envrc");
    let session = served.begin("go");
    served.approval(&session);
    assert_eq!(stage.text(".envrc"), None);
}
