//! Tests: how the tools word notes, and what they refuse.

use kit::testing::TestWorkspace;
use serde_json::json;

use super::{scratchpad::Scratchpad, search_memory::SearchMemory, *};

#[test]
fn a_list_of_tasks_is_set_marked_shown_and_cleared() {
    let test_ws = TestWorkspace::empty();
    let says = |arguments| test_ws.says::<Todo>(&arguments);
    assert_eq!(says(json!({})), "no tasks");
    assert_eq!(
        says(
            json!({"action": "set", "tasks": ["look\naround", {"content": "mend", "status": "in_progress"}]})
        ),
        "1. [pending] look around\n2. [in_progress] mend\n0 of 2 done"
    );
    assert_eq!(
        says(json!({"action": "update", "task": 1, "status": "done"})),
        "1. [done] look around\n2. [in_progress] mend\n1 of 2 done"
    );
    assert_eq!(says(json!({"op": "view"})), "1. [done] look around\n2. [in_progress] mend\n1 of 2 done");
    let fault = says(json!({"action": "update", "task": 3, "status": "done"}));
    assert!(
        fault.starts_with("not_found: there is no task 3; the list has 2\nThe list:\n1. [done]"),
        "{fault}"
    );
    assert!(says(json!({"action": "update", "task": 1})).starts_with("bad_args: `update` needs"));
    assert!(says(json!({"action": "set"})).starts_with("bad_args: `set` needs `tasks`"));
    assert!(says(json!({"action": "set", "tasks": ["a", " "]})).contains("task 2 of `tasks` is empty"));
    assert!(says(json!({"action": "set", "tasks": vec!["x"; 101]})).starts_with("too_big: 101 tasks"));
    assert_eq!(says(json!({"action": "clear"})), "no tasks");
}

#[test]
fn a_task_stays_one_bounded_line() {
    let test_ws = TestWorkspace::empty();
    let text = test_ws.says::<Todo>(&json!({"action": "set", "tasks": ["x".repeat(10_000)]}));
    assert!(text.len() < 600, "{} bytes", text.len());
}

#[test]
fn sections_are_written_grown_read_listed_and_cleared() {
    let test_ws = TestWorkspace::empty();
    let says = |arguments| test_ws.says::<Scratchpad>(&arguments);
    assert_eq!(says(json!({"action": "read"})), "`main` is empty\nno sections");
    assert_eq!(says(json!({"action": "write", "content": "one"})), "wrote 3 bytes to `main`");
    assert_eq!(says(json!({"action": "append", "content": "two"})), "`main` has 7 bytes now");
    assert_eq!(says(json!({"op": "append", "section": "goal", "content": "win"})), "`goal` has 3 bytes now");
    assert_eq!(says(json!({"action": "read"})), "one\ntwo");
    assert_eq!(says(json!({"action": "list"})), "goal: 3 bytes\nmain: 7 bytes");
    assert_eq!(
        says(json!({"action": "read", "section": "errors"})),
        "`errors` is empty\ngoal: 3 bytes\nmain: 7 bytes"
    );
    assert_eq!(says(json!({"action": "clear"})), "cleared `main`");
    assert_eq!(says(json!({"action": "clear"})), "`main` was empty");
    assert_eq!(says(json!({"action": "write"})), "bad_args: `write` needs `content`");
    assert!(says(json!({"action": "read", "section": "a\nb"})).starts_with("bad_args: \"a\\nb\" can't be"));
}

#[test]
fn storage_is_bounded_and_earlier_entries_stay() {
    let test_ws = TestWorkspace::empty();
    let says = |arguments| test_ws.says::<Scratchpad>(&arguments);
    says(json!({"action": "write", "content": "x".repeat(64 << 10)}));
    let fault = says(json!({"action": "append", "content": "y"}));
    assert!(fault.starts_with("too_big: section `main` would have 65538 bytes"), "{fault}");
    assert_eq!(says(json!({"action": "list"})), "main: 65536 bytes");
    for at in 1..64 {
        says(json!({"action": "write", "section": format!("s{at}"), "content": "x"}));
    }
    assert!(
        says(json!({"action": "write", "section": "more", "content": "x"}))
            .starts_with("too_big: there are 64")
    );
    assert_eq!(says(json!({"action": "write", "section": "s1", "content": "new"})), "wrote 3 bytes to `s1`");
}

#[test]
fn missing_and_oversized_arguments_of_memory_are_named() {
    let test_ws = TestWorkspace::empty();
    let says = |arguments| test_ws.says::<Memory>(&arguments);
    assert_eq!(says(json!({"action": "search"})), "nothing is remembered yet");
    assert_eq!(says(json!({"action": "search", "query": "x"})), "no fact answers to `x`");
    assert!(says(json!({"action": "save", "content": " "})).starts_with("bad_args: `save` needs `content`"));
    assert!(says(json!({"action": "forget"})).starts_with("bad_args: `forget` needs `id`"));
    assert!(
        says(json!({"action": "save", "content": "x".repeat(5_000)}))
            .starts_with("too_big: the fact has 5000")
    );
}

#[test]
fn a_search_that_finds_nothing_says_so() {
    let text = TestWorkspace::empty().says::<SearchMemory>(&json!({"query": "x\"*"}));
    assert_eq!(text, "nothing that was said here answers to `x\"*`");
}
