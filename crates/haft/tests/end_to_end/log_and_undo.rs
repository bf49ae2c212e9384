//! `haft log`, `haft undo` and `haft doctor`.

use serde_json::{Value, json};

use crate::support::TestWorkspace;

#[test]
fn the_log_has_every_call_with_what_came_of_it() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    assert_eq!(test_ws.run(&["log"]).out, "no calls\n");
    test_ws.call("read", &json!({"path": "file"})).must("ok");
    let edit =
        test_ws.call("edit", &json!({"path": "file", "edits": [{"old": "one", "new": "two"}]})).must("ok");
    test_ws.call("read", &json!({"path": "../outside"})).must("denied");
    test_ws.run(&["call", "read", "{"]);
    let server = test_ws.serve();
    server.does("read", &json!({"path": "file"}));
    assert!(server.finish().0.success());
    let log = test_ws.log();
    let told: Vec<(&str, &str)> =
        log.iter().map(|it| (it["tool"].as_str().unwrap(), it["outcome"].as_str().unwrap())).collect();
    let expected = [("read", "ok"), ("edit", "ok"), ("read", "denied"), ("read", "bad_args"), ("read", "ok")];
    assert_eq!(told, expected);
    for call in &log {
        for field in ["call", "session", "arguments_hash", "decision"] {
            assert!(call[field].as_str().is_some_and(|it| !it.is_empty()), "{field}: {call}");
        }
        assert!(call["took_ms"].is_number() && call["began_ms"].is_number(), "{call}");
    }
    assert_eq!(log[1]["call"], edit.id());
    assert_eq!(log[1]["changes"].as_array().unwrap().len(), 1, "{}", log[1]);
    let faults = test_ws.run(&["log", "--faults"]).out;
    assert!(faults.contains("denied") && faults.contains("bad_args") && !faults.contains("edit"), "{faults}");
    let one = test_ws.run(&["log", "--call", edit.id()]).out;
    assert!(
        one.contains("arguments:") && one.contains("\"new\":\"two\"") && one.contains("write file"),
        "{one}"
    );
    let none = test_ws.run(&["log", "--call", "c_none"]);
    assert_eq!((none.code, none.out.as_str()), (1, ""));
    assert!(none.err.contains("no call `c_none` in the journal"), "{}", none.err);
    test_ws.run(&["undo"]);
    let undone = test_ws.run(&["log", "-n", "1"]).out;
    assert!(undone.contains("haft undo") && undone.trim_end().ends_with("restored file"), "{undone}");
    assert_eq!(test_ws.run(&["log", "--tool", "edit"]).out.lines().count(), 1);
    assert_eq!(test_ws.run(&["log", "-n", "2", "--json"]).out.lines().count(), 2);
}

#[test]
fn a_call_is_in_the_log_although_the_server_was_killed_right_after_it() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    let server = test_ws.serve();
    server.does("edit", &json!({"path": "file", "edits": [{"old": "one", "new": "two"}]}));
    server.kill();
    let log = test_ws.log();
    assert_eq!((log.len(), &log[0]["outcome"]), (1, &json!("ok")), "{log:?}");
}

fn edit(test_ws: &TestWorkspace, path: &str, old: &str, new: &str) -> String {
    let edits = json!([{"old": old, "new": new}]);
    test_ws.call("edit", &json!({"path": path, "edits": edits})).must("ok").id().to_owned()
}

#[test]
fn a_long_diff_of_an_undo_is_cut_and_the_named_command_shows_all_of_it() {
    let test_ws = TestWorkspace::new();
    test_ws.call("shell", &json!({"command": "seq 300 > long"})).must("ok");
    let undone = test_ws.run(&["undo"]).out;
    assert!(!test_ws.at("long").exists());
    assert!(undone.lines().count() < 60 && undone.contains("-30\n"), "{undone}");
    let last = undone.trim_end().lines().last().unwrap();
    let command = last.split("; haft ").nth(1).and_then(|it| it.strip_suffix(" shows all")).unwrap();
    let all = test_ws.run(&command.split(' ').collect::<Vec<_>>()).out;
    assert!(all.contains("-300\n"), "{command}: {all}");
}

#[test]
fn undo_puts_back_the_last_call_a_file_or_a_call() {
    let test_ws = TestWorkspace::new();
    for path in ["a", "b"] {
        test_ws.put(path, "one\n");
    }
    let ran = test_ws.run(&["undo"]);
    assert!(ran.code == 1 && ran.err.contains("nothing left to undo in this workspace"), "{ran:?}");
    edit(&test_ws, "a", "one", "two");
    let of_b = edit(&test_ws, "b", "one", "two");
    edit(&test_ws, "a", "two", "three");
    let list = test_ws.run(&["undo", "--list"]).out;
    assert_eq!(list.lines().count(), 3, "{list}");
    assert!(list.contains(&of_b) && list.contains("changed b"), "{list}");
    let state = || (test_ws.text("a"), test_ws.text("b"));
    let is = |a: &str, b: &str| assert_eq!(state(), (format!("{a}\n"), format!("{b}\n")));

    assert_eq!(test_ws.run(&["undo"]).code, 0);
    is("two", "two");
    assert_eq!(test_ws.run(&["undo", "--call", &of_b]).code, 0);
    is("two", "one");
    let path = test_ws.at("a").to_str().unwrap().to_owned();
    assert_eq!(test_ws.run(&["undo", "--path", &path]).code, 0);
    is("one", "one");
    assert_eq!(test_ws.run(&["undo", "--call", &of_b]).code, 1, "it is undone already");
    assert_eq!(test_ws.run(&["undo", "--call", "c_nothing"]).code, 1);
    is("one", "one");
    // An undo is a call like any other: it is in the log, and can be undone.
    let last =
        test_ws.log().into_iter().rfind(|it| it["tool"] == "haft undo" && it["outcome"] == "ok").unwrap();
    assert_eq!(test_ws.run(&["undo", "--call", last["call"].as_str().unwrap()]).code, 0);
    is("two", "one");
}

#[test]
fn undo_of_a_server_s_session_reaches_its_own_changes_only() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a", "one\n");
    test_ws.put("b", "one\n");
    edit(&test_ws, "a", "one", "two");
    let server = test_ws.serve();
    assert!(server.call("undo", &json!({})).is_error, "nothing of this session");
    server.does("edit", &json!({"path": "b", "edits": [{"old": "one", "new": "two"}]}));
    server.does("undo", &json!({}));
    assert_eq!((test_ws.text("a").as_str(), test_ws.text("b").as_str()), ("two\n", "one\n"));
}

#[test]
fn undo_of_a_create_removes_the_file_and_undo_of_that_makes_it_again() {
    let test_ws = TestWorkspace::new();
    test_ws.call("write", &json!({"path": "sub/new", "content": "made\n"})).must("ok");
    assert_eq!(test_ws.run(&["undo"]).code, 0);
    assert!(!test_ws.at("sub/new").exists());
    let list = test_ws.run(&["undo", "--list"]).out;
    let call = list.split_whitespace().next().unwrap();
    assert_eq!(test_ws.run(&["undo", "--call", call]).code, 0, "{list}");
    assert_eq!(test_ws.text("sub/new"), "made\n");
}

#[test]
fn a_file_that_moved_on_is_left_alone() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    edit(&test_ws, "file", "one", "two");
    test_ws.put("file", "somebody else's\n");
    let ran = test_ws.run(&["undo"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("left file alone") && ran.err.contains("somebody else's"), "{ran:?}");
    assert_eq!(test_ws.text("file"), "somebody else's\n");
    std::fs::remove_file(test_ws.at("file")).unwrap();
    let ran = test_ws.run(&["undo"]);
    assert!(ran.err.contains("left file alone"), "{ran:?}");
    assert!(!test_ws.at("file").exists());
}

#[test]
fn the_doctor_finds_that_what_it_tries_holds() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let ran = test_ws.run(&["doctor"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    for number in 1..=14 {
        let line = ran.out.lines().find(|line| line.split_whitespace().next() == Some(&format!("G{number}")));
        assert!(
            line.is_some_and(|line| line.contains("holds") || line.contains("untested")),
            "G{number}: {}",
            ran.out
        );
    }
    for kept in ["G1 ", "G2 ", "G3 ", "G4 ", "G5 ", "G6 ", "G7 ", "G8 ", "G11", "G13", "G14"] {
        assert!(
            ran.out.lines().any(|line| line.trim_start().starts_with(kept) && line.contains("holds")),
            "{kept}: {}",
            ran.out
        );
    }
    let about_tools = "\n  0 loaded, 0 failed, 0 ignored until `haft trust`\n  Python: /";
    assert!(ran.out.contains(about_tools) && ran.out.contains("; uv: "), "{}", ran.out);
    let report: Value = serde_json::from_str(&test_ws.run(&["doctor", "--json"]).out).unwrap();
    assert_eq!(report["findings"].as_array().unwrap().len(), 16);
    assert!(crate::support::names(&test_ws.at("")).is_empty(), "it leaves nothing in the workspace");
    assert!(!crate::support::names(&test_ws.state()).iter().any(|name| name.starts_with("doctor-")));
    assert_eq!(test_ws.run(&["log"]).out, "no calls\n", "its own calls are not in the workspace's log");
}
