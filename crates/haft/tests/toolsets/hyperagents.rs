//! HyperAgents' `bash` and `editor`.

use serde_json::{Value, json};

use super::{TestWorkspace, all_answer};

#[test]
fn errors_come_after_the_output_under_a_line_that_says_so() {
    let test_ws = TestWorkspace::new();
    all_answer(
        &test_ws,
        "hyperagents",
        &[
            ("bash", json!({"command": "echo one; echo err >&2; echo two"}), "ok", "one\ntwo\nError:\nerr"),
            ("bash", json!({"command": "ls /nonexistent/directory"}), "ok", "Error:\nls: "),
            ("bash", json!({"command": "cd /nonexistent"}), "ok", "Error:\nbash: cd: /nonexistent: "),
            // The shell persists, and output that the command itself redirects to stdout is not an error.
            ("bash", json!({"command": "set -x; kept=1; set +x"}), "ok", "Error:\n"),
            ("bash", json!({"command": "echo \"kept $kept\"; ls /nonexistent 2>&1"}), "ok", "kept 1\nls: "),
        ],
    );
    let called = test_ws.batch(&["--toolset", "hyperagents"], &[("bash", json!({"command": "echo fine"}))]);
    assert_eq!(called.first().unwrap().text().trim(), "fine");
}

#[test]
fn many_errors_and_much_output_are_both_shown() {
    let test_ws = TestWorkspace::new();
    let command = "seq -f 'out %g' 1 20000; seq -f 'err %g' 1 20000 >&2";
    let called = test_ws.batch(&["--toolset", "hyperagents"], &[("bash", json!({"command": command}))]);
    let text = called.first().unwrap().text();
    for part in ["out 1\n", "\nout 20000\nError:\nerr 1\n", "\nerr 20000", "bytes left out"] {
        assert!(text.contains(part), "`{part}` is not in {} bytes\n{text}", text.len());
    }
}

#[test]
fn the_model_is_told_how_many_calls_of_its_answer_were_not_run() {
    let answer = |calls: usize| -> String {
        let block = |at: usize| {
            let call = json!({"tool_name": "bash", "tool_input": {"command": format!("echo ran-$(({at}))")}});
            format!("<json>\n{call}\n</json>\n")
        };
        (1..=calls).map(block).collect()
    };
    for (config, calls, told, noted) in [
        (
            "max_calls = 1",
            3,
            "Your answer had 3 calls, and only the first was run: one call per answer. The other 2 were not run: write \
             them again if you still want them.",
            "2 calls of the answer were not run: `max_calls` of `[agent]` in haft.toml is 1",
        ),
        (
            "",
            41,
            "Your answer had 41 calls, and only the first 40 were run, which is the most per answer. The other one was \
             not run: write it again if you still want it.",
            "1 call of the answer was not run: `max_calls` of `[agent]` in haft.toml is 40",
        ),
    ] {
        let test_ws = TestWorkspace::new();
        std::fs::create_dir_all(test_ws.config()).unwrap();
        std::fs::write(test_ws.config().join("haft.toml"), format!("[agent]\n{config}\n")).unwrap();
        let ran = ran(
            &test_ws,
            &[json!({"say": answer(calls)}), json!({"expect": ["ran-1", told], "say": "Done."})],
        );
        assert!(ran.code == 0 && ran.out.contains("Done.") && ran.err.contains(noted), "{ran:?}");
        assert_eq!(test_ws.log().len(), if calls == 3 { 1 } else { 40 });
    }

    // Without a limit of calls, haft prints no note.
    let test_ws = TestWorkspace::new();
    std::fs::create_dir_all(test_ws.config()).unwrap();
    std::fs::write(test_ws.config().join("haft.toml"), "[agent]\nmax_calls = 0\n").unwrap();
    let ran = ran(&test_ws, &[json!({"say": answer(45)}), json!({"expect": ["ran-45"], "say": "Done."})]);
    assert!(ran.code == 0 && !ran.err.contains("max_calls"), "{ran:?}");
    assert_eq!(test_ws.log().len(), 45);
}

/// `haft run` with a model that answers with these lines in the json dialect.
fn ran(test_ws: &TestWorkspace, lines: &[Value]) -> crate::support::Ran {
    let script: String = lines.iter().map(|it| format!("{it}\n")).collect();
    let path = test_ws.base().join("script.jsonl");
    std::fs::write(&path, script).unwrap();
    let model = format!("script:{}", path.display());
    let options =
        ["--toolset", "hyperagents", "--approve", "auto", "run", "--model", &model, "--dialect", "json"];
    test_ws.run(&[&options[..], &["use your tools"]].concat())
}

#[test]
fn all_tools_are_named_by_one_word() {
    let test_ws = TestWorkspace::new();
    std::fs::create_dir_all(test_ws.config()).unwrap();
    let config = test_ws.config().join("haft.toml");
    std::fs::write(&config, "toolset = \"hyperagents\"\ntools = \"all\"\n").unwrap();
    let ran = test_ws.run(&["tools", "--json"]);
    let tools: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(tools.iter().map(|it| it["name"].as_str().unwrap()).collect::<Vec<_>>(), ["bash", "editor"]);
    assert_eq!(ran.err, "");
    let ran = test_ws.run(&["config", "tools"]);
    assert!(ran.code == 0 && ran.out.contains("all") && !ran.out.contains("overrid"), "{ran:?}");

    std::fs::write(&config, "tools = \"bash\"\n").unwrap();
    let ran = test_ws.run(&["tools"]);
    assert!(ran.err.contains("expected a list of names of tools, or \"all\""), "{ran:?}");
}

/// A tool: its arguments with their types, and which are required.
type Tool = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);

/// HyperAgents' tools as its `tool_info()` has them.
const UPSTREAM: [Tool; 2] = [
    ("bash", &[("command", "string")], &["command"]),
    (
        "editor",
        &[
            ("command", "string"),
            ("file_text", "string"),
            ("insert_line", "integer"),
            ("new_str", "string"),
            ("old_str", "string"),
            ("path", "string"),
            ("view_range", "array of integer"),
        ],
        &["command", "path"],
    ),
];

/// The commands of `editor`.
const COMMANDS: [&str; 5] = ["view", "create", "str_replace", "insert", "undo_edit"];

#[test]
fn names_types_and_required_arguments_are_hyperagents_own() {
    let ran = TestWorkspace::new().run(&["--toolset", "hyperagents", "tools", "--json"]);
    let tools: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    let names: Vec<&str> = tools.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, UPSTREAM.map(|it| it.0));
    for (tool, (name, arguments, required)) in tools.iter().zip(UPSTREAM) {
        let schema = &tool["inputSchema"];
        assert_eq!(schema["type"], "object", "{name}");
        let fields = schema["properties"].as_object().unwrap();
        let mut ours: Vec<(&str, String)> =
            fields.iter().map(|(field, it)| (field.as_str(), type_of(it))).collect();
        ours.sort_unstable();
        let theirs: Vec<(&str, String)> =
            arguments.iter().map(|(field, it)| (*field, (*it).to_owned())).collect();
        assert_eq!(ours, theirs, "{name}");
        assert_eq!(schema["required"], json!(required), "{name}");
    }
    assert_eq!(tools[1]["inputSchema"]["properties"]["command"]["enum"], json!(COMMANDS));
}

/// Returns the type of an argument in words.
fn type_of(schema: &Value) -> String {
    match (schema["type"].as_str(), &schema["items"]) {
        (Some("array"), items) => format!("array of {}", type_of(items)),
        (Some(it), _) => it.to_owned(),
        (None, _) if schema["enum"].is_array() => "string".to_owned(),
        (None, _) => panic!("{schema}"),
    }
}

#[test]
fn the_editor_refuses_what_hyperagents_own_refuses_in_its_words() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\ntwo\ntwo\n");
    test_ws.put("folder/below/deep/file", "x\n");
    test_ws.put("folder/.hidden", "x\n");
    let path = test_ws.at("file").display().to_string();
    let folder = test_ws.at("folder").display().to_string();
    let absent = test_ws.at("nonexistent/path").display().to_string();
    all_answer(
        &test_ws,
        "hyperagents",
        &[
            (
                "editor",
                json!({"command": "create", "path": path, "file_text": "x"}),
                "bad_args",
                "already exists",
            ),
            (
                "editor",
                json!({"command": "str_replace", "path": path, "old_str": "three", "new_str": "x"}),
                "not_found",
                "did not appear verbatim in",
            ),
            (
                "editor",
                json!({"command": "str_replace", "path": path, "old_str": "two", "new_str": "x"}),
                "ambiguous",
                "Multiple occurrences of old_str `two` in lines 2, 3",
            ),
            ("editor", json!({"command": "str_replace", "path": path}), "bad_args", "`old_str` is required"),
            (
                "editor",
                json!({"command": "insert", "path": path, "new_str": "x"}),
                "bad_args",
                "`insert_line`",
            ),
            (
                "editor",
                json!({"command": "insert", "path": path, "insert_line": 9, "new_str": "x"}),
                "bad_args",
                "Invalid `insert_line` parameter: 9.",
            ),
            (
                "editor",
                json!({"command": "undo_edit", "path": path}),
                "not_found",
                "No edit history found for",
            ),
            ("editor", json!({"command": "nothing", "path": path}), "bad_args", "nothing"),
            ("editor", json!({"command": "view", "path": absent}), "not_found", "does not exist"),
            (
                "editor",
                json!({"command": "view", "path": path, "view_range": [2, 3]}),
                "ok",
                ":\n     2\ttwo\n     3\ttwo",
            ),
            (
                "editor",
                json!({"command": "view", "path": path, "view_range": [3, -1]}),
                "ok",
                ":\n     3\ttwo",
            ),
            (
                "editor",
                json!({"command": "view", "path": path, "view_range": [0, 1]}),
                "bad_args",
                "first element",
            ),
            (
                "editor",
                json!({"command": "view", "path": path, "view_range": [2, 9]}),
                "bad_args",
                "second element",
            ),
            (
                "editor",
                json!({"command": "view", "path": path, "view_range": [2]}),
                "bad_args",
                "two integers",
            ),
            (
                "editor",
                json!({"command": "view", "path": folder, "view_range": [1, 2]}),
                "bad_args",
                "`view_range` parameter is not allowed",
            ),
            ("editor", json!({"command": "view", "path": folder}), "ok", "up to 2 levels deep in"),
        ],
    );
    let view = json!({"command": "view", "path": folder});
    let text = test_ws.batch(&["--toolset", "hyperagents"], &[("editor", view)]).first().unwrap().text();
    assert!(
        text.contains("below/deep") && !text.contains("deep/file") && !text.contains(".hidden"),
        "{text}"
    );
    assert_eq!(test_ws.text("file"), "one\ntwo\ntwo\n");
}
