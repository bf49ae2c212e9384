//! `haft call` stopped by Ctrl-C: what had come is printed, and the journal says what became of the call.

use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::{TIMEOUT, TestWorkspace};

const SLEEPS: &str = "echo begun; echo x > there; sleep 600";

/// Starts this, and stops it once its command runs.
fn stopped(test_ws: &TestWorkspace, command: &mut Command) -> (Option<i32>, String, String) {
    let child: Child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = std::time::Instant::now() + TIMEOUT;
    while !test_ws.at("there").exists() {
        assert!(std::time::Instant::now() < until, "the command does not begin");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (ended.status.code(), text(ended.stdout), text(ended.stderr))
}

#[test]
fn a_call_that_is_stopped_prints_what_had_come_and_is_in_the_journal() {
    let test_ws = TestWorkspace::new();
    let arguments = json!({"command": SLEEPS, "wait_ms": 600_000}).to_string();
    let (code, out, err) = stopped(&test_ws, &mut test_ws.haft(&["call", "shell", &arguments]));
    assert_eq!(code, Some(130), "{out}\n{err}");
    assert!(out.contains("begun\n[stopped"), "{out}\n{err}");
    assert!(!err.contains("stopped"), "said twice: {err}");
    let last = test_ws.log().pop().unwrap();
    assert_eq!((&last["tool"], &last["outcome"]), (&json!("shell"), &json!("cancelled")), "{last}");
}

#[test]
fn a_batch_that_is_stopped_runs_no_further_line() {
    let test_ws = TestWorkspace::new();
    let lines = [
        json!({"tool": "shell", "arguments": {"command": SLEEPS, "wait_ms": 600_000}}),
        json!({"tool": "write", "arguments": {"path": "after", "content": "x"}}),
    ];
    let batch = test_ws.base().join("batch");
    std::fs::write(&batch, lines.map(|it| format!("{it}\n")).concat()).unwrap();
    let (code, out, err) =
        stopped(&test_ws, &mut test_ws.haft(&["call", "--batch", &batch.display().to_string()]));
    assert_eq!(code, Some(130), "{out}\n{err}");
    assert!(
        out.starts_with("## 1 shell: cancelled\n") && out.contains("begun") && !out.contains("## 2"),
        "{out}"
    );
    assert!(!test_ws.at("after").exists());
}
