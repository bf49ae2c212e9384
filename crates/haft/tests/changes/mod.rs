//! What an edit does: shown while it happens, asked about before it lands, found again in the log.

mod asked;
mod log;
mod told;

use serde_json::{Value, json};

use crate::support::TestWorkspace;

/// A script in this room, as `--model` names it.
fn script(test_ws: &TestWorkspace, lines: &str) -> String {
    let path = test_ws.base().join("script.jsonl");
    std::fs::write(&path, lines).unwrap();
    format!("script:{}", path.display())
}

/// An answer of a scripted model with one call.
fn calls(tool: &str, arguments: &Value) -> String {
    json!({"calls": [{"tool": tool, "arguments": arguments}]}).to_string() + "\n"
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "edits": [{"old": old, "new": new}]})
}
