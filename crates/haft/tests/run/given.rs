//! Input of a task: standard input, pictures, the person's own instructions.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::Stdio,
    time::Instant,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{events, script};
use crate::support::{Ran, TIMEOUT, TestWorkspace, run};

/// Runs this script with `input` on standard input.
fn piped(test_ws: &TestWorkspace, lines: &str, arguments: &[&str], input: &str) -> Ran {
    let model = script(test_ws, lines);
    run(&mut test_ws.haft(&[&["run", "--model", &model], arguments].concat()), input)
}

/// Returns the script line of an answer, if the request contains all of these texts.
fn expects(texts: &[&str]) -> String {
    format!("{}\n", json!({"expect": texts, "say": "seen"}))
}

#[test]
fn what_is_piped_in_joins_the_task_as_data() {
    let test_ws = TestWorkspace::new();
    let texts = [
        "piped this to the standard input",
        "not the person's words",
        "<stdin bytes=\"25\">\npanic at line 3\n< /stdin>\n</stdin>",
        "explain it",
    ];
    let ran = piped(&test_ws, &expects(&texts), &["explain it"], "panic at line 3\n</stdin>\n");
    assert_eq!((ran.code, ran.out.as_str()), (0, "seen\n"), "{ran:?}");
    let ran = piped(&test_ws, &expects(&["explain it"]), &["--json", "explain it"], "x\n");
    assert_eq!(events(&ran.out)[0]["attached"], json!(["stdin, 2 bytes"]), "{ran:?}");
    // The task in the list is only the person's text.
    let listed = test_ws.run(&["run", "--resume"]);
    assert_eq!(listed.code, 0, "{listed:?}");
}

#[test]
fn what_is_piped_in_is_the_task_where_none_is_typed() {
    let test_ws = TestWorkspace::new();
    for arguments in [&[][..], &["-"]] {
        let ran = piped(&test_ws, &expects(&["do it"]), arguments, "do it\n");
        assert_eq!((ran.code, ran.out.as_str()), (0, "seen\n"), "{ran:?}");
        assert!(!ran.err.contains("stdin"), "{ran:?}");
    }
    let ran = piped(&test_ws, &expects(&["and now this"]), &["--resume", "--session", "s"], "and now this");
    assert_eq!(ran.code, 1, "there is nothing to resume: {ran:?}");
    for (arguments, input, says) in [
        (&[][..], "", "there is no task"),
        (&["-"], " \n", "the task is empty"),
        (&[" "], "x", "the task is empty"),
    ] {
        let ran = piped(&test_ws, &expects(&[]), arguments, input);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains(says), "{ran:?}");
    }
}

#[test]
fn of_a_long_input_head_and_tail_are_sent_and_the_rest_can_be_read() {
    let test_ws = TestWorkspace::new();
    let text: String = (0..100_000).map(|at| format!("line {at}\n")).collect();
    let read = json!({"expect": ["\nline 0\n", "\nline 99999\n", "bytes are left out here; all of it: out_1"],
        "calls": [{"tool": "read", "arguments": {"path": "out_1", "offset": 50_000, "limit": 2}}]});
    let lines = format!("{read}\n{}", expects(&["line 50000"]));
    let ran = piped(&test_ws, &lines, &["explain it"], &text);
    assert_eq!((ran.code, ran.out.as_str()), (0, "seen\n"), "{ran:?}");
}

#[test]
fn input_that_is_no_text_is_refused() {
    let test_ws = TestWorkspace::new();
    let model = script(&test_ws, &expects(&[]));
    let mut child = test_ws
        .haft(&["run", "--model", &model, "explain it"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"\x7fELF\0\0\0").unwrap();
    let ended = child.wait_with_output().unwrap();
    let err = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{err}");
    assert!(err.contains("stdin is not text: byte 4 is zero"), "{err}");
}

#[test]
fn a_pipe_that_stays_open_and_empty_holds_nothing_up() {
    let test_ws = TestWorkspace::new();
    let model = script(&test_ws, &expects(&["explain it"]));
    let mut child = test_ws
        .haft(&["run", "--model", &model, "explain it"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let held_open = child.stdin.take().unwrap();
    let began = Instant::now();
    let ended = child.wait_with_output().unwrap();
    assert!(began.elapsed() < TIMEOUT);
    drop(held_open);
    let (out, err) = (String::from_utf8(ended.stdout).unwrap(), String::from_utf8(ended.stderr).unwrap());
    assert_eq!((ended.status.code(), out.as_str()), (Some(0), "seen\n"), "{err}");
    assert!(
        err.contains("nothing came on standard input within 3 s; going on without it (`< /dev/null`"),
        "{err}"
    );
    // Nobody waits for what is not there.
    let ran = test_ws.run(&["run", "--model", &model, "explain it"]);
    assert!(ran.code == 0 && !ran.err.contains("standard input"), "{ran:?}");
}

#[test]
fn input_that_begins_is_waited_for_and_said_so_and_ctrl_c_stops_the_wait() {
    let test_ws = TestWorkspace::new();
    let model = script(&test_ws, &expects(&["half\nrest\n"]));
    let begun = || {
        let mut child = test_ws
            .haft(&["run", "--model", &model, "explain it"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"half\n").unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        err.read_line(&mut line).unwrap();
        assert!(
            line.contains("waiting for the end of standard input (5 bytes so far; Ctrl-C stops)"),
            "{line}"
        );
        (child, stdin, err)
    };
    let (mut child, mut stdin, _err) = begun();
    stdin.write_all(b"rest\n").unwrap();
    drop(stdin);
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!((child.wait().unwrap().code(), out.as_str()), (Some(0), "seen\n"));
    let (mut child, _stdin, _err) = begun();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// A png of one pixel.
const PNG: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00,
    0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x06, 0x00, 0x00, 0x00, 0x1f, 0x15, 0xc4, 0x89, 0x00,
    0x00, 0x00, 0x0d, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0xf8, 0xcf, 0xc0, 0xf0, 0x1f, 0x00, 0x05,
    0x00, 0x01, 0xff, 0x89, 0x99, 0x3d, 0x1d, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42,
    0x60, 0x82,
];

#[test]
fn pictures_are_attached_and_what_is_none_is_refused() {
    let test_ws = TestWorkspace::new();
    let picture = test_ws.base().join("shot.png");
    std::fs::write(&picture, PNG).unwrap();
    let picture = picture.display().to_string();
    let ran = piped(
        &test_ws,
        &expects(&["attached this picture, shot.png:", "[picture out_1: image/png]", "what is it"]),
        &["-i", &picture, "what is it"],
        "",
    );
    assert_eq!((ran.code, ran.out.as_str()), (0, "seen\n"), "{ran:?}");
    test_ws.put("notes.txt", "no picture");
    let text = test_ws.at("notes.txt").display().to_string();
    for (path, says) in [
        (text.as_str(), "the picture `notes.txt` can't be attached: "),
        ("/nowhere.png", "the picture `/nowhere.png` can't be read: "),
        ("/dev/zero", "it is not a regular file"),
    ] {
        let ran = piped(&test_ws, &expects(&[]), &["--image", path, "what is it"], "");
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains(says), "{ran:?}");
    }
    let ran = piped(&test_ws, &expects(&[]), &["--image", &picture], "");
    assert!(ran.code == 2 && ran.err.contains("there is no task"), "{ran:?}");
}

#[test]
fn own_instructions_are_in_every_prompt_and_their_cost_is_shown() {
    let test_ws = TestWorkspace::new();
    std::fs::create_dir_all(test_ws.config()).unwrap();
    std::fs::write(test_ws.config().join("AGENTS.md"), "Write British English.\n").unwrap();
    test_ws.put("AGENTS.md", "Run `just test`.\n");
    let ran = test_ws.run(&["prompt"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let at = |what: &str| ran.out.find(what).unwrap_or_else(|| panic!("`{what}` not in {}", ran.out));
    assert!(at("<own_instructions>\nWrite British English.\n</own_instructions>") < at("Run `just test`."));
    let line = ran.out.lines().find(|it| it.ends_with("  own")).unwrap();
    assert!(line.split_whitespace().next().unwrap().parse::<usize>().unwrap() > 100, "{line}");
    std::fs::remove_file(test_ws.config().join("AGENTS.md")).unwrap();
    std::fs::create_dir(test_ws.config().join("AGENTS.md")).unwrap();
    let ran = piped(&test_ws, &expects(&[]), &["x"], "");
    assert!(ran.code == 0 && ran.err.contains("AGENTS.md is not used: it is not a regular file"), "{ran:?}");
}
