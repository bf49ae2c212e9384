//! `haft acp install`: adds haft to an editor's configuration and keeps the rest.

use std::fs;

use serde_json::{Value, json};

use super::support::{haft, workspace};

const HAFT: &str = env!("CARGO_BIN_EXE_haft");

#[test]
fn each_editor_gets_its_entry_and_comments_stay() {
    for (editor, file, key, entry) in [
        (
            "zed",
            ".config/zed/settings.json",
            "agent_servers",
            json!({"type": "custom", "command": HAFT, "args": ["acp"], "env": {}}),
        ),
        (
            "jetbrains",
            ".jetbrains/acp.json",
            "agent_servers",
            json!({"command": HAFT, "args": ["acp"], "env": {}}),
        ),
        (
            "vscode",
            ".config/Code/User/settings.json",
            "acp.agents",
            json!({"command": HAFT, "args": ["acp"], "env": {}}),
        ),
    ] {
        let test_ws = workspace(&[]);
        let path = test_ws.base().join("home").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let before = "{\n  // mine\n  \"theme\": \"dark\",\n}\n";
        fs::write(&path, before).unwrap();
        let run = |arguments: &[&str]| {
            let ran = haft(&test_ws, &[&["acp", "install", editor], arguments].concat()).output().unwrap();
            assert!(ran.status.success(), "{ran:?}");
            String::from_utf8(ran.stdout).unwrap()
        };
        assert!(run(&["--dry-run"]).contains("+"));
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
        let said = run(&[]);
        assert!(said.contains("Added `haft`") && said.contains("The old version is in"), "{said}");
        let now = fs::read_to_string(&path).unwrap();
        assert!(now.contains("// mine"), "{now}");
        let bare: Value = serde_json::from_str(&now.replace("// mine", "").replace(",\n}", "\n}")).unwrap();
        assert_eq!(bare[key]["haft"], entry, "{now}");
        assert!(run(&[]).contains("nothing to do"));
        assert!(run(&["--remove"]).contains("Removed"));
        assert!(!fs::read_to_string(&path).unwrap().contains("acp\""));
    }
}

#[test]
fn options_go_into_the_entry_and_programs_get_lines() {
    let test_ws = workspace(&[]);
    let run = |arguments: &[&str]| haft(&test_ws, arguments).output().unwrap();
    let said =
        run(&["--sandbox", "read-only", "acp", "--model", "ollama:qwen3", "install", "zed", "--print"]);
    let block: Value = serde_json::from_slice(&said.stdout).unwrap();
    let arguments = json!(["--sandbox", "read-only", "acp", "--model", "ollama:qwen3"]);
    assert_eq!(block["agent_servers"]["haft"]["args"], arguments);
    for (editor, mark) in [("neovim", "codecompanion"), ("emacs", "agent-shell-make-agent-config")] {
        let said = run(&["acp", "install", editor]);
        let text = String::from_utf8(said.stdout).unwrap();
        assert!(text.contains(mark) && text.contains(HAFT) && text.contains("\"acp\""), "{text}");
        assert!(!run(&["acp", "install", editor, "--remove"]).status.success());
    }
    assert!(!run(&["acp", "install", "zed", "--project"]).status.success());
    let ran = haft(&test_ws, &["acp", "install", "vscode", "--project"])
        .current_dir(test_ws.at(""))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert!(test_ws.text(".vscode/settings.json").contains("\"command\": \"haft\""));
}
