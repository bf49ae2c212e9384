//! Changes of files, and their undo.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::support::{Stage, wait_for};

fn writes(path: &str, content: &str) -> Value {
    json!({"tool": "write", "arguments": {"path": path, "content": content}})
}

#[test]
fn changes_are_shown_as_hunks_and_undone_by_call_turn_and_file() {
    let stage = Stage::new(&[
        json!({"calls": [writes("a.txt", "one\ntwo\n")]}),
        json!({"say": "Written."}),
        json!({"calls": [{"tool": "edit", "arguments": {"path": "a.txt", "edits": [{"old": "two", "new": "2"}]}}, writes("b.txt", "b\n")]}),
        json!({"say": "Changed."}),
    ]);
    let served = stage.serve();
    let session = served.does(201, "POST /api/v1/sessions", &json!({}))["id"].as_str().unwrap().to_owned();
    served.prompt(&session, "write");
    let second = served.prompt(&session, "change");
    assert_eq!(stage.text("a.txt").as_deref(), Some("one\n2\n"), "{second:?}");
    let at = |what: &str| format!("/api/v1/sessions/{session}{what}");
    let changes = served.get(&format!("sessions/{session}/changes"));
    let calls = changes["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 3, "{changes}");
    let edit = calls.iter().find(|it| it["tool"] == "edit").unwrap();
    assert_eq!(edit["files"][0]["hunks"][0]["lines"], json!([[" ", "one"], ["-", "two"], ["+", "2"]]));
    let diff = served.get(&format!("sessions/{session}/diff"));
    assert_eq!(diff["files"][0]["hunks"][0]["lines"], json!([["+", "one"], ["+", "2"]]), "{diff}");
    // By call, and that undone again.
    let undone = served.does(200, &format!("POST {}", at("/undo")), &json!({"call": edit["call"]}));
    assert!(undone["text"].as_str().is_some_and(|it| it.contains("a.txt")), "{undone}");
    assert_eq!(stage.text("a.txt").as_deref(), Some("one\ntwo\n"));
    let changes = served.get(&format!("sessions/{session}/changes"));
    let calls = changes["calls"].as_array().unwrap();
    assert_eq!(calls[0]["undoes"], edit["call"], "{changes}");
    assert!(calls.iter().any(|it| it["call"] == edit["call"] && it["undone"] == true), "{changes}");
    served.does(200, &format!("POST {}", at("/undo")), &json!({"call": calls[0]["call"]}));
    assert_eq!(stage.text("a.txt").as_deref(), Some("one\n2\n"));
    // By file, by turn.
    served.does(200, &format!("POST {}", at("/undo")), &json!({"file": "b.txt"}));
    assert_eq!(stage.text("b.txt"), None);
    let rows = served.get(&format!("sessions/{session}/rows"));
    let began =
        rows["rows"].as_array().unwrap().iter().find(|it| it["event"]["event"] == "turn_began").unwrap();
    served.does(200, &format!("POST {}", at("/undo")), &json!({"file": "a.txt"}));
    served.does(404, &format!("POST {}", at("/undo")), &json!({"turn": 1}));
    assert_eq!(stage.text("a.txt").as_deref(), Some("one\ntwo\n"));
    served.does(200, &format!("POST {}", at("/undo")), &json!({"turn": began["seq"]}));
    assert_eq!(stage.text("a.txt"), None);
    for body in [json!({"file": "../tokens"}), json!({"call": "c_nothing"}), json!({"call": "a", "turn": 1})]
    {
        let reply = served.ask("own", &format!("POST {}", at("/undo")), &body);
        assert!((400..500).contains(&reply.status), "{body}: {reply:?}");
    }
}

#[test]
fn command_of_the_person_runs_in_the_session() {
    let stage = Stage::new(&[json!({"say": "Hello."})]);
    let served = stage.serve();
    let session = served.begin("hi");
    served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    let line = format!("POST /api/v1/sessions/{session}/command");
    served.does(202, &line, &json!({"command": "echo from-the-person > made; cat made"}));
    let rows = served.watch(&session, 0).until(|row| row.kind() == "answered");
    assert!(rows.last().unwrap().event["text"].as_str().unwrap().contains("from-the-person"), "{rows:?}");
    assert!(rows.iter().any(|it| it.kind() == "command" && it.event["by"] == "owner"), "{rows:?}");
}

#[test]
fn job_is_listed_with_its_output_and_stopped() {
    let stage = Stage::new(&[
        json!({"calls": [{"tool": "shell", "arguments": {"command": "echo it-runs; sleep 600", "wait_ms": 0}}]}),
        json!({"say": "Started."}),
    ]);
    let served = stage.serve();
    let session = served.begin("hi");
    let rows = served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    let jobs = served.get(&format!("sessions/{session}/jobs"));
    let job = jobs["jobs"][0]["id"].as_str().unwrap_or_else(|| panic!("{jobs} {rows:?}"));
    let path = format!("sessions/{session}/jobs/{job}");
    let said = super::support::wait_for("the output", || {
        let job = served.get(&path);
        job["lines"].to_string().contains("it-runs").then_some(job)
    });
    assert_eq!((&said["state"], &said["tool"]), (&json!("running"), &json!("shell")));
    let stopped = served.does(200, &format!("POST /api/v1/{path}/stop"), &Value::Null);
    assert_eq!(stopped["state"], "cancelled");
    served.does(404, &format!("GET /api/v1/sessions/{session}/jobs/job_99"), &Value::Null);
}

#[test]
fn job_that_waits_for_input_gets_it_from_whoever_may_approve() {
    let stage = Stage::new(&[
        json!({"calls": [{"tool": "interact", "arguments": {"command": "echo name?; read -r name; echo hello-$name", "until": "name"}}]}),
        json!({"say": "It asks."}),
    ]);
    let served = stage.serve();
    let session = served.begin("hi");
    let rows = served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    let jobs = served.get(&format!("sessions/{session}/jobs"));
    let job = jobs["jobs"][0]["id"].as_str().unwrap_or_else(|| panic!("{jobs} {rows:?}"));
    let line = format!("POST /api/v1/sessions/{session}/jobs/{job}/input");
    let input = json!({"input": {"text": "anna\r", "until": "hello"}});
    assert_eq!(served.ask("say", &line, &input).status, 403);
    let reply = served.ask("approve", &line, &input);
    assert!(reply.status == 200 && reply.body.contains("hello-anna"), "{reply:?}");
    let gone = format!("POST /api/v1/sessions/{session}/jobs/job_99/input");
    served.does(404, &gone, &input);
}

#[test]
fn undo_of_one_file_is_a_row_of_the_session_and_done_once_for_its_key() {
    let stage = Stage::new(&[
        json!({"calls": [writes("a.txt", "1\n"), writes("b.txt", "1\n")]}),
        json!({"say": "Written."}),
        json!({"calls": [{"tool": "edit", "arguments": {"path": "a.txt", "edits": [{"old": "1", "new": "2"}]}}]}),
        json!({"say": "Written."}),
    ]);
    let served = stage.serve();
    let session = served.does(201, "POST /api/v1/sessions", &json!({}))["id"].as_str().unwrap().to_owned();
    served.prompt(&session, "write");
    let head = served.prompt(&session, "write").last().unwrap().seq;
    let mut other = served.watch(&session, head);
    let undo = || {
        let headers = format!(
            "Authorization: Bearer {}\r\nContent-Type: application/json\r\nIdempotency-Key: undo-1\r\n",
            super::support::token("approve")
        );
        served.raw(&format!("POST /api/v1/sessions/{session}/undo"), &headers, br#"{"file": "a.txt"}"#)
    };
    let first = undo();
    assert!(first.status == 200 && first.body.contains("a.txt"), "{first:?}");
    let row = other.until(|row| row.kind() == "undone").pop().unwrap();
    assert_eq!((&row.event["path"], &row.event["key"]), (&json!("a.txt"), &json!("undo-1")), "{row:?}");
    assert_eq!(undo().body, first.body);
    assert_eq!((stage.text("a.txt").as_deref(), stage.text("b.txt").as_deref()), (Some("1\n"), Some("1\n")));
}

#[test]
fn server_that_is_killed_in_the_middle_of_an_undo_shows_what_is_put_back_and_what_is_not() {
    const FILES: usize = 40;
    let content = |at: usize| format!("{at}\n").repeat(20_000);
    let calls: Vec<Value> = (0..FILES).map(|at| writes(&format!("f{at}.txt"), &content(at))).collect();
    let stage = Stage::new(&[json!({"calls": calls}), json!({"say": "Written."}), json!({"say": "Yes."})]);
    let served = stage.serve();
    let session = served.does(201, "POST /api/v1/sessions", &json!({}))["id"].as_str().unwrap().to_owned();
    let rows = served.prompt(&session, "write");
    let began = rows.iter().find(|it| it.kind() == "turn_began").unwrap().seq;
    let line = format!("POST /api/v1/sessions/{session}/undo");
    let there = || (0..FILES).filter(|at| stage.text(&format!("f{at}.txt")).is_some()).count();
    assert_eq!(there(), FILES);
    let left = std::thread::scope(|scope| {
        scope.spawn(|| served.ask("own", &line, &json!({"turn": began})));
        wait_for("the first files", || (there() < FILES - 3).then_some(()));
        kill_process(Pid::from_raw(served.pid().try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
        wait_for("the end of the server", || {
            let before = there();
            std::thread::sleep(std::time::Duration::from_millis(200));
            (there() == before).then_some(before)
        })
    });
    assert!(left > 0, "it was killed too late to show anything");
    drop(served);
    let served = stage.serve();
    // A file is whole or gone, and the list of changes says which.
    let changes = || served.get(&format!("sessions/{session}/changes"))["calls"].as_array().unwrap().clone();
    let check = |left: usize| {
        let calls = changes();
        for at in 0..FILES {
            let name = format!("f{at}.txt");
            let text = stage.text(&name);
            let call =
                calls.iter().find(|it| it["undoes"].is_null() && it["files"][0]["path"] == name.as_str());
            let call = call.unwrap_or_else(|| panic!("no change of {name}"));
            assert_eq!(call["undone"] == true, text.is_none(), "{name}: {call}");
            assert!(text.is_none_or(|it| it == content(at)), "{name} is half");
        }
        assert_eq!(there(), left);
    };
    check(left);
    served.does(200, &line, &json!({"turn": began}));
    check(0);
}
