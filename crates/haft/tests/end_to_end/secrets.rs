//! Redaction: credentials of haft's environment are never shown, logged or stored.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::support::{Ran, TestWorkspace, run};

const KEY: &str = "sk-ant-api03-3fWq0rKx7LmZ9bTnUvYc";
const TOKEN: &str = "ghp_5Jd82kLqPz0XnVbRtYwA";
const PASSWORD: &str = "correct-horse-battery";

fn haft(test_ws: &TestWorkspace, arguments: &[&str], input: &str) -> Ran {
    let mut command = test_ws.haft(arguments);
    command
        .env("ANTHROPIC_API_KEY", KEY)
        .env("GITHUB_TOKEN", TOKEN)
        .env("DATABASE_URL", format!("postgres://me:{PASSWORD}@db/x"))
        .env("HAFT_LOG", "trace");
    run(&mut command, input)
}

fn is_there(bytes: &[u8]) -> bool {
    [KEY, TOKEN, PASSWORD].iter().any(|secret| bytes.windows(secret.len()).any(|it| it == secret.as_bytes()))
}

/// Returns the files below a folder that hold a secret.
fn holders(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holders(&path));
        } else if is_there(&fs::read(&path).unwrap()) {
            found.push(path.display().to_string());
        }
    }
    found
}

fn test_ws() -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    test_ws.put(".env", format!("A=1\nKEY={KEY}\nTOKEN={TOKEN}\nURL=postgres://me:{PASSWORD}@db/x\nB=2\n"));
    test_ws.put("a.json", json!({"key": KEY, "nested": {"token": TOKEN}, "plain": "shown"}).to_string());
    // Long enough that the answer goes to a spill.
    let long: String = (0..30_000).map(|line| format!("{line} {KEY} {TOKEN} filler filler\n")).collect();
    test_ws.put("long", long);
    test_ws
}

fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("read", json!({"path": ".env"})),
        ("skim", json!({"path": ".env", "start": 1})),
        ("filegrep", json!({"path": ".env", "pattern": "KEY"})),
        ("filegrep", json!({"path": ".env", "pattern": KEY})),
        ("filegrep", json!({"path": "nothing", "pattern": KEY})),
        ("editor", json!({"command": "view", "path": ".env"})),
        ("json_read", json!({"path": "a.json"})),
        ("json_read", json!({"path": "a.json", "pointer": "/nested/token"})),
        ("json_read", json!({"path": "a.json", "query": "$..token"})),
        ("read", json!({"path": "long"})),
        ("editor", json!({"command": "view", "path": "long"})),
        ("filegrep", json!({"path": "long", "pattern": "filler", "limit": 10_000})),
        ("edit", json!({"path": ".env", "edits": [{"old": "A=1", "new": "A=3"}]})),
        ("edit", json!({"path": ".env", "edits": [{"old": "nowhere", "new": KEY}]})),
        ("edit", json!({"path": ".env", "edits": [{"anchor": "2:00", "new": "x"}]})),
        ("read", json!({TOKEN: 1})),
    ]
}

#[test]
fn a_secret_is_in_no_answer_no_log_and_no_file_of_ours() {
    let test_ws = test_ws();
    let lines: String = calls()
        .into_iter()
        .map(|(tool, arguments)| json!({"tool": tool, "arguments": arguments}).to_string() + "\n")
        .collect();
    for arguments in [&["call", "--batch", "-"][..], &["call", "--json", "--batch", "-"]] {
        let ran = haft(&test_ws, arguments, &lines);
        assert!(ran.out.contains("[masked:ANTHROPIC_API_KEY]") && ran.out.contains("[masked:GITHUB_TOKEN]"));
        assert!(
            ran.out.contains("[masked:DATABASE_URL]") && ran.out.contains("shown"),
            "the positive control"
        );
        for (what, said) in [("output", &ran.out), ("standard error", &ran.err)] {
            let line = said.lines().find(|line| is_there(line.as_bytes()));
            assert!(line.is_none(), "in {what}: {}", line.unwrap());
        }
    }
    for arguments in
        [&["log", "--json"][..], &["log"], &["undo", "--list"], &["call", "undo", "{\"list\":true}"]]
    {
        let ran = haft(&test_ws, arguments, "");
        assert!(!is_there(ran.out.as_bytes()) && !is_there(ran.err.as_bytes()), "{arguments:?}: {ran:?}");
    }
    // Also for one who has no such variable: what is kept was masked when it was written.
    assert!(!is_there(test_ws.run(&["log", "--json"]).out.as_bytes()));
    assert!(test_ws.text(".env").contains(KEY), "the file itself still holds it");
    // Only the before-image keeps the secret, or undo would lose it.
    let kept: Vec<String> =
        holders(&test_ws.state()).into_iter().filter(|path| !path.contains("/blobs/")).collect();
    assert_eq!(kept, [""; 0], "kept in the state folder");
}

#[test]
fn a_server_masks_as_well() {
    let test_ws = test_ws();
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let mut lines = format!("{initialize}\n");
    for (id, (tool, arguments)) in (1..).zip(calls()) {
        let params = json!({"name": tool, "arguments": arguments});
        lines +=
            &format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }
    let ran = haft(&test_ws, &["mcp"], &lines);
    assert!(ran.out.contains("[masked:ANTHROPIC_API_KEY]"), "{ran:?}");
    let line = ran.out.lines().chain(ran.err.lines()).find(|line| is_there(line.as_bytes()));
    assert!(line.is_none(), "{}", line.unwrap());
}

#[test]
fn writing_a_placeholder_back_is_refused() {
    let test_ws = test_ws();
    let before = test_ws.bytes(".env");
    let placeholder = "KEY=[masked:ANTHROPIC_API_KEY]\n";
    for (tool, arguments) in [
        ("write", json!({"path": "new", "content": placeholder})),
        ("edit", json!({"path": ".env", "edits": [{"old": "B=2\n", "new": format!("B=2\n{placeholder}")}]})),
        ("editor", json!({"command": "create", "path": "new", "file_text": placeholder})),
        ("json_write", json!({"path": "a.json", "pointer": "/key", "value": "[masked:ANTHROPIC_API_KEY]"})),
    ] {
        let ran = haft(&test_ws, &["call", tool, &arguments.to_string()], "");
        assert!(ran.code == 1 && ran.out.contains("stands for a secret"), "{tool}: {ran:?}");
    }
    assert_eq!(test_ws.bytes(".env"), before);
    assert!(!test_ws.at("new").exists());
    // For one who has no such secret it is a text like any other.
    test_ws.call("write", &json!({"path": "new", "content": placeholder})).must("ok");
}

#[test]
fn a_file_with_a_secret_is_not_replaced_unseen_and_is_edited_around_it() {
    let test_ws = test_ws();
    let read = json!({"tool": "read", "arguments": {"path": ".env"}});
    let replace =
        json!({"tool": "write", "arguments": {"path": ".env", "content": "A=1\n", "overwrite": true}});
    let edit =
        json!({"tool": "edit", "arguments": {"path": ".env", "edits": [{"old": "B=2", "new": "B=3"}]}});
    let ran = haft(&test_ws, &["call", "--batch", "-"], &format!("{read}\n{replace}\n{edit}\n"));
    assert!(ran.out.contains("## 2 write: stale") && ran.out.contains("## 3 edit: ok"), "{ran:?}");
    assert!(test_ws.text(".env").contains(KEY) && test_ws.text(".env").contains("B=3"));
}

#[test]
fn an_edit_that_would_cut_a_secret_in_pieces_is_refused() {
    let test_ws = test_ws();
    let before = test_ws.text(".env");
    for (old, new) in [("ghp_", ""), ("ghp_5Jd8", "ghp_5Jd8\n"), ("sk-ant-api03-", "x"), ("KEY=", "KEY=x\ny")]
    {
        let edit = json!({"path": ".env", "edits": [{"old": old, "new": new}]}).to_string();
        let ran = haft(&test_ws, &["call", "edit", &edit], "");
        assert!(!is_there(ran.out.as_bytes()), "{ran:?}");
        // An edit that keeps the whole secret is an edit like any other.
        if old != "KEY=" {
            assert!(ran.out.contains("rule `secrets`"), "{ran:?}");
            assert_eq!(test_ws.text(".env"), before);
        }
    }
}
