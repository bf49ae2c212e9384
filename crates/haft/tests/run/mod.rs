//! `haft run`: does a task, writes streams that a program can read, and stops on request.

mod background;
mod given;
mod messages;
mod output;
mod request;
mod terminal;

use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Command, Stdio},
};

use crate::support::TestWorkspace;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/fix-a-test");

/// Writes a script in this workspace; returns its name for `--model`.
fn script(test_ws: &TestWorkspace, lines: &str) -> String {
    let path = test_ws.base().join("script.jsonl");
    std::fs::write(&path, lines).unwrap();
    format!("script:{}", path.display())
}

fn events(out: &str) -> Vec<Value> {
    out.lines().map(|it| serde_json::from_str(it).unwrap_or_else(|_| panic!("{it}"))).collect()
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|it| it["event"].as_str().unwrap()).collect()
}

/// Starts a task that runs until it is stopped; returns once its first call has begun.
fn begun(
    test_ws: &TestWorkspace,
    model: &str,
) -> (std::process::Child, BufReader<std::process::ChildStdout>) {
    let mut command: Command = test_ws.haft(&["run", "--json", "--model", model, "wait"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("\"event\":\"called\"") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "it ended before it called anything");
    }
    (child, out)
}

#[test]
fn the_example_fixes_its_test_with_real_tools() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    for file in ["prices.py", "test_prices.py"] {
        test_ws.put(file, std::fs::read(Path::new(EXAMPLE).join("project").join(file)).unwrap());
    }
    let ran =
        test_ws.run(&["run", "--model", &format!("script:{EXAMPLE}/script.jsonl"), "fix the failing test"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.out.starts_with("I run the tests first.\n") && ran.out.ends_with("both tests pass.\n"),
        "{}",
        ran.out
    );
    assert!(ran.err.contains("< shell python3 -m unittest") && ran.err.contains(": exit 1, "), "{}", ran.err);
    assert!(ran.err.contains("haft: done: 5 steps, "), "{}", ran.err);
    assert!(!ran.err.contains("\n> "), "each call is told once: {}", ran.err);
    assert!(test_ws.text("prices.py").contains("(100 - discount) / 100"));
}

#[test]
fn events_are_lines_from_began_to_ended() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "hello\n");
    let model = script(
        &test_ws,
        "{\"say\": \"I read.\", \"calls\": [{\"tool\": \"read\", \"arguments\": {\"path\": \"a.txt\"}}]}\n{\"say\": \"Done.\"}\n",
    );
    let ran = test_ws.run(&["run", "--json", "--model", &model, "read it"]);
    let events = events(&ran.out);
    let names = names(&events);
    assert_eq!((ran.code, names[0], names[names.len() - 1]), (0, "began", "ended"), "{ran:?}");
    let last = &events[events.len() - 1];
    assert_eq!((&last["ended"], &last["text"], &last["steps"]), (&"done".into(), &"Done.".into(), &2.into()));
    assert_eq!(events[0]["session"], last["session"]);
    assert!(names.contains(&"called") && names.contains(&"answered"), "{names:?}");
}

#[test]
fn link_of_a_shared_file_is_shown_and_opens_the_file() {
    let test_ws = TestWorkspace::new();
    test_ws.put("report.txt", "all is well\n");
    let call = "{\"say\": \"\", \"calls\": [{\"tool\": \"share_file\", \"arguments\": {\"path\": \"report.txt\"}}]}\n";
    let model = script(&test_ws, &format!("{call}{{\"say\": \"Done.\"}}\n"));
    let ran = test_ws.run(&["run", "--model", &model, "share it"]);
    let link = ran.err.lines().find_map(|it| it.trim().strip_prefix("report.txt: file://"));
    let link = link.unwrap_or_else(|| panic!("{ran:?}"));
    assert_eq!(std::fs::read_to_string(link).unwrap(), "all is well\n");
}

#[test]
fn what_can_not_begin_says_what_to_do() {
    let test_ws = TestWorkspace::new();
    for (arguments, code, says) in [
        (&["run"][..], 2, "haft run \"fix the failing test\""),
        (&["run", "x"], 2, "no model was named"),
        (&["run", "x", "--model", "script:/nowhere"], 1, "/nowhere"),
        (&["run", "--max-steps", "0", "x"], 2, "it must be a whole number, 1 or more"),
        (&["run", "--resume"], 1, "no conversation yet"),
        (&["run", "--resume", "--session", "nope", "x"], 1, "no conversation `nope`"),
    ] {
        let ran = test_ws.run(arguments);
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(ran.err.contains(says), "{ran:?}");
    }
    let ran = test_ws.run(&["run", "--json", "x"]);
    assert_eq!(names(&events(&ran.out)), ["ended"], "{ran:?}");
    let model = script(&test_ws, "{\"say\": \"x\"}\n");
    let ran = crate::support::run(&mut test_ws.haft(&["run", "--model", &model, "-"]), " \n");
    assert_eq!(ran.code, 2, "{ran:?}");
    let ran = crate::support::run(&mut test_ws.haft(&["run", "--model", &model, "-"]), "do it\n");
    assert_eq!((ran.code, ran.out.as_str()), (0, "x\n"), "{ran:?}");
}

#[test]
fn a_limit_is_exit_code_1_and_the_conversation_goes_on_after_it() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "hello\n");
    let model = script(
        &test_ws,
        "{\"calls\": [{\"tool\": \"read\", \"arguments\": {\"path\": \"a.txt\"}}]}\n{\"expect\": [\"You were stopped here\"], \"say\": \"It says hello.\"}\n",
    );
    let ran = test_ws.run(&["run", "--max-steps", "1", "--model", &model, "read it"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("haft: stopped: --max-steps reached; 1 step, "), "{ran:?}");
    assert!(ran.err.contains("haft: to continue: haft --dir "), "{ran:?}");
    assert!(ran.err.contains("run --resume --session s_"), "{ran:?}");
    // With the model that it had.
    let ran = test_ws.run(&["run", "--resume"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "It says hello.\n"), "{ran:?}");
    let ran = test_ws.run(&["run", "--resume"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
    assert!(ran.err.contains("haft: nothing to resume") && ran.err.contains(" \"TASK\""), "{ran:?}");
}

#[test]
fn a_conversation_goes_on_under_its_profile_until_the_person_says_otherwise() {
    let test_ws = TestWorkspace::new();
    let writes = |name: &str| {
        format!(
            "{{\"calls\": [{{\"tool\": \"write\", \"arguments\": {{\"path\": \"{name}\", \"content\": \"x\"}}}}]}}\n{{\"say\": \"so\"}}\n"
        )
    };
    let model = script(&test_ws, &format!("{{\"say\": \"a plan\"}}\n{}{}", writes("one"), writes("two")));
    assert_eq!(test_ws.run(&["run", "--plan", "--model", &model, "plan it"]).code, 0);
    let ran = test_ws.run(&["run", "--resume", "go on"]);
    assert!(ran.code == 0 && ran.err.contains("using profile `plan`"), "{ran:?}");
    assert!(!test_ws.at("one").exists(), "{ran:?}");
    let ran = test_ws.run(&["run", "--resume", "--profile", "none", "go on"]);
    assert!(ran.code == 0 && test_ws.at("two").exists(), "{ran:?}");
}

#[test]
fn a_signal_stops_it_with_130_and_it_can_go_on() {
    let test_ws = TestWorkspace::new();
    let lines = "{\"calls\": [{\"tool\": \"shell\", \"arguments\": {\"command\": \"sleep 600\", \"wait_ms\": 600000}}]}\n{\"say\": \"On.\"}\n";
    let model = script(&test_ws, lines);
    for signal in [Signal::INT, Signal::TERM] {
        let (mut child, mut out) = begun(&test_ws, &model);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
        assert!(rest.contains("\"ended\":\"cancelled\""), "{rest}");
    }
    let ran = test_ws.run(&["run", "--resume", "--model", &model, "go on"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "On.\n"), "{ran:?}");
}

#[test]
fn a_reader_that_goes_away_stops_it_without_a_panic() {
    let test_ws = TestWorkspace::new();
    let model = script(
        &test_ws,
        "{\"say\": \"one two three four five six seven eight nine ten\", \"chunks\": 20, \"chunk_ms\": 20}\n",
    );
    let mut child = test_ws
        .haft(&["run", "--model", &model, "count"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    assert!(said.contains("standard output is closed") && !said.contains("panic"), "{said}");
}
