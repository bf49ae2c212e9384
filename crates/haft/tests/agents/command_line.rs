//! Plan mode and sub-agents of the built program.

use std::process::{Command, Output};

use serde_json::json;

use super::support::{calls, says};

/// Runs `haft run` in a workspace with these files; what belongs to the person begins with `config/`.
fn run(files: &[(&str, &str)], arguments: &[&str]) -> (tempfile::TempDir, Output) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("ws")).unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.replace("DIR", &dir.path().display().to_string())).unwrap();
    }
    let output = Command::new(env!("CARGO_BIN_EXE_haft"))
        .args(["--approve", "auto", "--dir", "ws", "run", "--json", "--model", "script:main.jsonl"])
        .args(arguments)
        .arg("begin")
        .current_dir(dir.path())
        .env("HAFT_STATE_DIR", dir.path().join("state"))
        .env("HAFT_CONFIG_DIR", dir.path().join("config"))
        .output()
        .unwrap();
    (dir, output)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_plan_changes_nothing() {
    let script = calls(&[
        ("bash", json!({"command": "echo x > by_bash"})),
        ("edit", json!({"path": "a.txt", "edits": [{"old": "one", "new": "two"}]})),
        ("ask_user", json!({"question": "which?"})),
    ]) + &says("The plan.");
    let (dir, output) = run(&[("ws/a.txt", "one\n"), ("main.jsonl", &script)], &["--plan"]);
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("ead-only")
            && text.contains("`edit` is not among the tools")
            && text.contains("nobody to ask"),
        "{text}"
    );
    assert!(!dir.path().join("ws/by_bash").exists());
    assert_eq!(std::fs::read_to_string(dir.path().join("ws/a.txt")).unwrap(), "one\n");
}

#[test]
fn the_person_s_profiles_have_their_own_models() {
    let script = calls(&[("subagent", json!({"prompt": "go", "profile": "scout"}))])
        + "{\"expect\": [\"from the child\"], \"say\": \"All is well.\"}\n";
    let files = [
        ("main.jsonl", script.as_str()),
        ("child.jsonl", &says("from the child")),
        ("config/agents/scout.md", "---\ndescription: looks\nmodel: script:DIR/child.jsonl\n---\nSCOUT\n"),
    ];
    let (_dir, output) = run(&files, &[]);
    let text = text(&output);
    assert!(output.status.success() && text.contains("All is well."), "{text}");
    assert!(text.contains("\"event\":\"under\""), "{text}");
}

#[test]
fn an_unknown_profile_is_told_before_anything_is_asked() {
    let (_dir, output) = run(&[("main.jsonl", &says("x"))], &["--profile", "nobody"]);
    assert!(!output.status.success());
    assert!(text(&output).contains("no profile `nobody`"), "{}", text(&output));
}
