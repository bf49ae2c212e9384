//! Files that a process of an earlier call keeps open, and goes on writing.

use serde_json::json;

use super::{prepare, tree::Tree};
use crate::support::TestWorkspace;

fn bash(command: &str) -> (&'static str, serde_json::Value) {
    ("bash", json!({"command": command}))
}

#[test]
fn later_call_that_writes_to_an_open_file_is_undone_by_itself() {
    let test_ws = TestWorkspace::new();
    prepare(&test_ws, "");
    let before = Tree::of(&test_ws.at(""));
    let calls =
        [bash("exec 3<>README; echo one >&3"), bash("echo two >&3"), bash("exec 3>&-; echo 3 > docs/letter")];
    let called = test_ws.batch(&[], &calls);
    assert_eq!(test_ws.text("README"), "one\ntwo\n");
    let list = test_ws.run(&["undo", "--list"]).out;
    assert!(list.contains(called[1].id()), "the later writing is not in\n{list}");
    let undo = |call: &str| test_ws.run(&["undo", "--call", call]);
    let undone = undo(called[1].id());
    assert_eq!(test_ws.text("README"), "one\nme\n", "{undone:?}");
    assert_eq!(test_ws.text("docs/letter"), "3\n");
    undo(called[2].id());
    let undone = undo(called[0].id());
    assert_eq!(before.differences(&Tree::of(&test_ws.at(""))), Vec::<String>::new(), "{undone:?}");
}

#[test]
fn answer_names_a_file_that_was_still_open_when_it_changed() {
    let test_ws = TestWorkspace::new();
    prepare(&test_ws, "");
    let server = test_ws.serve();
    server.does("bash", &json!({"command": "exec 3>>README; echo one >&3"}));
    // A process of the first call writes while no call runs.
    server.does(
        "bash",
        &json!({"command": "(while [ ! -e go ]; do sleep 0.01; done; echo two >&3; echo > done) & true"}),
    );
    test_ws.put("go", "");
    let until = std::time::Instant::now() + crate::support::TIMEOUT;
    while !test_ws.at("done").exists() {
        assert!(std::time::Instant::now() < until);
        std::thread::yield_now();
    }
    let log = test_ws.log();
    let first = log.iter().find(|it| it.to_string().contains("exec 3>>README")).unwrap();
    let undone = test_ws.run(&["undo", "--call", first["call"].as_str().unwrap()]);
    let said = format!("{}{}", undone.out, undone.err);
    assert!(said.contains("left README alone") && said.contains("open for writing"), "{said}");
    assert_eq!(test_ws.text("README"), "readme\none\ntwo\n", "nothing is lost");
    let _ = server.finish();
}

#[test]
fn job_that_writes_is_undone_once_it_has_ended() {
    let test_ws = TestWorkspace::new();
    prepare(&test_ws, "");
    let before = Tree::of(&test_ws.at(""));
    let server = test_ws.serve();
    let command = "exec 3<>README; echo > begun; while [ ! -e stop ]; do echo line >&3; echo $RANDOM > docs/letter; sleep 0.01; done";
    server.does("shell", &json!({"command": command, "wait_ms": 0}));
    let until = std::time::Instant::now() + crate::support::TIMEOUT;
    while !test_ws.at("begun").exists() {
        assert!(std::time::Instant::now() < until);
        std::thread::yield_now();
    }
    let call =
        test_ws.log().iter().find(|it| it["tool"] == "shell").unwrap()["call"].as_str().unwrap().to_owned();
    let undone = test_ws.run(&["undo", "--call", &call]);
    let said = format!("{}{}", undone.out, undone.err);
    assert!(said.contains("still runs"), "{said}");
    test_ws.put("stop", "");
    while server.does("shell_status", &json!({"action": "list"})).contains("running") {
        std::thread::yield_now();
    }
    let _ = server.finish();
    std::fs::remove_file(test_ws.at("stop")).unwrap();
    let undone = test_ws.run(&["undo", "--call", &call]);
    let left = before.differences(&Tree::of(&test_ws.at("")));
    let left: Vec<_> = left.into_iter().filter(|it| !it.starts_with(": time ")).collect();
    assert_eq!(left, Vec::<String>::new(), "{undone:?}");
}
