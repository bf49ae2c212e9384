//! Edits: shown while they happen, approved before they are applied, and listed in the log.

mod asked;
mod commands;
mod log;
mod run_output;

use serde_json::{Value, json};

use crate::support::TestWorkspace;

/// Writes a script in this workspace; returns its name for `--model`.
fn script(test_ws: &TestWorkspace, lines: &str) -> String {
    let path = test_ws.base().join("script.jsonl");
    std::fs::write(&path, lines).unwrap();
    format!("script:{}", path.display())
}

/// Returns an answer of a scripted model with one call.
fn calls(tool: &str, arguments: &Value) -> String {
    json!({"calls": [{"tool": tool, "arguments": arguments}]}).to_string() + "\n"
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "edits": [{"old": old, "new": new}]})
}
