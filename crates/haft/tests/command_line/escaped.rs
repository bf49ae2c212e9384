//! Escaped output: no command prints control characters of a model, a file or a server.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use serde_json::{Value, json};

use crate::support::{Ran, Terminal, TestWorkspace, run};

/// Sets the clipboard, clears the screen by a control character of one letter, turns the direction of writing, goes back to
/// the line's beginning, and fills with a blank that is a letter.
const HOSTILE: &str = "H\u{1b}]52;c;eA==\u{7}\u{9b}2J\u{202e}\rh\u{3164}";

/// A workspace whose own name is hostile, with hostile files, settings, tools, calls and conversations.
struct Hostile {
    test_ws: TestWorkspace,
    workspace: String,
}

impl Hostile {
    fn new() -> Self {
        let test_ws = TestWorkspace::new();
        let workspace = format!("{}/{HOSTILE}", test_ws.base().display());
        let put = |path: &str, content: &str| {
            let path = format!("{workspace}/{path}");
            fs::create_dir_all(path.rsplit_once('/').unwrap().0).unwrap();
            fs::write(path, content).unwrap();
        };
        let quoted = serde_json::to_string(HOSTILE).unwrap().replace('\u{9b}', "\\u009b");
        put("a.txt", &format!("one\n{HOSTILE}\n"));
        put(&format!("{HOSTILE}.txt"), "one\n");
        put(
            "haft.toml",
            &format!("[tools]\nlisted = [{quoted}]\n[agent]\nmodel = {quoted}\n[net]\nallow = [{quoted}]\n"),
        );
        put(".haft/tools/bad.py", &format!("\"\"\"{}\"\"\"\nraise ValueError({quoted})\n", "x"));
        put(".haft/tools/said", &format!("#!/bin/sh\nprintf '%s' '{HOSTILE}'\n"));
        fs::set_permissions(format!("{workspace}/.haft/tools/said"), fs::Permissions::from_mode(0o755))
            .unwrap();
        put("script.jsonl", &json!({ "say": format!("I say {HOSTILE}") }).to_string());
        fs::create_dir_all(test_ws.config()).unwrap();
        fs::write(test_ws.config().join("haft.toml"), format!("[mcp.one]\ncommand = {quoted}\n")).unwrap();
        Self { test_ws, workspace }
    }

    fn haft(&self, arguments: &[&str]) -> Command {
        let mut command = self.test_ws.haft_in(self.workspace.as_ref(), arguments);
        command.env("PATH", "/usr/bin:/bin").env("TERM", "xterm-256color").env("NO_COLOR", "1");
        command
    }

    /// Runs the program in a pipe, and checks what it printed.
    #[track_caller]
    fn shows(&self, arguments: &[&str]) -> Ran {
        let ran = run(&mut self.haft(arguments), "");
        assert_harmless(arguments, &ran.out);
        assert_harmless(arguments, &ran.err);
        ran
    }
}

#[track_caller]
fn assert_harmless(arguments: &[&str], printed: &str) {
    let printed = printed.replace("\r\n", "\n");
    let bad = |it: &char| *it != '\n' && *it != '\t' && kit::escape::is_unseen(*it);
    if let Some(found) = printed.chars().find(bad) {
        panic!("`haft {arguments:?}` printed {found:?}:\n{printed:?}");
    }
}

#[test]
fn no_verb_prints_what_a_terminal_obeys() {
    let here = Hostile::new();
    let file = format!("{HOSTILE}.txt");
    let script = format!("script:{}/script.jsonl", here.workspace);
    let edit = |path: &str| {
        json!({"path": path, "edits": [{"old": "one", "new": format!("two {HOSTILE}")}]}).to_string()
    };

    // Calls and conversations of a model, which the other commands show.
    here.shows(&["call", "read", "{\"path\": \"a.txt\"}"]);
    here.shows(&["call", "--json", "read", "{\"path\": \"a.txt\"}"]);
    let edited: Value =
        serde_json::from_str(&here.shows(&["call", "--json", "edit", &edit("a.txt")]).out).unwrap();
    here.shows(&["call", "edit", &edit(&file)]);
    let command = json!({ "command": format!("echo '{HOSTILE}'\n# 2030-01-01 a forged line") }).to_string();
    here.shows(&["call", "shell", &command]);
    here.shows(&["call", HOSTILE, "{}"]);
    here.shows(&["call", "read", &json!({ "path": HOSTILE }).to_string()]);
    here.shows(&["call", "read", HOSTILE]);
    let ran = here.shows(&["--session", "s1", "run", "--model", &script, HOSTILE]);
    assert!(ran.out.contains("I say H\\u{1b}]52"), "{ran:?}");
    let ran = here.shows(&["--session", "s1", "run", "--json", "--model", &script, HOSTILE]);
    let said = ran.out.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
    assert!(said.into_iter().any(|it| it.to_string().contains("\\u001b]52")), "{ran:?}");
    here.shows(&["run", "--model", HOSTILE, "x"]);
    let chat = run(
        &mut here.haft(&["--session", "s1", "chat", "--resume", "--model", &script]),
        &format!("{HOSTILE}\n/x{HOSTILE}\n"),
    );
    assert_harmless(&["chat"], &chat.out);
    assert_harmless(&["chat"], &chat.err);

    // Commands that show them.
    let log = here.shows(&["log", "--diff"]);
    assert!(log.out.contains("two H\\u{1b}]52;c;eA==\\u{7}\\u{9b}2J\\u{202e}\\rh\\u{3164}"), "{log:?}");
    assert!(!log.out.lines().any(|it| it.starts_with("# 2030")), "no call forges a line of the log: {log:?}");
    here.shows(&["log", "--faults"]);
    here.shows(&["log", "--tool", HOSTILE]);
    let call = edited["id"].as_str().unwrap();
    here.shows(&["log", "--call", call]);
    let log = here.shows(&["log", "--json", "--diff"]);
    let records: Vec<Value> = log.out.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert!(
        records.iter().any(|it| it["diffs"].to_string().contains(&HOSTILE.replace('\u{1b}', "\\u001b")[..8]))
    );
    here.shows(&["undo", "--list"]);
    here.shows(&["undo", &file]);
    here.shows(&["undo", "--call", call]);
    here.shows(&["undo", HOSTILE]);
    for arguments in [
        &["sessions"][..],
        &["sessions", "--json"],
        &["sessions", HOSTILE],
        &["tools"],
        &["tools", "--strict"],
        &["manual"],
        &["manual", HOSTILE],
        &["manual", "said"],
        &["reload-tools"],
        &["grants", "add", "run", HOSTILE],
        &["grants", "add", HOSTILE],
        &["grants"],
        &["grants", "revoke", "1"],
        &["config"],
        &["config", "--json"],
        &["config", "--path"],
        &["config", HOSTILE],
        &["models"],
        &["models", HOSTILE],
        &["models", "--known"],
        &["login", "--list"],
        &["login", HOSTILE],
        &["logout", HOSTILE],
        &["mcp", "list"],
        &["mcp", "trust", HOSTILE],
        &["mcp", "login", HOSTILE],
        &["mcp", "install", HOSTILE],
        &["mcp", "install", "claude-code", "--dry-run"],
        &["new-tool", HOSTILE],
        &["prompt"],
        &["prompt", "--json"],
        &["trust", "--list"],
        &["trust"],
        &["trust", "--yes"],
        &["tools"],
        &["manual", "said"],
        &["reload-tools"],
        &["config"],
        &["completions", "bash"],
        &["completions", HOSTILE],
        &["man", "run"],
        &[HOSTILE],
        &["--dir", HOSTILE, "log"],
    ] {
        here.shows(arguments);
    }
    let doctor = here.shows(&["doctor", "--json"]);
    let _: Value = serde_json::from_str(&doctor.out).unwrap();
    here.shows(&["doctor"]);
}

#[test]
fn what_is_drawn_at_a_terminal_is_escaped_too() {
    let here = Hostile::new();
    let edits = json!([{"old": "one", "new": format!("two {HOSTILE}")}]);
    for path in ["a.txt", &format!("{HOSTILE}.txt")] {
        here.shows(&["call", "edit", &json!({"path": path, "edits": edits}).to_string()]);
    }
    for arguments in [&["log", "--diff"][..], &["undo", "--list"], &["undo"], &["config"], &["sessions"]] {
        let (_, seen) = Terminal::with_output(&here.haft(arguments)).ends();
        assert!(!seen.is_empty());
        assert_harmless(arguments, &seen);
    }
}
