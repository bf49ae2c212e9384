//! Hooks of an agent: the message, the end of a turn, the session.

use serde_json::{Value, json};

use super::{own, printing};
use crate::support::{Ran, TestWorkspace};

fn play(test_ws: &TestWorkspace, lines: &[Value]) -> Ran {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let path = test_ws.outside().join("script.jsonl");
    std::fs::write(&path, text).unwrap();
    test_ws.run(&["run", "--json", "--model", &format!("script:{}", path.display()), "do it"])
}

#[test]
fn stop_hook_makes_the_model_go_on_a_bounded_number_of_times() {
    let test_ws = TestWorkspace::new();
    let once = "[[hook]]\nevent = \"stop\"\ncommand = '''grep -q '\"stop_hook_active\":false' && { echo 'run the tests' >&2; exit 2; }; exit 0'''\n";
    own(&test_ws, once);
    let ran =
        play(&test_ws, &[json!({"say": "done"}), json!({"expect": ["run the tests"], "say": "tests pass"})]);
    assert!(ran.code == 0 && ran.out.contains("tests pass"), "{ran:?}");
    own(&test_ws, "[[hook]]\nevent = \"stop\"\ncommand = \"echo more >&2; exit 2\"\n");
    let lines: Vec<Value> =
        (0..20).map(|at| json!({"say": format!("answer {at} {}", "word ".repeat(4_000))})).collect();
    let ran = play(&test_ws, &lines);
    assert!(ran.code == 0 && ran.out.contains("answer 8") && !ran.out.contains("answer 9"), "{ran:?}");
}

#[test]
fn message_that_a_hook_refuses_does_not_reach_the_model() {
    let test_ws = TestWorkspace::new();
    own(&test_ws, "[[hook]]\nevent = \"prompt_submit\"\ncommand = \"echo 'no orders today' >&2; exit 2\"\n");
    let ran = play(&test_ws, &[json!({"say": "hello"})]);
    assert!(ran.code != 0 && !ran.out.contains("hello"), "{ran:?}");
    assert!(format!("{ran:?}").contains("no orders today"), "{ran:?}");
}

#[test]
fn context_of_a_message_and_of_a_session_s_start_is_attached_as_data() {
    let test_ws = TestWorkspace::new();
    let start =
        "[[hook]]\nevent = \"session_start\"\nmatch = \"startup\"\ncommand = \"echo it is release week\"\n";
    let prompt =
        printing("prompt_submit", &json!({"hookSpecificOutput": {"additionalContext": "branch main"}}));
    own(&test_ws, &format!("{start}{prompt}"));
    let expect = [
        "A hook of the configuration added this",
        "it is release week",
        "branch main",
        "not the person's words",
    ];
    let ran = play(&test_ws, &[json!({"expect": expect, "say": "seen"})]);
    assert!(ran.code == 0 && ran.out.contains("seen"), "{ran:?}");
}

#[test]
fn end_of_a_session_runs_its_hook() {
    let test_ws = TestWorkspace::new();
    own(&test_ws, "[[hook]]\nevent = \"session_end\"\ncommand = \"cat > ended.json\"\nwrite = true\n");
    let ran = play(&test_ws, &[json!({"say": "bye"})]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let said: Value = serde_json::from_str(&test_ws.text("ended.json")).unwrap();
    assert_eq!((&said["hook_event_name"], &said["reason"]), (&json!("SessionEnd"), &json!("other")));
}

#[test]
fn hook_s_failure_is_a_note_for_the_person_and_continue_false_ends_the_turn() {
    let test_ws = TestWorkspace::new();
    own(&test_ws, "[[hook]]\nevent = \"before_tool\"\ncommand = \"echo broken >&2; exit 1\"\n");
    let read = json!({"calls": [{"tool": "tree", "arguments": {}}]});
    let ran = play(&test_ws, &[read.clone(), json!({"say": "done"})]);
    assert!(ran.code == 0 && ran.out.contains("ended with exit code 1: broken"), "{ran:?}");
    own(&test_ws, &printing("after_tool", &json!({"continue": false, "stopReason": "budget is gone"})));
    let ran = play(&test_ws, &[read, json!({"say": "not reached"})]);
    assert!(!ran.out.contains("not reached") && ran.out.contains("budget is gone"), "{ran:?}");
}

#[test]
fn hook_is_told_that_a_call_waits_for_approval() {
    let test_ws = TestWorkspace::new();
    let seen = test_ws.at("seen.json");
    own(
        &test_ws,
        "[[hook]]\nevent = \"notification\"\nmatch = \"permission_prompt\"\ncommand = \"cat > seen.json\"\nwrite = true\n",
    );
    let call = json!({"calls": [{"tool": "shell", "arguments": {"command": "rm -rf /etc/nothing", "sandbox": "off"}}]});
    let write = json!({"calls": [{"tool": "write", "arguments": {"path": ".mcp.json", "content": "{}"}}]});
    let ran = play(&test_ws, &[call, write, json!({"say": "it was refused"})]);
    assert!(ran.out.contains("it was refused"), "{ran:?}");
    let input: Value = serde_json::from_str(&std::fs::read_to_string(seen).unwrap()).unwrap();
    assert_eq!(input["hook_event_name"], "Notification", "{input}");
    assert_eq!(input["notification_type"], "permission_prompt");
    assert!(input["message"].as_str().unwrap().contains("waits for approval"), "{input}");
}

#[test]
fn hook_keeps_a_conversation_from_being_compacted() {
    let test_ws = TestWorkspace::new();
    own(
        &test_ws,
        "[[hook]]\nevent = \"pre_compact\"\nmatch = \"manual\"\ncommand = '''grep -q '\"trigger\":\"manual\"' && { echo 'keep it whole' >&2; exit 2; }'''\n",
    );
    let ran = test_ws.run(&["hooks", "test", "pre_compact"]);
    assert!(ran.code == 1 && ran.out.contains("keep it whole"), "{ran:?}");
    let lines: String = (0..6)
        .map(|at| format!("{}\n", json!({"say": format!("answer {at} {}", "word ".repeat(4_000))})))
        .collect();
    let path = test_ws.outside().join("long.jsonl");
    std::fs::write(&path, lines).unwrap();
    let model = format!("script:{}", path.display());
    let mut chat = test_ws.haft(&["chat", "--model", &model]);
    let ran = crate::support::run(&mut chat, "one\ntwo\nthree\n/compact\nfour\n");
    assert!(format!("{ran:?}").contains("keep it whole"), "{ran:?}");
    assert!(ran.out.contains("answer 3"), "{ran:?}");
}
