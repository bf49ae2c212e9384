//! navi-1's 27 tools.

use serde_json::json;

use super::{TestWorkspace, all_answer, all_are_there, conversation};

#[test]
fn all_27_names_are_there_with_what_they_need() {
    all_are_there(
        "navi",
        &[
            ("web_search", &["query"]),
            ("web_view", &["url"]),
            ("filesystem", &["action"]),
            ("http_request", &["url"]),
            ("code_exec", &[]),
            ("terminal", &[]),
            ("ssh_exec", &["host"]),
            ("image_view", &[]),
            ("todo", &[]),
            ("scratchpad", &["action"]),
            ("reload_tools", &[]),
            ("write_tool", &["name", "code"]),
            ("list_tools", &[]),
            ("tool_manual", &["name"]),
            ("memory", &["action"]),
            ("spawn_agent", &["task"]),
            ("switch_profile", &["profile_id"]),
            ("list_profiles", &[]),
            ("share_file", &["path"]),
            ("content_publish", &["path"]),
            ("model_3d", &[]),
            ("scad_lint", &[]),
            ("render_3d", &["path"]),
            ("delete_tool", &["name"]),
            ("test_tool", &["tool_name"]),
            ("mcp_status", &[]),
            ("reflect", &["situation", "assumptions"]),
        ],
    );
}

const TOOL: &str = "name = \"twice\"\ndescription = \"Says it twice.\"\nparameters = {\"type\": \"object\", \"properties\": {\"it\": {\"type\": \"string\"}}, \"required\": [\"it\"]}\n\nasync def execute(params: dict) -> str:\n    return params[\"it\"] * 2\n";

/// A picture of one pixel.
const PNG: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0,
    0, 1, 8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 0x0d, b'I', b'D', b'A', b'T', 0x78, 0x9c, 0x63,
    0xf8, 0xcf, 0xc0, 0xf0, 0x1f, 0, 5, 0, 1, 0xff, 0x89, 0x99, 0x3d, 0x1d, 0, 0, 0, 0, b'I', b'E', b'N',
    b'D', 0xae, 0x42, 0x60, 0x82,
];

#[test]
fn each_tool_that_needs_no_agent_answers() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    test_ws.put("pixel.png", PNG);
    test_ws.put("part.scad", "difference() { cube(10; }\n");
    all_answer(
        &test_ws,
        "navi",
        &[
            (
                "filesystem",
                json!({"action": "write", "path": "a/b.txt", "content": "hello\n"}),
                "ok",
                "Written 6 bytes to a/b.txt",
            ),
            ("filesystem", json!({"action": "read", "path": "a/b.txt"}), "ok", "hello"),
            ("filesystem", json!({"action": "list", "path": "a"}), "ok", "b.txt"),
            ("filesystem", json!({"action": "read", "path": "no"}), "not_found", "File not found: no"),
            ("filesystem", json!({"action": "read", "path": "/etc/shadow"}), "denied", "/etc/shadow"),
            (
                "terminal",
                json!({"command": "echo out; echo err >&2; exit 3"}),
                "ok",
                "out\n[stderr]\nerr\nExit code 3",
            ),
            ("code_exec", json!({"code": "print(6 * 7)"}), "ok", "42"),
            ("todo", json!({"action": "set", "tasks": ["look", "leap"]}), "ok", "look"),
            ("scratchpad", json!({"action": "write", "content": "the plan"}), "ok", "main"),
            ("scratchpad", json!({"action": "read"}), "ok", "the plan"),
            ("memory", json!({"action": "save", "content": "the sky is blue"}), "ok", "1"),
            ("write_tool", json!({"name": "twice", "code": TOOL}), "ok", "twice"),
            ("test_tool", json!({"tool_name": "twice", "params": {"it": "ab"}}), "ok", "abab"),
            ("list_tools", json!({}), "ok", "filesystem"),
            ("tool_manual", json!({"name": "filesystem"}), "ok", "append"),
            ("reload_tools", json!({}), "ok", "twice"),
            ("delete_tool", json!({"name": "twice"}), "ok", "Deleted"),
            ("mcp_status", json!({}), "ok", "no MCP servers"),
            ("image_view", json!({"path": "pixel.png"}), "ok", "pixel.png"),
            ("share_file", json!({"path": "a/b.txt"}), "ok", "shared `b.txt`"),
            ("content_publish", json!({"path": "pixel.png"}), "ok", "published"),
            ("scad_lint", json!({"path": "part.scad"}), "ok", "1:"),
            ("render_3d", json!({"path": "no.stl"}), "not_found", "no.stl"),
            ("web_search", json!({"query": " "}), "bad_args", "query"),
            ("web_view", json!({"url": "ftp://example.org/"}), "bad_args", "ftp"),
            ("http_request", json!({"url": "file:///etc/passwd"}), "bad_args", "file"),
        ],
    );
}

#[test]
fn long_output_of_a_terminal_is_kept_whole_under_the_handle_it_names() {
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve_with(&["--toolset", "navi"]);
    for stream in ["", " >&2"] {
        let said = server.call("terminal", &json!({"command": format!("seq 1 5000{stream}")})).text;
        assert!(said.len() < 6_000 && said.contains("\n5000"), "{} bytes", said.len());
        let handle = said.split("all of it: ").nth(1).and_then(|it| it.split(';').next());
        let handle = handle.unwrap_or_else(|| panic!("no handle: {said}"));
        let read =
            server.does("filesystem", &json!({"action": "read", "path": handle, "offset": 2500, "limit": 1}));
        assert!(read.starts_with("2500\n"), "{read}");
    }
}

#[test]
fn other_names_of_arguments_are_understood() {
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve_with(&["--toolset", "navi"]);
    let said = server.does("scad_lint", &json!({"script": "cube(1);"}));
    assert!(said.contains("code: no problems"), "{said}");
    let said = server.call("model_3d", &json!({"script": "cube(1);", "timeout": 30})).text;
    assert!(said.contains("`output` is empty"), "{said}");
    let said = server.call("ssh_exec", &json!({"host": "nowhere", "username": "me", "timeout": 5})).text;
    assert!(
        said.contains("note: `timeout` was read as `timeout_ms`: 5000\nnote: `username` was read as `user`"),
        "{said}"
    );
}

#[test]
fn first_call_of_a_session_knows_tool_files_that_still_load() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    for (tool, arguments) in
        [("list_tools", json!({})), ("tool_manual", json!({"name": "twice"})), ("reload_tools", json!({}))]
    {
        // Another content each time: what is known of a file is not asked again.
        test_ws.put(".haft/tools/twice.py", format!("import time\ntime.sleep(1)  # {tool}\n{TOOL}"));
        let server = test_ws.serve_with(&["--trust", "--toolset", "navi"]);
        let said = server.does(tool, &arguments);
        assert!(said.contains("twice"), "{tool}: {said}");
    }
}

#[test]
fn reload_says_that_files_wait_for_the_persons_trust() {
    let test_ws = TestWorkspace::new();
    test_ws.put(".haft/tools/twice.py", TOOL);
    let server = test_ws.serve_with(&["--toolset", "navi"]);
    let said = server.does("reload_tools", &json!({}));
    assert!(
        said.contains("1 tool file is ignored until the person trusts this workspace (`haft trust`)."),
        "{said}"
    );
}

#[test]
fn list_of_tools_says_how_many_files_wait_for_the_persons_trust() {
    let test_ws = TestWorkspace::new();
    test_ws.put(".haft/tools/twice.py", TOOL);
    test_ws.put(".haft/tools/thrice.py", TOOL.replace("twice", "thrice"));
    for toolset in ["navi", "haft"] {
        let server = test_ws.serve_with(&["--toolset", toolset]);
        let said = server.does("list_tools", &json!({}));
        let line = "2 tool files are ignored until the person trusts this workspace (`haft trust`).";
        assert!(said.contains(line), "{toolset}: {said}");
    }
    let doctor = test_ws.run(&["doctor"]);
    assert!(doctor.out.contains("2 ignored until `haft trust`"), "{doctor:?}");
}

#[test]
fn folders_are_copied_moved_and_deleted_and_each_is_undone() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a/x", "one\n");
    test_ws.put("a/b/y", "two\n");
    let server = test_ws.serve_with(&["--toolset", "navi"]);
    let does = |action: &str, path: &str, to: &str| {
        server.does("filesystem", &json!({"action": action, "path": path, "destination": to}))
    };
    assert!(does("copy", "a", "c").starts_with("Copied a to c (2 files, 1 folder)"));
    assert_eq!((test_ws.text("c/x"), test_ws.text("c/b/y")), ("one\n".to_owned(), "two\n".to_owned()));
    assert_eq!(does("move", "c", "d/e"), "Moved c to d/e (2 files, 1 folder)");
    assert!(!test_ws.at("c").exists() && test_ws.text("d/e/b/y") == "two\n");
    assert_eq!(does("delete", "d/e", ""), "Deleted d/e (2 files, 1 folder)");
    assert!(!test_ws.at("d/e").exists());
    drop(server);
    let undo = || assert_eq!(test_ws.run(&["undo"]).code, 0);
    undo();
    assert_eq!((test_ws.text("d/e/x"), test_ws.text("d/e/b/y")), ("one\n".to_owned(), "two\n".to_owned()));
    undo();
    assert!(test_ws.text("c/b/y") == "two\n" && !test_ws.at("d/e/x").exists());
    undo();
    assert!(!test_ws.at("c/x").exists() && !test_ws.at("c/b/y").exists());
    assert_eq!(test_ws.text("a/b/y"), "two\n");
}

#[test]
fn folders_with_control_files_or_credentials_stay_as_they_are() {
    let test_ws = TestWorkspace::new();
    test_ws.put("repo/.git/HEAD", "ref: refs/heads/main\n");
    test_ws.put("repo/x", "x");
    test_ws.put("tools/deep/.envrc", "export X=1\n");
    // Only there it is the configuration of another program.
    test_ws.put("flows/crush/x", "{}\n");
    let rows = [
        ("delete", "repo", ""),
        ("move", "repo", "other"),
        ("copy", "tools", "other"),
        ("delete", "tools", ""),
        ("copy", "flows", ".config"),
        ("move", "flows", ".config"),
    ];
    let calls: Vec<_> = rows
        .iter()
        .map(|(action, path, to)| ("filesystem", json!({"action": action, "path": path, "destination": to})))
        .collect();
    let answers = test_ws.batch(&["--toolset", "navi", "--approve", "auto"], &calls);
    for (row, answer) in rows.iter().zip(answers) {
        assert_eq!(answer.kind(), "denied", "{row:?}: {}", answer.text());
        assert!(answer.text().contains("control"), "{row:?}: {}", answer.text());
    }
    assert!(test_ws.at("repo/x").exists() && test_ws.at("tools/deep/.envrc").exists());
    assert!(!test_ws.at("other").exists() && !test_ws.at(".config").exists());

    let key = test_ws.base().join("home/.ssh/id_ed25519");
    std::fs::create_dir_all(key.parent().unwrap()).unwrap();
    std::fs::write(&key, "secret").unwrap();
    for (action, to) in [("delete", ""), ("move", "moved"), ("copy", "copied")] {
        let arguments = json!({"action": action, "path": "home", "destination": to}).to_string();
        let arguments = ["--toolset", "navi", "--approve", "auto", "call", "filesystem", &arguments];
        let ran = crate::support::run(&mut test_ws.haft_in(test_ws.base(), &arguments), "");
        assert!(ran.code != 0 && format!("{ran:?}").contains("credentials"), "{action}: {ran:?}");
    }
    assert!(key.exists() && !test_ws.base().join("copied").exists());
}

#[test]
fn enabled_tools_are_in_every_profile_and_the_others_in_those_that_list_them() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    for name in ["one", "two", "three"] {
        test_ws.put(&format!(".haft/tools/{name}.py"), TOOL.replace("twice", name));
    }
    test_ws.put(".haft/tools/enabled.json", "[\"one\", \"three\"]");
    test_ws.put(
        ".haft/agents/judge.md",
        "---\ndescription: judges\ntools: [list_tools]\ndisallowedTools: [three]\n---\nJudge.\n",
    );
    let script = test_ws.base().join("script.jsonl");
    let call = json!({"say": "", "calls": [{"tool": "list_tools", "arguments": {}}]});
    std::fs::write(&script, format!("{call}\n{{\"say\": \"Done.\"}}\n")).unwrap();
    let model = format!("script:{}", script.display());
    let shown = |profile: &str| {
        let options =
            ["--trust", "--toolset", "navi", "run", "--json", "--model", &model, "--profile", profile];
        let ran = test_ws.run(&[&options[..], &["look"]].concat());
        let answered =
            ran.out.lines().find(|it| it.contains("\"answered\"")).unwrap_or_else(|| panic!("{ran:?}"));
        ["one", "two", "three"].map(|it| answered.contains(&format!("{it}: Says it {it}.")))
    };
    assert_eq!(shown("judge"), [true, false, false]);
    assert_eq!(
        shown("general"),
        [true, true, true],
        "the list takes nothing from a profile that has all tools"
    );
}

#[test]
fn a_session_in_its_words_uses_ten_of_them() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    test_ws.put("pixel.png", PNG);
    let ran = conversation(
        &test_ws,
        "navi",
        &[
            ("todo", json!({"action": "set", "tasks": ["write it", "run it"]}), "write it"),
            (
                "filesystem",
                json!({"action": "write", "path": "sum.py", "content": "print(2 + 3)\n"}),
                "Written 13 bytes",
            ),
            ("terminal", json!({"command": "python3 sum.py"}), "5"),
            ("code_exec", json!({"code": "print(40 + 2)"}), "42"),
            (
                "scratchpad",
                json!({"action": "write", "section": "findings", "content": "it is 5"}),
                "findings",
            ),
            ("memory", json!({"action": "save", "content": "sum.py says 5"}), ""),
            ("list_tools", json!({}), "web_view"),
            ("tool_manual", json!({"name": "terminal"}), "terminal"),
            ("list_profiles", json!({}), "plan"),
            ("image_view", json!({"path": "pixel.png"}), "pixel.png"),
            ("share_file", json!({"path": "sum.py"}), "shared `sum.py`"),
            ("mcp_status", json!({}), "no MCP servers"),
        ],
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.ends_with("All done.\n"), "{ran:?}");
    assert_eq!(test_ws.text("sum.py"), "print(2 + 3)\n");
}
