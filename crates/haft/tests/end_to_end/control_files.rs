//! Control files: file tools ask before they write one, at any depth, also where only git's configuration names it.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::support::TestWorkspace;

/// A repository that is made without git.
fn repository(test_ws: &TestWorkspace, git: &str, configuration: &str) {
    for folder in ["objects", "refs", "hooks"] {
        fs::create_dir_all(test_ws.at(git).join(folder)).unwrap();
    }
    test_ws.put(&format!("{git}/HEAD"), "ref: refs/heads/main\n");
    test_ws.put(&format!("{git}/config"), configuration);
}

fn asks(test_ws: &TestWorkspace, path: &str) {
    let called = test_ws.call("write", &json!({"path": path, "content": "x"}));
    assert_eq!(called.kind(), "denied", "{path}: {}", called.text());
    assert!(called.text().contains("rule `control_files`"), "{path}: {}", called.text());
    assert!(!test_ws.at(path).exists() || test_ws.text(path) != "x");
}

fn writes(test_ws: &TestWorkspace, path: &str) {
    test_ws.call("write", &json!({"path": path, "content": "x"})).must("ok");
}

#[test]
fn hooks_that_a_configuration_names_need_approval() {
    let test_ws = TestWorkspace::new();
    writes(&test_ws, ".githooks/pre-commit");
    fs::remove_dir_all(test_ws.at(".githooks")).unwrap();
    repository(
        &test_ws,
        ".git",
        "[core]\n\thooksPath = .githooks\n\tfsmonitor = tools/watch\n[filter \"x\"]\n\tclean = python3 tools/clean.py\n\
         [diff \"x\"]\n\ttextconv = tools/text\n[merge \"x\"]\n\tdriver = ./merge.sh %A\n[alias]\n\tx = !tools/alias\n\
         [include]\n\tpath = ../more.inc\n[credential]\n\thelper = !tools/secret\n[core]\n\teditor = tools/edit\n",
    );
    test_ws.put("more.inc", "[core]\n\tpager = tools/page\n\tsshCommand = tools/ssh\n");
    symlink("../../tools/linked", test_ws.at(".git/hooks/post-commit")).unwrap();
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
        asks(&test_ws, path);
    }
    writes(&test_ws, "tools/other");
}

#[test]
fn nested_repositories_worktrees_submodules_and_the_person_s_own_configuration_count() {
    let test_ws = TestWorkspace::new();
    repository(&test_ws, "a/b/.git", "[core]\n\thooksPath = ../../outer\n");
    repository(&test_ws, "main/.git", "[core]\n\thooksPath = tree-hooks\n");
    fs::create_dir_all(test_ws.at("main/.git/worktrees/t")).unwrap();
    test_ws.put("main/.git/worktrees/t/commondir", "../..\n");
    test_ws.put("t/.git", "gitdir: ../main/.git/worktrees/t\n");
    repository(&test_ws, ".git", "[core]\n\tbare = false\n");
    repository(&test_ws, ".git/modules/s", "[core]\n\thooksPath = s-hooks\n");
    test_ws.put("s/.git", "gitdir: ../.git/modules/s\n");
    let home = test_ws.base().join("home");
    let text = format!(
        "[core]\n\tattributesFile = {}\n[credential]\n\thelper = {}\n",
        test_ws.at("my.attributes").display(),
        test_ws.at("help/me").display()
    );
    fs::write(home.join(".gitconfig"), text).unwrap();
    for path in
        ["outer/pre-push", "t/tree-hooks/x", "main/tree-hooks/x", "s/s-hooks/x", "my.attributes", "help/me"]
    {
        asks(&test_ws, path);
    }
    writes(&test_ws, "a/b/outer/pre-push");
}

#[test]
fn what_agents_editors_shells_and_debuggers_obey_needs_approval_at_any_depth() {
    let test_ws = TestWorkspace::new();
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
        asks(&test_ws, name);
        asks(&test_ws, &format!("sub/deeper/{name}"));
    }
}

#[test]
fn a_root_named_after_a_control_folder_is_an_ordinary_root() {
    let test_ws = TestWorkspace::new();
    let folder = test_ws.base().join("home/.claude/worktrees/x");
    fs::create_dir_all(&folder).unwrap();
    let call = |path: &str| {
        let arguments = json!({"path": folder.join(path), "content": "x"}).to_string();
        test_ws.run(&["--root", folder.to_str().unwrap(), "call", "write", &arguments]).code
    };
    assert_eq!((call("src/main.rs"), call(".claude/settings.json")), (0, 1));
}

#[test]
fn a_command_that_is_stopped_leaves_no_control_file() {
    let test_ws = TestWorkspace::new();
    test_ws.put("sub/x", "");
    let command = "echo evil > sub/.envrc; echo evil > AGENTS.md; echo ready > ready; sleep 1000";
    let arguments = json!({"command": command, "wait_ms": 100}).to_string();
    let began = Instant::now();
    let ran = test_ws.run(&["--approve", "never", "call", "shell", &arguments]);
    assert_eq!(ran.code, 0, "{ran:?}");
    // The command ended with haft: its files were checked then, however far it had got.
    assert!(began.elapsed() < Duration::from_secs(60));
    let is_there = |path: &str| test_ws.at(path).exists();
    assert!(!is_there("sub/.envrc") && !is_there("AGENTS.md"));
    if is_there("ready") {
        assert!(is_there("sub/.envrc.haft-set-aside") && is_there("AGENTS.md.haft-set-aside"));
    }
}

#[test]
fn what_a_command_made_is_kept_by_a_grant_or_by_a_write_that_is_approved() {
    let test_ws = TestWorkspace::new();
    let make =
        |path: &str| test_ws.call("shell", &json!({"command": format!("mkdir -p sub; echo x > {path}")}));
    let said = make("sub/.envrc").must("ok").text();
    assert!(
        said.contains("sub/.envrc.haft-set-aside") && said.contains("haft grants add 'write sub/.envrc'"),
        "{said}"
    );
    assert_eq!(test_ws.text("sub/.envrc.haft-set-aside"), "x\n");
    assert_eq!(test_ws.run(&["grants", "add", "write sub/.envrc"]).code, 0);
    let said = make("sub/.envrc").must("ok").text();
    assert!(test_ws.at("sub/.envrc").exists() && said.contains("sub/.envrc is new"), "{said}");
    // The file tools of the same session write what a person allowed, and it stays.
    assert_eq!(test_ws.run(&["grants", "add", "write AGENTS.md"]).code, 0);
    test_ws.batch(
        &[],
        &[
            ("shell", json!({"command": "true"})),
            ("write", json!({"path": "AGENTS.md", "content": "Be kind.\n"})),
            ("shell", json!({"command": "true"})),
        ],
    );
    assert_eq!(test_ws.text("AGENTS.md"), "Be kind.\n");
    assert!(!Path::new(&test_ws.at("AGENTS.md.haft-set-aside")).exists());
}

#[test]
fn a_lasting_shell_is_watched_to_its_end() {
    let test_ws = TestWorkspace::new();
    let bash = |command: &str| ("bash", json!({"command": command}));
    let said: Vec<String> = test_ws
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
    assert!(!test_ws.at("a/.envrc").exists() && !test_ws.at("b/.mcp.json").exists());
    assert!(!said[3].contains("rule `control_files`"), "each is told once: {said:?}");
}

#[test]
fn a_tree_of_many_files_gets_no_notice() {
    let test_ws = TestWorkspace::new();
    for folder in 0..21 {
        let path = test_ws.at(&format!("d{folder}"));
        fs::create_dir_all(&path).unwrap();
        (0..1_000).for_each(|file| drop(fs::File::create(path.join(file.to_string())).unwrap()));
    }
    let server = test_ws.serve();
    for _ in 0..2 {
        assert_eq!(server.does("shell", &json!({"command": "true"})), "(no output)");
    }
    let answer = server.does("shell", &json!({"command": "echo x > d20/.envrc; true"}));
    assert!(answer.contains("d20/.envrc.haft-set-aside"), "its files are still watched: {answer}");
}
