//! Hooks of Claude Code's settings, and which files are trusted.

use std::fs;

use serde_json::json;

use super::{exists, own, settings};
use crate::support::{TestWorkspace, run};

/// A hook as its documentation shows them: reads JSON, refuses one command.
const BASH: &str = r#"import json, os, sys
said = json.load(sys.stdin)
assert said["hook_event_name"] == "PreToolUse" and said["session_id"] and said["cwd"] == os.environ["CLAUDE_PROJECT_DIR"]
if said["tool_name"] == "Bash" and "rm -rf" in said["tool_input"]["command"]:
    print("use trash", file=sys.stderr)
    sys.exit(2)
if said["tool_name"] == "Write" and not said["tool_input"]["file_path"].startswith("/"):
    sys.exit(2)
"#;

const HOOK: &str = "python3 \"$CLAUDE_PROJECT_DIR\"/.claude/hooks/bash.py";

fn shell(test_ws: &TestWorkspace, options: &[&str], command: &str) -> crate::support::Ran {
    let arguments = json!({"command": command}).to_string();
    let mut haft = test_ws.haft(&[options, &["call", "shell", &arguments]].concat());
    run(haft.env("PATH", "/usr/local/bin:/usr/bin:/bin"), "")
}

#[test]
fn claude_code_s_settings_run_unchanged_in_a_trusted_workspace_only() {
    let test_ws = TestWorkspace::new();
    test_ws.put(".claude/settings.json", settings("PreToolUse", "Bash|Write", HOOK));
    test_ws.put(".claude/hooks/bash.py", BASH);
    let ran = shell(&test_ws, &[], "echo rm -rf");
    assert_eq!((ran.code, ran.out.contains("rm -rf")), (0, true), "not trusted: {ran:?}");
    assert!(ran.err.contains("hooks are ignored until you run `haft trust`"), "{ran:?}");
    let ran = test_ws.run(&["trust"]);
    assert!(ran.out.contains("before_tool") && ran.out.contains(".claude/settings.json"), "{ran:?}");
    let ran = shell(&test_ws, &[], "echo rm -rf");
    assert!(ran.code == 1 && ran.out.contains("use trash"), "{ran:?}");
    assert_eq!(shell(&test_ws, &[], "echo fine").code, 0);
    // The trust covers the script as it was.
    test_ws.put(".claude/hooks/bash.py", "print('{\"decision\": \"approve\"}')\n");
    let ran = shell(&test_ws, &[], "echo rm -rf");
    assert!(ran.code == 0 && ran.err.contains("have changed"), "{ran:?}");
    let listed = test_ws.run(&["hooks"]);
    assert!(listed.out.contains("no hooks"), "{listed:?}");
}

#[test]
fn local_settings_count_and_those_of_the_home_folder_need_the_key() {
    let test_ws = TestWorkspace::new();
    let deny = "echo 'not here' >&2; exit 2";
    let home = test_ws.base().join("home/.claude");
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("settings.json"), settings("PreToolUse", "", deny)).unwrap();
    assert_eq!(shell(&test_ws, &[], "true").code, 0);
    own(&test_ws, "claude_hooks = true\n");
    let ran = shell(&test_ws, &[], "true");
    assert!(ran.out.contains("not here"), "{ran:?}");
    own(&test_ws, "");
    // A workspace can't turn it on.
    test_ws.put("haft.toml", "claude_hooks = true\n");
    assert_eq!(shell(&test_ws, &["--trust"], "true").code, 0);
    test_ws.put(".claude/settings.local.json", settings("PreToolUse", "Bash", deny));
    assert!(shell(&test_ws, &["--trust"], "true").out.contains("not here"));
}

#[test]
fn files_that_hooks_run_are_control_files() {
    let test_ws = TestWorkspace::new();
    test_ws.put("scripts/check.sh", "exit 0\n");
    own(&test_ws, "[[hook]]\nevent = \"before_tool\"\ncommand = \"sh scripts/check.sh\"\n");
    for path in
        ["scripts/check.sh", ".claude/settings.json", ".claude/settings.local.json", ".claude/hooks/x.sh"]
    {
        let call = json!({"path": path, "content": "exit 2\n", "overwrite": true});
        let called = test_ws.call("write", &call).must("denied");
        assert!(called.text().contains("control_files"), "{path}: {}", called.text());
    }
    test_ws.call("shell", &json!({"command": "echo 'exit 2' > scripts/check.sh; true"})).must("ok");
    assert_eq!(test_ws.text("scripts/check.sh"), "exit 0\n", "a command has it read-only");
    test_ws.call("write", &json!({"path": "scripts/other.sh", "content": "x\n"})).must("ok");
    assert!(!exists(&test_ws.at(".claude/settings.json")));
}

#[test]
fn workspace_s_own_hooks_need_trust() {
    let test_ws = TestWorkspace::new();
    test_ws.put("haft.toml", "[[hook]]\nevent = \"before_tool\"\ncommand = \"echo no >&2; exit 2\"\n");
    assert_eq!(shell(&test_ws, &[], "true").code, 0);
    assert_eq!(shell(&test_ws, &["--trust"], "true").code, 1);
    assert_eq!(test_ws.run(&["trust"]).code, 0);
    assert_eq!(shell(&test_ws, &[], "true").code, 1);
    test_ws.run(&["trust", "--end"]);
    assert_eq!(shell(&test_ws, &[], "true").code, 0);
}

#[test]
fn hooks_in_effect_are_listed_and_tried() {
    let test_ws = TestWorkspace::new();
    own(
        &test_ws,
        "[[hook]]\nevent = \"before_tool\"\nmatch = \"edit\"\ncommand = \"echo never >&2; exit 2\"\nseconds = 5\n",
    );
    let listed = test_ws.run(&["hooks"]);
    for part in ["before_tool  edit  command echo never", "haft.toml (yours)", "5 s"] {
        assert!(listed.out.contains(part), "{part}: {listed:?}");
    }
    let json: serde_json::Value = serde_json::from_str(&test_ws.run(&["hooks", "--json"]).out).unwrap();
    assert_eq!((&json["event"], &json["seconds"]), (&json!("before_tool"), &json!(5)));
    assert!(test_ws.run(&["config"]).out.contains("before_tool  edit"));
    let tried = test_ws.run(&["hooks", "test", "PreToolUse", "--tool", "edit"]);
    assert!(tried.code == 1 && tried.out.contains("never"), "{tried:?}");
    let tried = test_ws.run(&["hooks", "test", "before_tool", "--tool", "read"]);
    assert_eq!((tried.code, tried.out.as_str()), (0, "goes on\n"));
    assert_eq!(test_ws.run(&["hooks", "test", "never"]).code, 2);
    own(&test_ws, "[[hook]]\nevent = \"stop\"\n");
    let ran = test_ws.run(&["hooks"]);
    assert!(ran.err.contains("needs either `command` or `tool`"), "{ran:?}");
    own(&test_ws, "[[hook]]\nevent = \"stop\"\nmatch = \"(\"\ncommand = \"true\"\n");
    let ran = test_ws.run(&["config"]);
    assert!(ran.err.contains("is not a regular expression"), "{ran:?}");
}
