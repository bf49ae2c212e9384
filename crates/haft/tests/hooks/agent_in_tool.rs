//! Tools that ask an agent: the example `examples/guard`, with models written beforehand.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Ran, TestWorkspace, run};

const GUARD: &str = include_str!("../../../../examples/guard/.haft/tools/guard.py");
const JUDGE: &str = include_str!("../../../../examples/guard/.haft/agents/judge.md");
const CONFIG: &str = include_str!("../../../../examples/guard/haft.toml");

fn lines(test_ws: &TestWorkspace, name: &str, lines: &[Value]) -> String {
    let path = test_ws.outside().join(name);
    fs::write(&path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    format!("script:{}", path.display())
}

/// Returns a workspace with the example, whose judge answers this.
fn guarded(answers: &[Value]) -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    let judge = lines(&test_ws, "judge.jsonl", answers);
    test_ws.put(".haft/tools/guard.py", GUARD);
    test_ws.put(".haft/agents/judge.md", JUDGE.replacen("---\n", &format!("---\nmodel: \"{judge}\"\n"), 1));
    test_ws.put("haft.toml", CONFIG);
    test_ws
}

fn play(test_ws: &TestWorkspace) -> Ran {
    let call = json!({"calls": [{"tool": "shell", "arguments": {"command": "echo it-ran"}}]});
    let model = lines(test_ws, "main.jsonl", &[call, json!({"say": "done"})]);
    let mut haft = test_ws.haft(&["--trust", "run", "--json", "--model", &model, "do it"]);
    run(haft.env("PATH", "/usr/local/bin:/usr/bin:/bin"), "")
}

#[test]
fn judging_agent_in_a_guard_tool_refuses_and_allows() {
    let no = json!({"say": json!({"safe": false, "why": "it prints"}).to_string()});
    let ran = play(&guarded(&[no]));
    assert!(ran.out.contains("it prints"), "{ran:?}");
    assert!(ran.out.contains("\"under\"") && ran.out.contains("judge_"), "its events are seen: {ran:?}");
    let yes = json!({"say": json!({"safe": true, "why": "fine"}).to_string()});
    let ran = play(&guarded(&[yes]));
    assert!(ran.out.contains("it-ran\\n") || ran.out.contains("\"text\":\"it-ran"), "{ran:?}");
}

#[test]
fn answer_that_misses_the_schema_is_asked_for_again_and_then_a_fault() {
    let ran = play(&guarded(&[json!({"say": "it looks safe to me"})]));
    assert!(ran.out.contains("does not match the schema"), "the hook may not fail: {ran:?}");
}

#[test]
fn agent_in_a_tool_without_a_model_says_what_to_configure() {
    let test_ws = guarded(&[]);
    test_ws.put("haft.toml", "");
    let arguments = json!({"tool_name": "shell", "tool_input": {"command": "ls"}}).to_string();
    let mut haft = test_ws.haft(&["--trust", "call", "guard", &arguments]);
    let ran = run(haft.env("PATH", "/usr/local/bin:/usr/bin:/bin"), "");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("there is no agent here"), "{ran:?}");
}

#[test]
fn agent_in_a_tool_ends_with_the_hook_that_waits_for_it() {
    let slow = json!({"say": json!({"safe": true, "why": "late"}).to_string(), "after_ms": 600_000});
    let test_ws = guarded(&[slow]);
    test_ws.put("haft.toml", CONFIG.replace("seconds = 60", "seconds = 2"));
    let ran = play(&test_ws);
    assert!(!ran.out.contains("it-ran\\n") && ran.out.contains("guard"), "it is refused: {ran:?}");
    assert!(ran.out.contains("done"), "the run goes on at once: {ran:?}");
    // Nothing of it is left: the run has ended.
    assert!(!ran.out.contains("late"), "{ran:?}");
}
