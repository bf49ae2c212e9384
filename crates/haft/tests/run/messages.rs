//! Messages to a conversation: shown between steps, begun with in a chat, and kept for later where nobody runs it.

use std::{process::Stdio, time::Duration};

use serde_json::{Value, json};

use super::{events, script};
use crate::support::TestWorkspace;

/// Waits for a file that another process writes.
fn appears(test_ws: &TestWorkspace, name: &str) {
    for _ in 0..2000 {
        if test_ws.at(name).exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{name} did not appear");
}

#[test]
fn message_to_a_run_is_shown_before_its_next_step_and_its_state_is_listed() {
    let test_ws = TestWorkspace::new();
    let waits = "touch began; until [ -e go ]; do sleep 0.02; done";
    let lines = format!(
        "{}\n{}\n{}\n",
        json!({"calls": [{"tool": "shell", "arguments": {"command": waits}}]}),
        json!({"expect": ["[direct from haft send] look at b.txt", "not the person's words"], "say": "I look.",
            "calls": [{"tool": "read", "arguments": {"path": "b.txt"}}]}),
        json!({"say": "b.txt says b."}),
    );
    let model = script(&test_ws, &lines);
    test_ws.put("b.txt", "b\n");
    let mut command = test_ws.haft(&["run", "--session", "s", "--json", "--model", &model, "go"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    appears(&test_ws, "began");
    let sent = test_ws.run(&["send", "s", "--key", "k", "look", "at", "b.txt"]);
    assert!(
        sent.code == 0 && sent.out.ends_with("to s: the agent gets it before its next step\n"),
        "{sent:?}"
    );
    let again = test_ws.run(&["send", "s", "--key", "k", "look at b.txt"]);
    assert!(again.out.contains("nothing was added"), "{again:?}");
    test_ws.put("go", "");
    let output = child.wait_with_output().unwrap();
    let said = events(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(said.last().unwrap()["text"], "b.txt says b.", "{said:?}");
    let shown: Vec<&Value> = said.iter().filter(|it| it["event"] == "message_shown").collect();
    assert_eq!(
        (shown.len(), &shown[0]["from"], &shown[0]["text"]),
        (1, &json!("haft send"), &json!("look at b.txt"))
    );

    let late = test_ws.run(&["send", "s", "when you go on"]);
    assert!(late.out.contains("no process runs the session"), "{late:?}");
    let listed = test_ws.run(&["sessions", "show", "s"]);
    assert!(listed.out.contains("! message from haft send: look at b.txt"), "{listed:?}");
    assert!(listed.out.trim_end().ends_with("from haft send: when you go on"), "{listed:?}");
    let listed = test_ws.run(&["sessions", "show", "s", "--json"]);
    let inbox = serde_json::from_str::<Value>(&listed.out).unwrap()["inbox"].clone();
    let states: Vec<&Value> = inbox.as_array().unwrap().iter().map(|it| &it["state"]).collect();
    assert_eq!(states, ["acted", "queued"]);
    assert_eq!(
        inbox[0]["calls"].as_array().unwrap().len(),
        1,
        "the call of the answer that followed: {inbox}"
    );
}

#[test]
fn message_that_waited_begins_the_turn_of_a_resumed_run() {
    let test_ws = TestWorkspace::new();
    let model = script(
        &test_ws,
        "{\"say\": \"hello\"}\n{\"expect\": [\"the build is red\"], \"say\": \"I mend it.\"}\n",
    );
    let ran = test_ws.run(&["run", "--session", "s", "--model", &model, "go"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let sent = test_ws.run(&["send", "s", "the build is red"]);
    assert_eq!(sent.code, 0, "{sent:?}");
    let ran = test_ws.run(&["run", "--session", "s", "--resume", "--model", &model]);
    assert!(ran.code == 0 && ran.out.ends_with("I mend it.\n"), "{ran:?}");
}

#[test]
fn unknown_session_and_empty_text_are_refused() {
    let test_ws = TestWorkspace::new();
    let sent = test_ws.run(&["send", "nobody", "x"]);
    assert!(sent.code == 1 && sent.err.contains("no conversation `nobody`"), "{sent:?}");
    let sent = test_ws.run(&["send", "s/explore_1", "x"]);
    assert!(sent.code == 1 && sent.err.contains("no agent `s/explore_1` runs"), "{sent:?}");
}
