//! Calls that work in the background: their results are waited for, and the model reads them.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{events, names, script};
use crate::support::{Ran, TestWorkspace, run};

fn line(say: &str, calls: &[(&str, Value)]) -> String {
    let calls: Vec<Value> =
        calls.iter().map(|(tool, arguments)| json!({"tool": tool, "arguments": arguments})).collect();
    json!({ "say": say, "calls": calls }).to_string() + "\n"
}

/// Returns a call in the background, whose result comes later.
fn promised(command: &str) -> (&'static str, Value) {
    ("shell", json!({"command": command, "run_in_background": true}))
}

/// Returns the script line of an answer that expects this word in the request.
fn when_told(word: &str, say: &str) -> String {
    json!({ "expect": [word], "say": say }).to_string() + "\n"
}

/// Returns a script with a command whose result comes after the model's answer that it waits, and the model's answer to
/// it.
fn late() -> String {
    line("", &[promised("sleep 0.3; echo LATE")])
        + &line("I wait.", &[])
        + &when_told("LATE", "It said LATE.")
}

fn does(test_ws: &TestWorkspace, options: &[&str], lines: &str) -> Ran {
    let model = script(test_ws, lines);
    test_ws.run(&[&["run"], options, &["--model", &model, "go"]].concat())
}

#[test]
fn a_run_waits_for_what_it_promised_and_the_model_reads_the_result() {
    let test_ws = TestWorkspace::new();
    let ran = does(&test_ws, &[], &late());
    assert!(ran.code == 0 && ran.out.ends_with("I wait.\nIt said LATE.\n"), "{ran:?}");
    assert!(ran.err.contains("! waiting for job_1 (sleep 0.3; echo LATE), at most 600 s"), "{ran:?}");
    assert!(!ran.err.contains("stopped with this run"), "{ran:?}");

    let ran = does(&test_ws, &["--json"], &late());
    let events = events(&ran.out);
    let waits = events.iter().find(|it| it["event"] == "waits").unwrap();
    assert_eq!(waits["jobs"][0]["name"], "sleep 0.3; echo LATE");
    let last = events.last().unwrap();
    assert_eq!(
        (&last["ended"], &last["text"], last.get("late")),
        (&json!("done"), &json!("It said LATE."), None)
    );
}

#[test]
fn what_is_not_waited_for_is_ended_and_named() {
    let test_ws = TestWorkspace::new();
    let lines = line("", &[promised("sleep 300")]) + &line("I wait.", &[]);
    let ran = does(&test_ws, &["--no-wait"], &lines);
    assert!(
        ran.code == 0 && ran.err.contains("stopped with this run: job_1 (was not over in time)"),
        "{ran:?}"
    );
    test_ws.put("haft.toml", "[agent]\nwait_seconds = 0\n");
    let ran = does(&test_ws, &["--json"], &lines);
    let last = events(&ran.out).pop().unwrap();
    assert_eq!(last["late"], json!([{"id": "job_1", "name": "sleep 300"}]), "{ran:?}");
}

#[test]
fn a_lasting_terminal_and_a_command_that_goes_on_by_itself_promise_nothing() {
    let test_ws = TestWorkspace::new();
    let calls =
        [("interact", json!({"command": "cat"})), ("shell", json!({"command": "sleep 300", "wait_ms": 50}))];
    let ran = does(&test_ws, &[], &(line("", &calls) + &line("They go on.", &[])));
    assert!(
        ran.code == 0 && ran.out.ends_with("They go on.\n") && !ran.err.contains("waiting for"),
        "{ran:?}"
    );
    assert!(ran.err.contains("stopped with this run: job_1, job_2 (were still running)"), "{ran:?}");
}

#[test]
fn waiting_for_a_result_is_stopped_by_a_signal() {
    let test_ws = TestWorkspace::new();
    let model = script(&test_ws, &(line("", &[promised("sleep 300")]) + &line("I wait.", &[])));
    let mut command: Command = test_ws.haft(&["run", "--json", "--model", &model, "go"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("\"event\":\"waits\"") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut out, &mut line).unwrap() > 0, "it ended before it waited");
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let events = events(&rest);
    assert_eq!(names(&events).last(), Some(&"ended"));
    assert_eq!(events.last().unwrap()["ended"], "cancelled");
}

#[test]
fn a_chat_in_a_pipe_waits_for_what_was_promised_before_it_ends() {
    let test_ws = TestWorkspace::new();
    let model = script(&test_ws, &late());
    let ran = run(&mut test_ws.haft(&["chat", "--model", &model]), "go\n");
    assert!(ran.code == 0 && ran.out.ends_with("I wait.\nIt said LATE.\n"), "{ran:?}");
}

#[test]
fn a_server_in_the_background_is_not_waited_for() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let listens = "python3 -c 'import socket,time; s=socket.socket(); s.bind((\"127.0.0.1\",0)); s.listen(); \
                   time.sleep(1234)'";
    let script = line("", &[promised(listens)]) + &line("It serves.", &[]);
    let ran = does(&test_ws, &[], &script);
    assert!(ran.code == 0 && ran.out.ends_with("It serves.\n"), "{ran:?}");
    assert!(ran.err.contains("stopped with this run: job_1"), "{ran:?}");
}

#[test]
fn a_server_of_the_lasting_bash_is_not_waited_for_and_an_older_one_changes_nothing() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let listens = "python3 -c 'import socket,time; s=socket.socket(); s.bind((\"127.0.0.1\",0)); s.listen(); \
                   print(\"up\", flush=True); time.sleep(1234)'";
    let promised = ("bash", json!({"command": listens, "timeout_s": 600, "run_in_background": true}));
    let script = line("", &[promised]) + &line("It serves.", &[]);
    let ran = does(&test_ws, &[], &script);
    assert!(ran.code == 0 && ran.out.ends_with("It serves.\n"), "{ran:?}");
    assert!(ran.err.contains("stopped with this run: job_1"), "{ran:?}");
    // A process that listens since an earlier call does not answer this one.
    let before = ("bash", json!({"command": format!("mkfifo up; {listens} > up & read it < up")}));
    let owed = ("bash", json!({"command": "sleep 0.3; echo LATE", "run_in_background": true}));
    let script = line("", &[before])
        + &line("", &[owed])
        + &line("I wait.", &[])
        + &when_told("LATE", "It said LATE.");
    let ran = does(&test_ws, &[], &script);
    assert!(ran.code == 0 && ran.out.ends_with("It said LATE.\n"), "{ran:?}");
}

#[test]
fn a_credential_in_an_argument_is_in_no_event_and_not_kept() {
    let test_ws = TestWorkspace::new();
    let call = json!({"url": "http://127.0.0.1:9/", "headers": {"Authorization": "Bearer c4n4ry"}});
    let script = line("", &[("http_request", call)]) + &line("Done.", &[]);
    let ran = does(&test_ws, &["--json", "--session", "kept"], &script);
    assert!(ran.code == 0 && ran.out.contains("[masked]"), "{ran:?}");
    assert!(!ran.out.contains("c4n4ry") && !ran.err.contains("c4n4ry"), "{ran:?}");
    let state =
        std::process::Command::new("grep").args(["-rlaF", "c4n4ry"]).arg(test_ws.state()).output().unwrap();
    assert!(state.stdout.is_empty(), "{}", String::from_utf8_lossy(&state.stdout));
}
