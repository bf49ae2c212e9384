//! Credentials where the home folder is a root: no file tool reads, searches, lists or shares one, file or folder.

use std::{fs, process::Command};

use serde_json::{Value, json};

use crate::support::{TestWorkspace, run};

const SECRET: &str = "hunter2-credential";

const FILES: &[&str] = &[
    ".netrc",
    ".git-credentials",
    ".claude.json",
    ".npmrc",
    ".cargo/credentials.toml",
    ".pypirc",
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".config/gh/hosts.yml",
    ".docker/config.json",
    ".pulumi/credentials.json",
    ".fly/config.yml",
    ".supabase/access-token",
    ".local/share/uv/credentials/credentials.toml",
    ".bash_history",
];

/// Returns a home folder with credentials, which is the workspace.
fn home() -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    for file in FILES {
        test_ws.put(file, format!("{SECRET}\n"));
    }
    test_ws.put("dotfiles/pgpass", format!("{SECRET}\n"));
    std::os::unix::fs::symlink("dotfiles/pgpass", test_ws.at(".pgpass")).unwrap();
    test_ws.put("plain/notes.txt", format!("{SECRET}\n"));
    test_ws
}

fn haft(test_ws: &TestWorkspace, arguments: &[&str]) -> Command {
    let mut command = test_ws.haft(arguments);
    command.env("HOME", test_ws.at(""));
    command
}

fn call(test_ws: &TestWorkspace, tool: &str, arguments: &Value) -> String {
    let ran = run(&mut haft(test_ws, &["call", tool, &arguments.to_string()]), "");
    format!("{}{}", ran.out, ran.err)
}

#[test]
fn no_search_and_no_listing_shows_a_credential_or_its_name() {
    let test_ws = home();
    let calls: &[(&str, Value)] = &[
        ("grep", json!({"pattern": SECRET})),
        ("grep", json!({"pattern": SECRET, "ignored": true, "mode": "files"})),
        ("grep", json!({"pattern": SECRET, "dir": ".cargo", "ignored": true})),
        ("glob", json!({"pattern": "**/*", "ignored": true})),
        ("glob", json!({"pattern": "**/.*", "ignored": true})),
        ("tree", json!({"depth": 6, "ignored": true})),
        ("tree", json!({"dir": ".cargo", "ignored": true})),
        ("read", json!({"path": "."})),
        ("read", json!({"path": ".netr"})),
    ];
    for (tool, arguments) in calls {
        let said = call(&test_ws, tool, arguments);
        let named = FILES.iter().chain(&[".pgpass", "dotfiles/pgpass"]).find(|it| {
            let folder = it.split('/').next().unwrap();
            said.contains(**it) || (folder == ".ssh" && said.contains(folder))
        });
        assert!(named.is_none(), "{tool} {arguments} named {named:?}: {said}");
    }
    // The positive control: what is not a credential is found.
    assert!(call(&test_ws, "grep", &json!({"pattern": SECRET})).contains("plain/notes.txt"));
    assert!(call(&test_ws, "glob", &json!({"pattern": "**/*.txt"})).contains("plain/notes.txt"));
}

#[test]
fn no_tool_opens_a_credential() {
    let test_ws = home();
    test_ws.put(".claude.json", format!("{{\"key\": \"{SECRET}\"}}"));
    for file in FILES.iter().chain(&[".pgpass", "dotfiles/pgpass"]) {
        let calls: &[(&str, Value)] = &[
            ("read", json!({"path": file})),
            ("filegrep", json!({"path": file, "pattern": "hunter"})),
            ("grep", json!({"pattern": "hunter", "dir": file})),
            ("skim", json!({"path": file})),
            ("json_read", json!({"path": file})),
            ("notebook_read", json!({"path": file})),
            ("image_view", json!({"path": file})),
            ("share_file", json!({"path": file})),
            ("content_publish", json!({"path": file})),
            ("write", json!({"path": file, "content": "x", "overwrite": true})),
            ("move", json!({"from": file, "to": "stolen"})),
            ("copy", json!({"from": file, "to": "stolen"})),
        ];
        for (tool, arguments) in calls {
            let said = call(&test_ws, tool, arguments);
            assert!(!said.contains(SECRET), "{tool} {arguments}: {said}");
        }
    }
    assert!(!test_ws.at("stolen").exists());
    let opened = fs::read_to_string(test_ws.at(".npmrc")).unwrap();
    assert_eq!(opened, format!("{SECRET}\n"));
}
