//! Answers and commands of the person that the end of a process cut off: their text and output are kept.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::Stdio,
};

use serde_json::{Value, json};

use super::support::{Life, SESSION, TestWorkspace};

const MARK: &str = "[cut off: haft's process ended here]";

/// Runs the script until the model has said all of `said` since its last call, and kills the process.
fn kill_after(test_ws: &TestWorkspace, arguments: &[&str], said: &str) {
    let mut life = Life::begin(&mut test_ws.run(arguments));
    let mut text = String::new();
    while let Some(event) = life.event() {
        match event["event"].as_str().unwrap() {
            "text" => text.push_str(event["text"].as_str().unwrap()),
            "called" => text.clear(),
            _ => {}
        }
        if text == said {
            return;
        }
    }
    panic!("the process ended before it was killed: {text:?}");
}

/// Returns an answer that never ends.
fn endless(said: &str) -> Value {
    json!({"say": said, "chunks": 3, "end_ms": 3_600_000})
}

/// Asserts that the text is shown, marked as cut off, once.
fn is_shown_once(test_ws: &TestWorkspace, said: &str) {
    let shown = test_ws.sessions(&["show", SESSION]);
    assert!(shown.contains(&format!("\n{said}\n{MARK}\n")), "{shown}");
    let markdown = test_ws.sessions(&["export", SESSION]);
    assert!(markdown.contains(&format!("## Model\n\n{said}\n\n> {MARK}\n")), "{markdown}");
    let json: Value =
        serde_json::from_str(&test_ws.sessions(&["export", SESSION, "--format", "json"])).unwrap();
    let cut: Vec<&Value> =
        json["messages"].as_array().unwrap().iter().filter(|it| it["cut_off"] == true).collect();
    assert_eq!(cut.iter().filter(|it| it["text"] == said).count(), 1, "{json}");
    for text in [&shown, &markdown] {
        assert_eq!(text.matches(said).count(), 1, "{text}");
    }
}

#[test]
fn text_of_a_killed_answer_is_shown_once_and_marked_also_after_the_session_went_on() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "content\n");
    let look = json!({"say": "I look first.", "calls": [{"tool": "read", "arguments": {"path": "a.txt"}}]});
    test_ws.script(&[look.clone(), endless("The first half of")]);
    kill_after(&test_ws, &["go"], "The first half of");
    is_shown_once(&test_ws, "The first half of");
    let shown = test_ws.sessions(&["show", SESSION]);
    assert!(shown.matches("I look first.").count() == 1 && shown.matches(MARK).count() == 1, "{shown}");
    // A process that goes on keeps the text. Killed again, it leaves one more.
    test_ws.script(&[look.clone(), endless("Second try")]);
    kill_after(&test_ws, &["--resume"], "Second try");
    is_shown_once(&test_ws, "Second try");
    test_ws.script(&[look, json!({"say": "Whole."})]);
    assert!(test_ws.run(&["--resume"]).output().unwrap().status.success());
    is_shown_once(&test_ws, "The first half of");
    is_shown_once(&test_ws, "Second try");
    let shown = test_ws.sessions(&["show", SESSION]);
    let order = ["I look first.", "The first half of", "Second try", "Whole."];
    let at = order.map(|it| shown.find(it).unwrap_or_else(|| panic!("{it}: {shown}")));
    assert!(at.is_sorted() && shown.matches(MARK).count() == 2, "{shown}");
}

#[test]
fn text_of_a_killed_answer_is_shown_to_who_attaches_and_found_by_a_search() {
    let test_ws = TestWorkspace::new();
    test_ws.script(&[endless("A kumquat is a")]);
    kill_after(&test_ws, &["go"], "A kumquat is a");
    test_ws.script(&[json!({"say": "Whole."})]);
    let mut attached = test_ws.chat(&["--attach", SESSION]).stdin(Stdio::piped()).spawn().unwrap();
    attached.stdin.take().unwrap().write_all(b"and now\n").unwrap();
    let ran = attached.wait_with_output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let err = String::from_utf8(ran.stderr).unwrap();
    assert!(err.contains(&format!("A kumquat is a\n{MARK}\n")), "{err}");
    is_shown_once(&test_ws, "A kumquat is a");
    assert!(test_ws.sessions(&["search", "kumquat"]).contains(SESSION));
}

#[test]
fn output_of_the_persons_commands_reaches_the_model_after_the_process_was_killed() {
    let test_ws = TestWorkspace::new();
    let fifo = test_ws.at("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    test_ws.script(&[json!({"say": "No."})]);
    let mut chat = test_ws.chat(&[]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = chat.stdin.take().unwrap();
    lines.write_all(b"!echo kept\n!echo runs > fifo; sleep 3600\n").unwrap();
    let mut out = BufReader::new(chat.stdout.take().unwrap()).lines();
    assert_eq!(out.next().unwrap().unwrap(), "kept");
    let mut began = String::new();
    std::fs::File::open(&fifo).unwrap().read_to_string(&mut began).unwrap();
    chat.kill().unwrap();
    chat.wait().unwrap();
    let expect = [
        "$ echo kept\nkept",
        "$ echo runs > fifo; sleep 3600\n(haft's process ended while this command ran",
        "what came of it?",
    ];
    test_ws.script(&[json!({"say": "I see.", "expect": expect}), json!({"say": "Again."})]);
    let mut chat = test_ws.chat(&["--resume"]).stdin(Stdio::piped()).spawn().unwrap();
    chat.stdin.take().unwrap().write_all(b"what came of it?\nand now?\n").unwrap();
    let ran = chat.wait_with_output().unwrap();
    assert!(ran.status.success() && String::from_utf8_lossy(&ran.stdout).contains("I see.\n"), "{ran:?}");
    let items = serde_json::to_string(&test_ws.items()).unwrap();
    assert_eq!(items.matches("$ echo kept").count(), 1, "{items}");
}
