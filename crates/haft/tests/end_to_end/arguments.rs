//! Arguments that are not quite right: repaired, or refused with the reason.

use serde_json::{Value, json};

use crate::support::{TestWorkspace, run};

#[test]
fn broken_json_never_runs_a_tool() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "as it was\n");
    for (tool, arguments) in [
        ("write", r#"{"path": "new", "content": "x""#),
        ("edit", r#"{"path": "file", "edits": [{"old": "was", "new": "is"}"#),
        ("undo", "{"),
        ("undo", "nonsense"),
        ("read", r#"{"path": 'file'}"#),
        ("read", r#"["file"]"#),
        ("read", "5"),
    ] {
        let ran = test_ws.run(&["call", tool, arguments]);
        assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{ran:?}");
        assert!(ran.out.contains("JSON") && ran.out.contains("For example"), "{ran:?}");
    }
    assert_eq!(test_ws.text("file"), "as it was\n");
    assert!(!test_ws.at("new").exists());
    assert!(test_ws.log().iter().all(|call| call["outcome"] == "bad_args" && call["changes"] == json!([])));
}

#[test]
fn what_is_almost_right_is_repaired_and_told() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\ntwo\nthree\n");
    for (arguments, note) in [
        (json!({"path": "file", "limit": "2"}), "`limit` came in quotes"),
        (json!({"file_path": "file"}), "`file_path` was read as `path`"),
        (json!(json!({"path": "file"}).to_string()), "came as a string"),
    ] {
        let called = test_ws.call("read", &arguments).must("ok");
        assert!(called.text().contains("|one") && called.notes().contains(note), "{}", called.notes());
        let ran = test_ws.run(&["call", "read", &arguments.to_string()]);
        assert!(ran.out.contains(&format!("note: {note}")) || ran.out.contains(note), "{ran:?}");
    }
    let edits = json!([{"old": "two", "new": "TWO"}]).to_string();
    test_ws.call("edit", &json!({"path": "file", "edits": edits})).must("ok");
    assert_eq!(test_ws.text("file"), "one\nTWO\nthree\n");
    // A text is a text, whatever it looks like.
    test_ws.call("write", &json!({"path": "list", "content": "[\"a\"]"})).must("ok");
    test_ws.call("write", &json!({"path": "number", "content": "200"})).must("ok");
    assert_eq!((test_ws.text("list").as_str(), test_ws.text("number").as_str()), ("[\"a\"]", "200"));
}

#[test]
fn a_field_that_does_not_exist_is_named_with_those_that_do() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    for (tool, arguments, expected) in [
        ("read", json!({"path": "file", "colour": 1}), vec!["`colour`", "`path`", "`offset`", "`limit`"]),
        (
            "edit",
            json!({"path": "file", "edits": [{"old": "one", "new": "two", "colour": 1}]}),
            vec!["`colour`", "edits", "`old`", "`anchor`"],
        ),
        ("read", json!({}), vec!["`path`"]),
        ("read", json!({"path": {"a": 1}}), vec!["path"]),
        ("read", json!({"path": "file", "limit": "many"}), vec!["limit", "many"]),
        ("editor", json!({"command": "destroy", "path": "file"}), vec!["destroy", "`view`", "`undo_edit`"]),
    ] {
        let text = test_ws.call(tool, &arguments).must("bad_args").text();
        for it in expected {
            assert!(text.contains(it), "{it} is not in: {text}");
        }
    }
    assert_eq!(test_ws.text("file"), "one\n");
}

#[test]
fn the_second_time_the_same_mistake_is_answered_with_the_schema() {
    let test_ws = TestWorkspace::new();
    let wrong = json!({"paths": ["a"]});
    let called = test_ws.batch(
        &[],
        &[
            ("read", wrong.clone()),
            ("read", wrong.clone()),
            ("read", json!({"path": {"a": 1}})),
            ("read", wrong),
        ],
    );
    let with_schema: Vec<bool> = called.iter().map(|it| it.text().contains("\"properties\"")).collect();
    assert_eq!(with_schema, [false, true, false, false], "only where it is the same again");
}

#[test]
fn exit_codes_tell_success_fault_and_misuse() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    for (arguments, code) in [
        (&["call", "read", r#"{"path": "file"}"#][..], 0),
        (&["call", "read", r#"{"path": "nothing"}"#], 1),
        (&["call", "read", r#"{"path": "../outside"}"#], 1),
        (&["call", "no_such_tool"], 1),
        (&["call"], 2),
        (&["no-such-verb"], 2),
        (&["call", "--no-such-option", "read"], 2),
        (&["--toolset", "none", "tools"], 2),
        (&["--sandbox", "none", "tools"], 2),
        (&["tools"], 0),
        (&["log"], 0),
        (&["manual", "edit"], 0),
        (&["--version"], 0),
    ] {
        let ran = test_ws.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {ran:?}");
        assert_eq!(ran.err.is_empty(), code != 2, "only misuse is told on standard error: {ran:?}");
    }
    let nowhere = run(test_ws.haft(&["tools"]).arg("--dir").arg("/no/such/folder"), "");
    assert!(nowhere.code == 1 && nowhere.err.contains("/no/such/folder"), "{nowhere:?}");
}

#[test]
fn arguments_can_come_from_standard_input() {
    let test_ws = TestWorkspace::new();
    let ran =
        run(&mut test_ws.haft(&["call", "write", "-"]), r#"{"path": "new", "content": "from a pipe\n"}"#);
    assert_eq!((ran.code, test_ws.text("new").as_str()), (0, "from a pipe\n"), "{ran:?}");
    let ran = run(&mut test_ws.haft(&["call", "write", "-"]), r#"{"path": "newer", "#);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(!test_ws.at("newer").exists());
}

#[test]
fn a_batch_goes_on_after_a_broken_line() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    let lines = [
        r#"{"tool": "edit", "arguments": {"path": "file", "edits": [{"old": "one", "new": "two"}]}}"#,
        r#"{"tool": "edit", "arguments": {"path": "file""#,
        "",
        r#"{"tool": "edit", "argument": {}}"#,
        "not a call",
        r#"{"tool": "edit", "arguments": {"path": "file", "edits": [{"old": "two", "new": "three"}]}}"#,
    ];
    let input = lines.join("\n");
    let ran = run(&mut test_ws.haft(&["call", "--batch", "-"]), &input);
    assert_eq!(ran.code, 1, "one of them failed: {ran:?}");
    let heads: Vec<&str> = ran.out.lines().filter(|line| line.starts_with("## ")).collect();
    assert_eq!(
        heads,
        ["## 1 edit: ok", "## 2 : bad_args", "## 4 : bad_args", "## 5 : bad_args", "## 6 edit: ok"]
    );
    assert!(ran.out.contains("line 5 is not a call") && ran.out.contains("it was not run"), "{ran:?}");
    assert_eq!(test_ws.text("file"), "three\n");
    let ran = run(&mut test_ws.haft(&["call", "--json", "--batch", "-"]), &input);
    let answers: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 5, "{ran:?}");
    // A line whose arguments are a text with broken JSON runs nothing either.
    let input = r#"{"tool": "edit", "arguments": "{\"path\": \"file\""}"#;
    assert_eq!(run(&mut test_ws.haft(&["call", "--batch", "-"]), input).code, 1);
    assert_eq!(test_ws.text("file"), "three\n");
}

#[test]
fn a_whole_result_in_json_has_what_a_script_needs() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    let ran = test_ws.run(&["call", "--json", "read", r#"{"path": "file"}"#]);
    let whole: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&whole["ok"], &whole["tool"]), (&json!(true), &json!("read")));
    assert!(whole["content"][0]["text"].as_str().unwrap().ends_with("|one"), "{whole}");
    assert!(whole["id"].as_str().unwrap().starts_with("c_") && whole["ms"].is_number());
    let ran = test_ws.run(&["call", "--json", "read", r#"{"path": "fil"}"#]);
    let whole: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&whole["ok"], &whole["fault"]["kind"]), (&json!(false), &json!("not_found")));
    assert!(whole["fault"]["next"].as_str().unwrap().contains("`file`"), "{whole}");
}
