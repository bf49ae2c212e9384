//! Policy: what is allowed, what needs approval, and whose configuration counts.

use std::{fs, os::unix::fs::symlink};

use serde_json::{Value, json};

use crate::support::{TestWorkspace, run};

const CONTROL: [&str; 12] = [
    ".git/config",
    ".git/hooks/pre-commit",
    ".GIT/Config",
    "sub/.git/hooks/x",
    "haft.toml",
    "HAFT.TOML",
    ".mcp.json",
    "sub/.mcp.json",
    ".haft/x",
    ".Haft/tools/x.py",
    "link_to_git/config",
    "link_to_config",
];

fn room_with_links() -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    test_ws.put(".git/config", "[core]\n");
    test_ws.put(".git/HEAD", "ref: refs/heads/main\n");
    symlink(".git", test_ws.at("link_to_git")).unwrap();
    symlink(".git/config", test_ws.at("link_to_config")).unwrap();
    test_ws
}

/// Returns every call that writes to this path.
fn writes(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("write", json!({"path": path, "content": "x"})),
        ("edit", json!({"path": path, "edits": [{"insert": "end", "new": "x"}]})),
        ("editor", json!({"command": "create", "path": path, "file_text": "x"})),
        ("editor", json!({"command": "insert", "path": path, "insert_line": 0, "new_str": "x"})),
        ("json_write", json!({"path": path, "pointer": "", "value": 1})),
    ]
}

#[test]
fn control_files_are_changed_only_after_approval() {
    let test_ws = room_with_links();
    for options in [&[][..], &["--approve", "never"], &["--approve", "ask"]] {
        for path in CONTROL {
            for called in test_ws.batch(options, &writes(path)) {
                assert_eq!(called.kind(), "denied", "{path}: {}", called.text());
                assert!(called.text().contains("rule `control_files`"), "{}", called.text());
            }
        }
    }
    assert_eq!(test_ws.text(".git/config"), "[core]\n");
    assert!(
        !test_ws.at("haft.toml").exists()
            && !test_ws.at(".mcp.json").exists()
            && !test_ws.at(".haft").exists()
    );
    // Links to them are read like any other, and their neighbours are written like any other.
    test_ws.call("read", &json!({"path": "link_to_config"})).must("ok");
    test_ws.call("write", &json!({"path": ".gitignore", "content": "target\n"})).must("ok");
    for path in CONTROL
        .into_iter()
        .filter(|path| !path.contains("link_to") && *path != ".git/config" && *path != "haft.toml")
    {
        test_ws
            .call_with(&["--approve", "auto"], "write", &json!({"path": path, "content": "x\n"}))
            .must("ok");
        assert_eq!(test_ws.text(path), "x\n");
    }
    let edit = json!({"path": "link_to_config", "edits": [{"old": "[core]", "new": "[user]"}]});
    test_ws.call_with(&["--approve", "auto"], "edit", &edit).must("ok");
    assert_eq!(test_ws.text(".git/config"), "[user]\n");
    assert!(fs::symlink_metadata(test_ws.at("link_to_config")).unwrap().is_symlink());
}

#[test]
fn a_control_file_that_is_replaced_while_commands_run_stays_closed_to_them() {
    let test_ws = TestWorkspace::new();
    test_ws.put("haft.toml", "deadline_seconds = 30\n");
    let server = test_ws.serve();
    let write = |tool: &str| server.call(tool, &json!({"command": "echo x > haft.toml; cat haft.toml"})).text;
    for (turn, tool) in ["bash", "shell", "bash"].into_iter().enumerate() {
        assert!(write(tool).contains("Read-only file system"), "{tool}");
        // As an editor saves it. The kernel takes away what was mounted over the file.
        let text = format!("deadline_seconds = 4{turn}\n");
        test_ws.put("new", &text);
        fs::rename(test_ws.at("new"), test_ws.at("haft.toml")).unwrap();
        let mut said = write(tool);
        if said.contains("the next call starts a new one") {
            // It was on its way to the bash that ended.
            assert_eq!(test_ws.text("haft.toml"), text);
            said = write(tool);
        }
        assert!(said.contains(text.trim()), "{tool} {turn}: {said}");
        assert_eq!(test_ws.text("haft.toml"), text, "{tool}");
    }
}

#[test]
fn a_server_has_nobody_to_ask_and_says_so() {
    let test_ws = room_with_links();
    let server = test_ws.serve();
    let said = server.call("write", &json!({"path": ".mcp.json", "content": "{}"}));
    assert!(server.finish().0.success());
    assert!(
        said.is_error && said.text.contains("nobody to ask") && said.text.contains("--approve auto"),
        "{}",
        said.text
    );
    test_ws.serve_with(&["--approve", "auto"]).does("write", &json!({"path": ".mcp.json", "content": "{}"}));
    let log = test_ws.log();
    assert_eq!(log[0]["decision"], "denied, nobody to ask: control_files");
    assert_eq!(log[1]["decision"], "allowed");
}

#[test]
fn undo_does_not_get_around_approval() {
    let test_ws = room_with_links();
    let edit = json!({"path": ".git/config", "edits": [{"old": "[core]", "new": "[user]"}]});
    test_ws.call_with(&["--approve", "auto"], "edit", &edit).must("ok");
    for undo in [json!({}), json!({"path": ".git/config"})] {
        assert!(!test_ws.call("undo", &undo).text().contains("restored .git/config"), "{undo}");
        assert_eq!(test_ws.text(".git/config"), "[user]\n", "{undo}");
    }
}

#[test]
fn read_only_changes_nothing_and_reads_everything() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    for approve in ["auto", "ask"] {
        let options = ["--sandbox", "read-only", "--approve", approve];
        for path in ["file", "new", "folder/new"] {
            for called in test_ws.batch(&options, &writes(path)) {
                assert!(
                    called.kind() == "denied" && called.text().contains("rule `sandbox`"),
                    "{}",
                    called.text()
                );
            }
        }
        test_ws.call_with(&options, "read", &json!({"path": "file"})).must("ok");
        test_ws.call_with(&options, "editor", &json!({"command": "view", "path": "file"})).must("ok");
    }
    assert_eq!(crate::support::names(&test_ws.at("")), ["file"]);
    assert_eq!(test_ws.text("file"), "one\n");
}

#[test]
fn read_only_also_holds_for_undo() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    test_ws.call("edit", &json!({"path": "file", "edits": [{"old": "one", "new": "two"}]})).must("ok");
    for undo in [json!({}), json!({"path": "file"})] {
        let called = test_ws.call_with(&["--sandbox", "read-only"], "undo", &undo);
        assert_eq!(test_ws.text("file"), "two\n", "{undo}: {}", called.text());
    }
}

#[test]
fn another_root_can_be_reached_and_a_read_only_one_only_read() {
    let test_ws = TestWorkspace::new();
    fs::write(test_ws.outside().join("file"), "one\n").unwrap();
    let file = test_ws.outside().join("file").to_str().unwrap().to_owned();
    let edit = json!({"path": file, "edits": [{"old": "one", "new": "two"}]});
    test_ws.call("read", &json!({"path": file})).must("denied");

    let read_only = format!("{}:ro", test_ws.outside().display());
    let before = test_ws.outside_now();
    test_ws.call_with(&["--root", &read_only], "read", &json!({"path": file})).must("ok");
    test_ws.call_with(&["--root", &read_only], "read", &json!({"path": "../outside/file"})).must("denied");
    for called in test_ws.batch(&["--root", &read_only, "--approve", "auto"], &writes(&file)) {
        assert!(
            called.kind() == "denied" && called.text().contains("rule `read_only_root`"),
            "{}",
            called.text()
        );
    }
    assert_eq!(test_ws.outside_now(), before);

    let root = test_ws.outside().to_str().unwrap().to_owned();
    test_ws.call_with(&["--root", &root], "edit", &edit).must("ok");
    assert_eq!(fs::read_to_string(&file).unwrap(), "two\n");
    let hook = json!({"path": format!("{root}/.git/hooks/x"), "content": ""});
    test_ws.call_with(&["--root", &root], "write", &hook).must("denied");
    test_ws.call_with(&["--root", &root], "undo", &json!({"path": file})).must("ok");
    assert_eq!(fs::read_to_string(&file).unwrap(), "one\n");
}

/// Returns the names of the tools, and checks that each way to list them gives the same order.
fn tools(test_ws: &TestWorkspace, options: &[&str]) -> Vec<String> {
    let with = |more: &[&'static str]| test_ws.run(&[options, more].concat()).out;
    let plain: Vec<String> =
        with(&["tools"]).lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect();
    let named = |specs: Value| -> Vec<String> {
        specs.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    let json = named(serde_json::from_str(&with(&["tools", "--json"])).unwrap());
    let server = test_ws.serve_with(options);
    let served = named(server.ask("tools/list", &json!({})).wait().unwrap()["result"]["tools"].clone());
    assert_eq!(plain, json, "one list, wherever it is asked for");
    // A client is listed a part of them where all would cost too much, in the same order.
    let is_part = served.iter().any(|it| it == "call_tool");
    // Nothing begins turns of a client's own agent.
    let for_agents =
        ["add_timer", "add_schedule", "watch_channel", "delete_trigger", "search_tools", "call_tool"];
    let is_for_agents = |it: &String| !served.contains(it) && for_agents.contains(&it.as_str());
    let shown = plain.iter().filter(|it| !is_for_agents(it) && (!is_part || served.contains(it)));
    assert!(shown.eq(&served), "{plain:?} and {served:?}");
    plain
}

#[test]
fn a_tool_that_is_not_on_the_list_is_nowhere() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    let all = tools(&test_ws, &[]);
    for tool in ["read", "edit", "write", "skim", "filegrep", "editor", "json_read", "json_write", "undo"] {
        assert!(all.iter().any(|it| it == tool), "{tool} is not in {all:?}");
    }
    test_ws.put("haft.toml", "tools = [\"read\", \"edit\"]\n");
    let mut listed = tools(&test_ws, &[]);
    listed.sort();
    assert_eq!(listed, ["edit", "read"]);
    assert!(!test_ws.run(&["tools", "--json"]).out.contains("\"write\""));
    test_ws.call("write", &json!({"path": "new", "content": "x"})).must("not_found");
    let server = test_ws.serve();
    let answer =
        server.ask("tools/call", &json!({"name": "write", "arguments": {"path": "new", "content": "x"}}));
    assert_eq!(answer.wait().unwrap()["error"]["code"], -32602);
    assert!(!test_ws.at("new").exists());
    assert_eq!(test_ws.run(&["manual", "write"]).code, 1);
    test_ws.call("read", &json!({"path": "file"})).must("ok");
}

#[test]
fn an_unknown_tool_on_the_list_is_reported_and_strict_refuses() {
    let test_ws = TestWorkspace::new();
    test_ws.put("haft.toml", "tools = [\"read\", \"raed\"]\n");
    let ran = test_ws.run(&["tools"]);
    assert!(ran.code == 0 && ran.err.contains("`raed`"), "{ran:?}");
    let ran = test_ws.run(&["tools", "--strict"]);
    assert!(ran.code != 0 && ran.out.is_empty() && ran.err.contains("`raed`"), "{ran:?}");
    test_ws.put("haft.toml", "tools = [\"read\"]\n");
    assert_eq!(test_ws.run(&["tools", "--strict"]).code, 0);
    assert!(!test_ws.run(&["prompt"]).err.contains("unknown tool"));
    for (place, text) in [
        ("`listed`", "listed = [\"raed\"]\n"),
        ("`manual_first`", "manual_first = [\"raed\"]\n"),
        ("a `[tool.NAME]` section", "[tool.raed]\nmanual_first = true\n"),
    ] {
        test_ws.put("haft.toml", text);
        let said = format!("{place} in haft.toml names the unknown tool `raed`");
        let ran = test_ws.run(&["--trust", "tools"]);
        assert!(ran.code == 0 && ran.err.contains(&said), "{ran:?}");
        let ran = test_ws.run(&["--trust", "tools", "--strict"]);
        assert!(ran.code != 0 && ran.err.contains(&said), "{ran:?}");
    }
    test_ws.put("haft.toml", "toolz = [\"read\"]\n");
    let ran = test_ws.run(&["tools", "--strict"]);
    assert!(ran.code != 0 && ran.err.contains("toolz"), "a typo is named: {ran:?}");
}

#[test]
fn strict_keeps_call_run_and_mcp_from_starting_while_a_tool_is_missing() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    let script = test_ws.base().join("script.jsonl");
    std::fs::write(&script, "{\"say\": \"Done.\"}\n").unwrap();
    let model = format!("script:{}", script.display());
    let verbs: [&[&str]; 3] =
        [&["call", "read", r#"{"path": "file"}"#], &["run", "--model", &model, "go"], &["mcp"]];
    let strict = |verb: &[&str]| test_ws.run(&[&verb[..1], &["--strict"], &verb[1..]].concat());
    for (config, says) in [
        ("tools = [\"read\", \"raed\"]\n", "`raed`"),
        ("listed = [\"raed\"]\n", "`listed` in haft.toml names the unknown tool `raed`"),
        ("toolz = [\"read\"]\n", "toolz"),
    ] {
        test_ws.put("haft.toml", config);
        for verb in verbs {
            let ran = strict(verb);
            assert!(ran.code != 0 && ran.out.is_empty() && ran.err.contains(says), "{verb:?}: {ran:?}");
            assert_eq!(test_ws.run(verb).code, 0, "{verb:?} without it");
        }
    }
    // Tools of agents are not missing without an agent, nor is a tool that a profile leaves out.
    test_ws.put("haft.toml", "tools = [\"read\", \"subagent\"]\nlisted = [\"subagent\"]\n");
    for verb in verbs {
        let ran = strict(verb);
        assert_eq!(ran.code, 0, "{verb:?}: {ran:?}");
    }
}

#[test]
fn every_command_that_starts_an_agent_tells_of_unknown_names_of_tools() {
    let test_ws = TestWorkspace::new();
    test_ws.put("haft.toml", "tools = [\"read\", \"raed\", \"zzz\"]\n[subagent]\ntools = [\"grpe\"]\n");
    test_ws.put("script.jsonl", "{\"say\": \"done\"}\n");
    let model = format!("script:{}", test_ws.at("script.jsonl").display());
    let told = [
        "`tools` in haft.toml names the unknown tool `raed`; did you mean `read`?",
        "`tools` in haft.toml names the unknown tool `zzz`\n",
        "`tools` of `[subagent]` in haft.toml names the unknown tool `grpe`; did you mean `grep`?",
    ];
    for words in [vec!["prompt"], vec!["run", "--model", &model, "go"]] {
        let ran = test_ws.run(&words);
        told.iter().for_each(|it| assert!(ran.err.contains(it), "{it}: {ran:?}"));
    }
    let ran = test_ws.run(&["doctor"]);
    told.iter().for_each(|it| assert!(ran.out.contains(it), "{it}: {ran:?}"));
    let ran = test_ws.run(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["tool_files"]["unknown"].as_array().unwrap().len(), 3, "{ran:?}");
}

#[test]
fn a_workspace_widens_what_is_allowed_only_when_it_is_trusted() {
    let test_ws = TestWorkspace::new();
    fs::write(test_ws.outside().join("file"), "one\n").unwrap();
    let outside = json!({"path": test_ws.outside().join("file")});
    let hook = json!({"path": ".git/hooks/x", "content": "x"});
    test_ws.put("haft.toml", format!("roots = [{:?}]\napprove = \"auto\"\n", test_ws.outside()));
    test_ws.call("read", &outside).must("denied");
    test_ws.call("write", &hook).must("denied");
    let ran = test_ws.run(&["call", "read", &outside.to_string()]);
    assert!(ran.err.contains("`roots`") && ran.err.contains("haft trust"), "{ran:?}");
    // For this run only.
    test_ws.call_with(&["--trust"], "read", &outside).must("ok");
    test_ws.call("read", &outside).must("denied");
    assert_eq!(test_ws.run(&["trust"]).code, 0);
    test_ws.call("read", &outside).must("ok");
    test_ws.call("write", &hook).must("ok");
    // Another text is not what was trusted.
    test_ws.put(
        "haft.toml",
        format!("roots = [{:?}]\napprove = \"auto\"\nsandbox = \"full\"\n", test_ws.outside()),
    );
    test_ws.call("read", &outside).must("denied");
    // A setting that narrows applies at once.
    test_ws.put("haft.toml", "sandbox = \"read-only\"\n");
    test_ws.call("write", &json!({"path": "new", "content": "x"})).must("denied");
}

#[test]
fn the_users_own_configuration_is_believed_and_the_workspace_cannot_undo_it() {
    let test_ws = TestWorkspace::new();
    fs::create_dir(test_ws.config()).unwrap();
    fs::write(test_ws.config().join("haft.toml"), "tools = [\"read\", \"write\"]\napprove = \"auto\"\n")
        .unwrap();
    test_ws.call("write", &json!({"path": ".mcp.json", "content": "{}"})).must("ok");
    test_ws.put("haft.toml", "tools = [\"read\", \"edit\"]\n");
    assert_eq!(tools(&test_ws, &[]), ["read"]);
}

#[test]
fn a_toolset_is_exactly_its_tools_and_they_work() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\ntwo\nthree\n");
    let nav = ["read", "edit", "write", "skim", "filegrep", "shell", "shell_status", "subagent"];
    assert_eq!(tools(&test_ws, &["--toolset", "nav"]), nav);
    assert_eq!(tools(&test_ws, &["--toolset", "hyperagents"]), ["bash", "editor"]);
    let navi = [
        "web_search",
        "web_view",
        "filesystem",
        "http_request",
        "terminal",
        "code_exec",
        "image_view",
        "todo",
        "scratchpad",
        "memory",
        "write_tool",
        "delete_tool",
        "test_tool",
        "list_tools",
        "tool_manual",
        "reload_tools",
        "share_file",
        "content_publish",
        "model_3d",
        "scad_lint",
        "render_3d",
        "mcp_status",
        "read_job",
        "wait",
        "stop_task",
        "undo",
        "ssh_exec",
        "spawn_agent",
        "list_profiles",
        "switch_profile",
        "reflect",
    ];
    assert_eq!(tools(&test_ws, &["--toolset", "navi"]), navi);
    let terrarium = [
        "bash",
        "python",
        "read",
        "write",
        "edit",
        "multi_edit",
        "glob",
        "grep",
        "tree",
        "json_read",
        "json_write",
        "notebook_read",
        "notebook_edit",
        "web_fetch",
        "web_search",
        "scratchpad",
        "search_memory",
        "info",
        "jobs",
        "read_job",
        "wait",
        "stop_task",
        "continue_job",
        "explore",
        "critic",
        "subagent",
        "ask_user",
        "show_card",
        "add_timer",
        "add_schedule",
        "watch_channel",
        "delete_trigger",
        "search_tools",
        "call_tool",
    ];
    assert_eq!(tools(&test_ws, &["--toolset", "terrarium"]), terrarium);

    let server = test_ws.serve_with(&["--toolset", "nav"]);
    let shown = server.does("read", &json!({"path": "file"}));
    let (one, two) = (crate::support::anchor(&shown, "one"), crate::support::anchor(&shown, "two"));
    server.does("edit", &json!({"path": "file", "anchor": two, "new_text": "TWO"}));
    server.does("edit", &json!({"path": "file", "anchor": one, "insert_after": true, "new_text": "1.5"}));
    server.does("edit", &json!({"path": "file", "old_string": "three", "new_string": "THREE"}));
    let edits = json!([{"old_string": "TWO", "new_string": "2"}, {"old_string": "THREE", "new_string": "3"}]);
    server.does("edit", &json!({"path": "file", "edits": edits}));
    assert_eq!(test_ws.text("file"), "one\n1.5\n2\n3\n");
    assert!(server.does("skim", &json!({"path": "file", "start_line": 2, "end_line": 3})).contains("|1.5"));
    assert!(server.does("filegrep", &json!({"path": "file", "pattern": "one"})).contains("|one"));
    server.does("write", &json!({"path": "new", "content": "x\n"}));

    let server = test_ws.serve_with(&["--toolset", "hyperagents"]);
    server.does("editor", &json!({"command": "create", "path": "made", "file_text": "a\tb\n"}));
    server.does("editor", &json!({"command": "str_replace", "path": "made", "old_str": "a", "new_str": "c"}));
    server.does("editor", &json!({"command": "insert", "path": "made", "insert_line": 1, "new_str": "d"}));
    assert!(server.does("editor", &json!({"command": "view", "path": "made"})).contains("c\tb"));
    assert_eq!(test_ws.text("made"), "c\tb\nd\n");
    for expected in ["c\tb\n", "a\tb\n"] {
        server.does("editor", &json!({"command": "undo_edit", "path": "made"}));
        assert_eq!(test_ws.text("made"), expected);
    }
    server.does("editor", &json!({"command": "undo_edit", "path": "made"}));
    assert!(!test_ws.at("made").exists());
}

#[test]
fn no_call_reaches_hafts_own_state_although_it_lies_in_the_workspace() {
    let test_ws = TestWorkspace::new();
    let state = test_ws.at("inner/state");
    fs::create_dir_all(&state).unwrap();
    let call = |tool: &str, arguments: &Value| {
        let mut command = test_ws.haft(&["call", tool, &arguments.to_string()]);
        command.env("HAFT_STATE_DIR", &state);
        run(&mut command, "").out
    };
    test_ws.put("plain", "needle\n");
    assert!(call("read", &json!({"path": "plain"})).contains("needle"));
    for path in ["inner/state/trusted", "inner/state/workspaces", "./inner/../inner/state/trusted"] {
        let said = call("write", &json!({"path": path, "content": "x"}));
        assert!(said.contains("rule `own_state`"), "{said}");
    }
    assert!(!state.join("trusted").exists());
    let said = call("grep", &json!({"pattern": "needle|journal"}));
    assert!(said.contains("plain") && !said.contains("inner/"), "{said}");
}
