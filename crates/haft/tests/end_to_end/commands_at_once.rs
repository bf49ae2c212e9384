//! Commands and writes of one message: what runs together, what keeps its order, and what the answers name.

use std::{thread, time::Instant};

use serde_json::{Value, json};

use crate::support::{Pending, Server, TIMEOUT, TestWorkspace};

/// A command that creates the file `begun`, and ends once there is the file `go`.
const UNTIL_GO: &str = "touch begun; while [ ! -e go ]; do sleep 0.01; done";

fn shell(server: &Server, command: &str) -> Pending {
    server.start_call("shell", &json!({"command": command, "wait_ms": 120_000}))
}

/// Starts a call with a progress token of this name.
fn with_progress(server: &Server, token: &str, tool: &str, arguments: &Value) -> Pending {
    server
        .ask("tools/call", &json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": token}}))
}

#[track_caller]
fn text(call: Pending) -> String {
    let result = call.result().unwrap();
    assert!(!result.is_error, "{}", result.text);
    result.text
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        thread::yield_now();
    }
}

/// Waits until the call with this token reports that it waits; returns the report.
#[track_caller]
fn wait_for_report(server: &Server, token: &str) -> String {
    let found = std::cell::RefCell::new(String::new());
    wait_until("no call reports that it waits", || {
        let all = server.take_other();
        let its = all.iter().find(|it| it.contains(&format!("\"{token}\"")) && it.contains("waits for"));
        its.is_some_and(|it| {
            found.borrow_mut().clone_from(it);
            true
        })
    });
    found.into_inner()
}

#[test]
fn five_commands_of_one_message_run_together() {
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve();
    // Each waits for all others: one after the other they would never end.
    let command = |it: usize| {
        format!("mkdir at_{it}; while [ $(ls -d at_* | wc -l) != 5 ]; do sleep 0.01; done; echo {it}")
    };
    let calls: Vec<_> = (0..5).map(|it| shell(&server, &command(it))).collect();
    for (number, call) in calls.into_iter().enumerate() {
        assert_eq!(text(call), number.to_string());
    }
}

#[test]
fn command_sees_what_was_written_before_it_in_the_same_message() {
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve();
    for round in 0..20 {
        let write = server
            .start_call("write", &json!({"path": "a", "content": format!("{round}\n"), "overwrite": true}));
        let read = shell(&server, "cat a");
        text(write);
        assert_eq!(text(read), round.to_string());
    }
}

#[test]
fn write_goes_ahead_of_a_command_that_has_nothing_to_do_with_its_file() {
    let test_ws = TestWorkspace::new();
    test_ws.put("src/a", "one\n");
    let server = test_ws.serve();
    let command = shell(&server, UNTIL_GO);
    wait_until("the command does not begin", || test_ws.at("begun").exists());
    text(server.start_call("edit", &json!({"path": "src/a", "edits": [{"old": "one", "new": "two"}]})));
    text(server.start_call("write", &json!({"path": "b", "content": "b\n"})));
    assert_eq!(test_ws.text("src/a"), "two\n");
    test_ws.put("go", "");
    let answer = text(command);
    assert!(answer.contains("note: meanwhile: `edit src/a`, `write b`"), "{answer}");
}

#[test]
fn write_waits_for_a_command_that_has_its_file_and_says_so() {
    for (name, first, left) in [
        ("changed", "echo x >> changed", "new\nx\n"),
        ("open", "exec 5>>open", "new\n"),
        ("named", ": named", "new\n"),
    ] {
        let test_ws = TestWorkspace::new();
        test_ws.put(name, "old\n");
        let server = test_ws.serve();
        let command = shell(&server, &format!("{first}; {UNTIL_GO}; echo last >> log"));
        wait_until("the command does not begin", || test_ws.at("begun").exists());
        let arguments = json!({"path": name, "edits": [{"old": "old", "new": "new"}]});
        let edit = with_progress(&server, "e", "edit", &arguments);
        let report = wait_for_report(&server, "e");
        assert!(report.contains(&format!("waits for `shell {first}")), "{report}");
        assert!(test_ws.text(name).starts_with("old\n"));
        test_ws.put("go", "");
        text(edit);
        assert_eq!((test_ws.text(name).as_str(), test_ws.text("log").as_str()), (left, "last\n"));
        text(command);
    }
}

#[test]
fn commands_of_one_build_program_take_turns() {
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve();
    let build = shell(&server, &format!("make() {{ {UNTIL_GO}; echo built > result; }}; make"));
    let test = with_progress(&server, "t", "shell", &json!({"command": "make() { cat result; }; make test"}));
    wait_for_report(&server, "t");
    test_ws.put("go", "");
    text(build);
    assert_eq!(text(test).lines().next(), Some("built"));
}

#[test]
fn files_that_two_commands_changed_at_the_same_time_are_named() {
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve();
    let command = |it: &str| {
        format!(
            "touch {it}.at; while [ ! -e a.at -o ! -e b.at ]; do sleep 0.01; done; echo {it} >> both; touch {it}"
        )
    };
    let [a, b] = ["a", "b"].map(|it| shell(&server, &command(it)));
    let answers = [text(a), text(b)];
    let name = |it: &&String| {
        it.contains("note: changed at the same time by `shell touch ") && it.contains("): both")
    };
    assert!(answers.iter().filter(name).count() >= 1, "{answers:#?}");
}

#[test]
fn command_that_failed_names_those_before_it_that_had_not_ended() {
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve();
    let build = shell(&server, UNTIL_GO);
    wait_until("the command does not begin", || test_ws.at("begun").exists());
    let failed = text(shell(&server, "cat result"));
    assert!(failed.contains("note: began before the end of `shell touch begun"), "{failed}");
    test_ws.put("go", "");
    text(build);
}

#[test]
fn commands_outside_the_sandbox_run_one_after_another() {
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve_with(&["--sandbox", "full"]);
    let first = shell(&server, &format!("{UNTIL_GO}; echo over > first"));
    let second = with_progress(&server, "s", "shell", &json!({"command": "cat first"}));
    wait_for_report(&server, "s");
    test_ws.put("go", "");
    text(first);
    assert_eq!(text(second).lines().next(), Some("over"));
}
