//! Control files: file tools ask before they write one, at any depth, also where only git's configuration names it.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::support::Room;

/// A repository that is made without git.
fn repository(room: &Room, git: &str, configuration: &str) {
    for folder in ["objects", "refs", "hooks"] {
        fs::create_dir_all(room.at(git).join(folder)).unwrap();
    }
    room.put(&format!("{git}/HEAD"), "ref: refs/heads/main\n");
    room.put(&format!("{git}/config"), configuration);
}

fn asks(room: &Room, path: &str) {
    let called = room.call("write", &json!({"path": path, "content": "x"}));
    assert_eq!(called.kind(), "denied", "{path}: {}", called.text());
    assert!(called.text().contains("rule `control_files`"), "{path}: {}", called.text());
    assert!(!room.at(path).exists() || room.text(path) != "x");
}

fn writes(room: &Room, path: &str) {
    room.call("write", &json!({"path": path, "content": "x"})).must("ok");
}

#[test]
fn hooks_that_a_configuration_names_need_approval() {
    let room = Room::new();
    writes(&room, ".githooks/pre-commit");
    fs::remove_dir_all(room.at(".githooks")).unwrap();
    repository(
        &room,
        ".git",
        "[core]\n\thooksPath = .githooks\n\tfsmonitor = tools/watch\n[filter \"x\"]\n\tclean = python3 tools/clean.py\n\
         [diff \"x\"]\n\ttextconv = tools/text\n[merge \"x\"]\n\tdriver = ./merge.sh %A\n[alias]\n\tx = !tools/alias\n\
         [include]\n\tpath = ../more.inc\n[credential]\n\thelper = !tools/secret\n[core]\n\teditor = tools/edit\n",
    );
    room.put("more.inc", "[core]\n\tpager = tools/page\n\tsshCommand = tools/ssh\n");
    symlink("../../tools/linked", room.at(".git/hooks/post-commit")).unwrap();
    for path in [
        ".githooks/pre-commit",
        ".githooks/deeper/x",
        "tools/watch",
        "tools/clean.py",
        "tools/text",
        "merge.sh",
        "tools/alias",
        "more.inc",
        "tools/secret",
        "tools/edit",
        "tools/page",
        "tools/ssh",
        "tools/linked",
    ] {
        asks(&room, path);
    }
    writes(&room, "tools/other");
}

#[test]
fn nested_repositories_worktrees_submodules_and_the_person_s_own_configuration_count() {
    let room = Room::new();
    repository(&room, "a/b/.git", "[core]\n\thooksPath = ../../outer\n");
    repository(&room, "main/.git", "[core]\n\thooksPath = tree-hooks\n");
    fs::create_dir_all(room.at("main/.git/worktrees/t")).unwrap();
    room.put("main/.git/worktrees/t/commondir", "../..\n");
    room.put("t/.git", "gitdir: ../main/.git/worktrees/t\n");
    repository(&room, ".git", "[core]\n\tbare = false\n");
    repository(&room, ".git/modules/s", "[core]\n\thooksPath = s-hooks\n");
    room.put("s/.git", "gitdir: ../.git/modules/s\n");
    let home = room.base().join("home");
    let text = format!(
        "[core]\n\tattributesFile = {}\n[credential]\n\thelper = {}\n",
        room.at("my.attributes").display(),
        room.at("help/me").display()
    );
    fs::write(home.join(".gitconfig"), text).unwrap();
    for path in
        ["outer/pre-push", "t/tree-hooks/x", "main/tree-hooks/x", "s/s-hooks/x", "my.attributes", "help/me"]
    {
        asks(&room, path);
    }
    writes(&room, "a/b/outer/pre-push");
}

#[test]
fn what_agents_editors_shells_and_debuggers_obey_needs_approval_at_any_depth() {
    let room = Room::new();
    for name in [
        "AGENTS.md",
        "CLAUDE.md",
        "opencode.json",
        "opencode.jsonc",
        ".crush.json",
        ".kiro/settings/mcp.json",
        ".roo/mcp.json",
        ".continue/config.yaml",
        ".amp/settings.json",
        ".qwen/settings.json",
        ".trae/mcp.json",
        ".factory/mcp.json",
        ".junie/guidelines.md",
        ".aider.conf.yml",
        ".devcontainer.json",
        ".pdbrc",
        ".irbrc",
        ".pryrc",
        ".Rprofile",
        ".ghci",
        ".ocamlinit",
        ".iex.exs",
        ".octaverc",
        ".latexmkrc",
        ".pnpmfile.cjs",
        "mise.toml",
        ".hgrc",
        ".jj/repo/config.toml",
        ".local/bin/ls",
        ".config/environment.d/x.conf",
        ".config/direnv/direnvrc",
        ".config/mise/config.toml",
        ".config/tmux/tmux.conf",
        ".config/emacs/init.el",
        ".config/nushell/config.nu",
        ".config/plasma-workspace/env/x.sh",
        ".emacs.d/init.el",
        ".vim/vimrc",
        ".gradle/init.gradle",
        ".ipython/profile_default/startup/x.py",
        ".local/share/applications/x.desktop",
        ".local/share/systemd/user/x.service",
    ] {
        asks(&room, name);
        asks(&room, &format!("sub/deeper/{name}"));
    }
}

#[test]
fn a_root_named_after_a_control_folder_is_an_ordinary_root() {
    let room = Room::new();
    let folder = room.base().join("home/.claude/worktrees/x");
    fs::create_dir_all(&folder).unwrap();
    let call = |path: &str| {
        let arguments = json!({"path": folder.join(path), "content": "x"}).to_string();
        room.run(&["--root", folder.to_str().unwrap(), "call", "write", &arguments]).code
    };
    assert_eq!((call("src/main.rs"), call(".claude/settings.json")), (0, 1));
}

#[test]
fn a_command_that_is_stopped_leaves_no_control_file() {
    let room = Room::new();
    room.put("sub/x", "");
    let command = "echo evil > sub/.envrc; echo evil > AGENTS.md; echo ready > ready; sleep 1000";
    let arguments = json!({"command": command, "wait_ms": 100}).to_string();
    let began = Instant::now();
    let ran = room.run(&["--approve", "never", "call", "shell", &arguments]);
    assert_eq!(ran.code, 0, "{ran:?}");
    // It ended with haft: what it made was looked at then, however far it had come.
    assert!(began.elapsed() < Duration::from_secs(60));
    let is_there = |path: &str| room.at(path).exists();
    assert!(!is_there("sub/.envrc") && !is_there("AGENTS.md"));
    if is_there("ready") {
        assert!(is_there("sub/.envrc.haft-set-aside") && is_there("AGENTS.md.haft-set-aside"));
    }
}

#[test]
fn what_a_command_made_is_kept_by_a_grant_or_by_a_write_that_is_approved() {
    let room = Room::new();
    let make = |path: &str| room.call("shell", &json!({"command": format!("mkdir -p sub; echo x > {path}")}));
    let said = make("sub/.envrc").must("ok").text();
    assert!(
        said.contains("sub/.envrc.haft-set-aside") && said.contains("haft grants add 'write sub/.envrc'"),
        "{said}"
    );
    assert_eq!(room.text("sub/.envrc.haft-set-aside"), "x\n");
    assert_eq!(room.run(&["grants", "add", "write sub/.envrc"]).code, 0);
    let said = make("sub/.envrc").must("ok").text();
    assert!(room.at("sub/.envrc").exists() && said.contains("sub/.envrc is new"), "{said}");
    // The file tools of the same session write what a person allowed, and it stays.
    assert_eq!(room.run(&["grants", "add", "write AGENTS.md"]).code, 0);
    room.batch(
        &[],
        &[
            ("shell", json!({"command": "true"})),
            ("write", json!({"path": "AGENTS.md", "content": "Be kind.\n"})),
            ("shell", json!({"command": "true"})),
        ],
    );
    assert_eq!(room.text("AGENTS.md"), "Be kind.\n");
    assert!(!Path::new(&room.at("AGENTS.md.haft-set-aside")).exists());
}

#[test]
fn a_lasting_shell_is_watched_to_its_end() {
    let room = Room::new();
    let bash = |command: &str| ("bash", json!({"command": command}));
    let said: Vec<String> = room
        .batch(
            &["--approve", "never"],
            &[
                bash("mkdir -p a b"),
                bash("echo evil > a/.envrc"),
                bash("echo evil > b/.mcp.json"),
                bash("ls a b"),
            ],
        )
        .into_iter()
        .map(|it| it.text())
        .collect();
    assert!(
        said[1].contains("a/.envrc.haft-set-aside") && said[2].contains("b/.mcp.json.haft-set-aside"),
        "{said:?}"
    );
    assert!(!room.at("a/.envrc").exists() && !room.at("b/.mcp.json").exists());
    assert!(!said[3].contains("rule `control_files`"), "each is told once: {said:?}");
}
