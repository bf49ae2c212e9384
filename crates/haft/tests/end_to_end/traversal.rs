//! Path traversal: no spelling of a path leaves the workspace.

use std::{fs, os::unix::fs::symlink};

use serde_json::{Value, json};

use crate::support::TestWorkspace;

const SECRET: &str = "what-is-outside-stays-outside";

/// Returns every file tool, reading and writing, on this path.
fn calls(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("read", json!({"path": path})),
        ("skim", json!({"path": path, "start": 1})),
        ("filegrep", json!({"path": path, "pattern": "what"})),
        ("json_read", json!({"path": path})),
        ("editor", json!({"command": "view", "path": path})),
        ("write", json!({"path": path, "content": "taken"})),
        ("write", json!({"path": path, "content": "taken", "overwrite": true})),
        ("edit", json!({"path": path, "edits": [{"old": "outside-stays", "new": "taken"}]})),
        ("edit", json!({"path": path, "edits": [{"insert": "end", "new": "taken"}]})),
        ("json_write", json!({"path": path, "pointer": "", "value": "taken"})),
        ("editor", json!({"command": "create", "path": path, "file_text": "taken"})),
        (
            "editor",
            json!({"command": "str_replace", "path": path, "old_str": "outside-stays", "new_str": "taken"}),
        ),
        ("editor", json!({"command": "insert", "path": path, "insert_line": 0, "new_str": "taken"})),
        ("editor", json!({"command": "undo_edit", "path": path})),
        ("undo", json!({"path": path})),
    ]
}

fn test_ws() -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    fs::write(test_ws.outside().join("secret"), format!("\"{SECRET}\"\n")).unwrap();
    // Begins like the workspace, and is another folder.
    fs::create_dir(test_ws.base().join("ws-evil")).unwrap();
    fs::write(test_ws.base().join("ws-evil/secret"), format!("\"{SECRET}\"\n")).unwrap();
    fs::write(test_ws.base().join("home/secret"), format!("\"{SECRET}\"\n")).unwrap();
    symlink("../outside/secret", test_ws.at("file_link")).unwrap();
    symlink("../outside", test_ws.at("folder_link")).unwrap();
    symlink(test_ws.outside(), test_ws.at("absolute_link")).unwrap();
    symlink("../outside/nothing", test_ws.at("dangling")).unwrap();
    symlink("chain_2", test_ws.at("chain")).unwrap();
    symlink("chain_3", test_ws.at("chain_2")).unwrap();
    symlink("../outside/secret", test_ws.at("chain_3")).unwrap();
    symlink("loop_2", test_ws.at("loop")).unwrap();
    symlink("loop", test_ws.at("loop_2")).unwrap();
    symlink("/proc/self/root", test_ws.at("proc_root")).unwrap();
    symlink("/proc/self/cwd", test_ws.at("proc_cwd")).unwrap();
    test_ws.put("sub/file", "inside\n");
    symlink("sub", test_ws.at("inside_link")).unwrap();
    test_ws
}

#[track_caller]
fn check(test_ws: &TestWorkspace, path: &str, kinds: &[&str]) {
    let all = || {
        let evil = fs::read(test_ws.base().join("ws-evil/secret")).unwrap();
        let beside: Vec<String> = ["", "ws-evil", "home"]
            .iter()
            .flat_map(|dir| {
                let mut names = crate::support::names(&test_ws.base().join(dir));
                // The state folder comes to be at the first call.
                names.retain(|it| it != "state");
                names.sort();
                names
            })
            .collect();
        (test_ws.outside_now(), evil, beside)
    };
    let before = all();
    let calls = calls(path);
    for (called, (tool, arguments)) in test_ws.batch(&[], &calls).iter().zip(&calls) {
        assert!(kinds.contains(&called.kind()), "{tool} {arguments}: {} {}", called.kind(), called.text());
        let told = called.text().replace(&path.replace('"', "\\\""), "");
        assert!(!told.contains(SECRET), "{tool} {arguments}: {told}");
    }
    assert_eq!(all(), before, "something outside was touched by {path:?}");
}

#[test]
fn whatever_leads_outside_is_denied() {
    let test_ws = test_ws();
    let absolute = test_ws.outside().join("secret");
    let evil = test_ws.base().join("ws-evil/secret");
    let through = test_ws.at("sub").join("../../outside/secret");
    let dots = format!("{}outside/secret", "../".repeat(60));
    for path in [
        "../outside/secret",
        "..//outside///secret",
        "./../outside/./secret",
        "sub/../../outside/secret",
        "sub/../../outside/new",
        "sub/../../outside/new/folder/file",
        dots.as_str(),
        "..",
        "/",
        "/etc/passwd",
        "//etc/passwd",
        absolute.to_str().unwrap(),
        evil.to_str().unwrap(),
        through.to_str().unwrap(),
        "../ws-evil/secret",
        "../ws-evil/new",
        "file_link",
        "folder_link",
        "folder_link/secret",
        "folder_link/new",
        "folder_link/new/folder/file",
        "folder_link/../outside/secret",
        "absolute_link/secret",
        "absolute_link/new",
        "inside_link/../../outside/secret",
        "dangling",
        "dangling/new",
        "chain",
        "proc_root/etc/passwd",
        "proc_cwd/secret",
    ] {
        check(&test_ws, path, &["denied"]);
    }
}

#[test]
fn what_can_be_no_path_is_a_clear_fault() {
    let test_ws = test_ws();
    for path in ["a\0b", "../outside/secret\0.txt"] {
        check(&test_ws, path, &["bad_args"]);
    }
    let (long_name, long_path) = ("n".repeat(300), "p/".repeat(3_000));
    for path in [long_name.as_str(), long_path.as_str()] {
        check(&test_ws, path, &["bad_args", "not_found"]);
    }
    for path in ["loop", "loop/file"] {
        check(&test_ws, path, &["not_found"]);
    }
    check(&test_ws, "", &["bad_args", "not_found", "ok"]);
    assert!(crate::support::names(&test_ws.at("")).iter().all(|name| {
        !name.starts_with(['a', 'n', 'p'].as_slice()) || name == "absolute_link" || name.starts_with("proc_")
    }));
}

#[test]
fn what_only_looks_like_a_way_out_is_a_name_like_any_other() {
    let test_ws = test_ws();
    for path in [
        "%2e%2e/outside/secret",
        "..%2foutside%2fsecret",
        "%2e%2e%2foutside%2fsecret",
        "~/secret",
        "~root/secret",
        "$HOME/secret",
        "file:///etc/passwd",
        "\\\\..\\outside\\secret",
        "..\\outside\\secret",
        "．．/outside/secret",
        "‥/outside/secret",
        ".../outside/secret",
    ] {
        // Where it was written to, that is a file of this very name in the workspace.
        check(&test_ws, path, &["not_found", "bad_args", "ok"]);
        assert!(test_ws.at("").join(path.trim_start_matches('/')).exists(), "{path}");
    }
}

#[test]
fn what_stays_inside_is_reached_by_every_spelling() {
    let test_ws = test_ws();
    let (absolute, odd) = (test_ws.at("sub/file"), test_ws.at("sub/../sub//./file"));
    for path in [
        "sub/file",
        "./sub//file",
        "sub/../sub/file",
        "inside_link/file",
        "inside_link/../sub/file",
        absolute.to_str().unwrap(),
        odd.to_str().unwrap(),
    ] {
        assert!(test_ws.call("read", &json!({"path": path})).must("ok").text().contains("|inside"), "{path}");
        test_ws
            .call("edit", &json!({"path": path, "edits": [{"old": "inside", "new": "changed"}]}))
            .must("ok");
        assert_eq!(test_ws.text("sub/file"), "changed\n");
        test_ws.call("editor", &json!({"command": "undo_edit", "path": path})).must("ok");
        assert_eq!(test_ws.text("sub/file"), "inside\n");
    }
    test_ws.call("write", &json!({"path": "inside_link/new", "content": "made\n"})).must("ok");
    assert_eq!(test_ws.text("sub/new"), "made\n");
}
