//! Hooks around calls, prompts and turns, on the built program.

mod agent_in_tool;
mod calls;
mod settings;
mod turns;

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::support::TestWorkspace;

/// Writes the person's own haft.toml.
fn own(test_ws: &TestWorkspace, text: &str) {
    fs::create_dir_all(test_ws.config()).unwrap();
    fs::write(test_ws.config().join("haft.toml"), text).unwrap();
}

/// Writes a script below the home folder, and returns its path.
fn script(test_ws: &TestWorkspace, name: &str, text: &str) -> String {
    let path = test_ws.base().join("home/hooks").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Returns a hook that prints this JSON.
fn printing(event: &str, value: &Value) -> String {
    format!("[[hook]]\nevent = \"{event}\"\ncommand = '''printf %s '{value}' '''\n")
}

/// Returns the settings of Claude Code with one hook.
fn settings(event: &str, matcher: &str, command: &str) -> String {
    let hook =
        json!([{"matcher": matcher, "hooks": [{"type": "command", "command": command, "timeout": 20}]}]);
    json!({"hooks": {event: hook}}).to_string()
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
