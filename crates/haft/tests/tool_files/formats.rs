//! Tool formats of other agents: they load side by side and run unchanged.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::support::{Called, TestWorkspace};

const FORMATS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tool_files/formats");

/// Creates a workspace with all of them, which the person trusts.
fn test_ws() -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    for file in fs::read_dir(FORMATS).unwrap() {
        let file = file.unwrap();
        test_ws.put(&format!(".haft/tools/{}", file.file_name().display()), fs::read(file.path()).unwrap());
    }
    let trusted = test_ws.run(&["trust"]);
    assert_eq!(trusted.code, 0, "{trusted:?}");
    test_ws
}

/// Runs one call, in a batch of its own.
fn call(test_ws: &TestWorkspace, tool: &str, arguments: &Value) -> Called {
    test_ws.call(tool, arguments)
}

/// Returns the tools that are shown: their names with their schemas.
fn shown(test_ws: &TestWorkspace) -> Vec<(String, Value)> {
    let ran = test_ws.run(&["tools", "--json", "--strict"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    let all: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    all.into_iter().map(|it| (it["name"].as_str().unwrap().to_owned(), it["inputSchema"].clone())).collect()
}

#[test]
fn one_folder_holds_every_format_and_each_is_shown_as_it_is_declared() {
    kit::needs!(Python);
    let test_ws = test_ws();
    let shown = shown(&test_ws);
    let schema = |name: &str| &shown.iter().find(|it| it.0 == name).unwrap_or_else(|| panic!("no {name}")).1;
    assert_eq!(
        *schema("navi_module"),
        json!({
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["save", "get", "list"]},
                "key": {"type": "string", "description": "Note identifier"},
                "value": {"type": "string", "description": "Note content (for save)"},
            },
            "required": ["action"],
        })
    );
    let color = json!({"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]});
    assert_eq!((schema("swatch"), schema("session_name")), (&color, &color));
    assert_eq!(*schema("navi_internal"), json!({"type": "object", "properties": {}}));
    assert_eq!(
        *schema("hyper_bash"),
        json!({
            "type": "object",
            "properties": {"command": {"type": "string", "description": "The command."}},
            "required": ["command"],
        })
    );
    let text = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    assert_eq!(*schema("dgm_twice"), text);
    assert_eq!(
        *schema("kt_class"),
        json!({
            "type": "object",
            "properties": {"path": {"type": "string"}, "picture": {"type": "boolean"}},
            "required": ["path"],
        })
    );
    for undeclared in ["kt_plain", "kt_builtin"] {
        assert_eq!(schema(undeclared)["properties"]["content"]["type"], "string", "{undeclared}");
    }
    let sum = schema("add_numbers");
    assert_eq!(sum["properties"]["a"]["type"], "integer");
    assert_eq!(sum["required"], json!(["a"]));
    assert_eq!(schema("shout")["required"], json!(["text"]));
    assert!(schema("shout")["properties"].get("context").is_none(), "what haft fills in is not an argument");
}

#[test]
fn navis_modules_and_classes_run() {
    kit::needs!(Python);
    let test_ws = test_ws();
    call(&test_ws, "navi_module", &json!({"action": "save", "key": "a", "value": "é"})).must("ok");
    assert_eq!(call(&test_ws, "navi_module", &json!({"action": "get", "key": "a"})).must("ok").text(), "é");
    assert!(test_ws.at(".haft/tools/navi_module_data.json").exists(), "its data lies beside it");
    let missing = call(&test_ws, "navi_module", &json!({"action": "get", "key": "b"})).must("failed").text();
    assert!(missing.contains("Note 'b' not found"), "{missing}");
    let swatch = test_ws.run(&["call", "--json", "swatch", r#"{"color": "ff0000"}"#]);
    assert!(swatch.out.contains("image/png") && swatch.out.contains("#ff0000"), "{swatch:?}");
    let bad = call(&test_ws, "swatch", &json!({"color": "red"})).must("failed").text();
    assert!(bad.contains("a color is six hex digits") && bad.contains("got 'red'"), "{bad}");
    assert_eq!(call(&test_ws, "session_name", &json!({"color": ""})).must("ok").text(), "cli");
    assert_eq!(call(&test_ws, "navi_internal", &json!({})).must("ok").text(), "cli tools None");
    assert_eq!(call(&test_ws, "both", &json!({})).must("ok").text(), "navi");
}

#[test]
fn hyperagents_and_dgms_functions_run_and_import_each_other() {
    kit::needs!(Python);
    let test_ws = test_ws();
    assert_eq!(
        call(&test_ws, "hyper_bash", &json!({"command": "echo a; echo b"})).must("ok").text().trim(),
        "a\nb"
    );
    let failed = call(&test_ws, "hyper_bash", &json!({"command": ""})).must("failed").text();
    assert!(failed.contains("no command"), "{failed}");
    assert_eq!(call(&test_ws, "hyper_lines", &json!({"command": "echo a; echo b"})).must("ok").text(), "2");
    assert_eq!(call(&test_ws, "dgm_twice", &json!({"text": "a"})).must("ok").text(), "a a");
}

#[test]
fn terrariums_classes_and_functions_run() {
    kit::needs!(Python);
    let test_ws = test_ws();
    test_ws.put("words.txt", "one two");
    test_ws.put("empty.txt", "");
    assert_eq!(call(&test_ws, "kt_class", &json!({"path": "words.txt"})).must("ok").text(), "2");
    let picture = test_ws.run(&["call", "--json", "kt_class", r#"{"path": "words.txt", "picture": true}"#]);
    assert!(picture.out.contains("image/gif") && picture.out.contains("\"2\""), "{picture:?}");
    let missing = call(&test_ws, "kt_class", &json!({"path": "no.txt"})).must("failed").text();
    assert!(missing.contains("File not found: no.txt"), "{missing}");
    let empty = test_ws.run(&["call", "--json", "kt_class", r#"{"path": "empty.txt"}"#]);
    assert!(empty.out.contains(r#""exit":1"#), "{empty:?}");
    assert_eq!(call(&test_ws, "kt_plain", &json!({"content": "as it is"})).must("ok").text(), "as it is");
    let raised = call(&test_ws, "kt_plain", &json!({"content": "raise"})).must("failed").text();
    assert!(raised.contains("as asked"), "{raised}");
    assert_eq!(call(&test_ws, "kt_builtin", &json!({"content": "a"})).must("ok").text(), "echo: a");
    assert_eq!(call(&test_ws, "add_numbers", &json!({"a": 1})).must("ok").text(), "3");
    let none = call(&test_ws, "add_numbers", &json!({})).must("bad_args").text();
    assert!(none.contains("`a`"), "{none}");
    let loud = call(&test_ws, "shout", &json!({"text": "hi", "how": "louder", "times": 2})).must("ok").text();
    assert_eq!(loud, "HI! HI!");
    call(&test_ws, "shout", &json!({"text": "hi", "how": "softly"})).must("bad_args");
}

#[test]
fn calls_of_one_that_touches_nothing_run_at_the_same_time() {
    kit::needs!(Python);
    let test_ws = test_ws();
    let server = test_ws.serve();
    let calls: Vec<_> = (0..4).map(|_| server.start_call("navi_waits", &json!({"expected": 4}))).collect();
    let mut places: Vec<String> = calls.into_iter().map(|it| it.result().unwrap().text).collect();
    places.sort();
    assert_eq!(places, ["place 1", "place 2", "place 3", "place 4"]);
}

#[test]
fn which_of_two_formats_was_taken_is_said() {
    kit::needs!(Python);
    let test_ws = test_ws();
    let ran = test_ws.run(&["reload-tools"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let told = format!("{}{}", ran.out, ran.err);
    let line = told.lines().find(|it| it.contains("both.py")).unwrap_or_else(|| panic!("{told}"));
    assert!(line.contains("navi's module") && line.contains("HyperAgents"), "{line}");
    assert!(Path::new(FORMATS).join("_repeat.py").exists() && !told.contains("_repeat"), "{told}");
}

#[test]
fn a_tool_that_says_background_answers_at_once_and_one_that_says_nothing_does_not() {
    kit::needs!(Python);
    let calls = [
        ("kt_usual", json!({})),
        ("kt_later", json!({})),
        ("wait", json!({"job": "job_1"})),
        ("read_job", json!({"job": "job_1"})),
    ];
    let said: Vec<String> = test_ws().batch(&[], &calls).into_iter().map(|it| it.must("ok").text()).collect();
    assert_eq!(said[0], "USUAL");
    assert!(said[1].starts_with("job_1 runs in the background: kt_later"), "{}", said[1]);
    assert!(said[3].contains("LATER"), "{}", said[3]);
}

#[test]
fn a_generator_yields_results_and_goes_on_with_input() {
    kit::needs!(Python);
    let calls = [
        ("kt_counts", json!({"content": "1"})),
        ("continue_job", json!({"job": "job_1", "input": 4})),
        ("continue_job", json!({"job": "job_1", "input": 5})),
        ("continue_job", json!({"job": "job_1", "input": null})),
        ("continue_job", json!({"job": "job_1", "input": 1})),
        ("kt_fails", json!({})),
        ("continue_job", json!({"job": "job_2", "input": "way"})),
        ("kt_counts", json!({"content": "2"})),
        ("stop_task", json!({"job": "job_3"})),
        ("kt_usual", json!({})),
    ];
    let said = test_ws().batch(&[], &calls);
    let text = |at: usize| said[at].text();
    assert!(text(0).starts_with("total 1\n") && text(0).contains("job_1 waits for input"), "{}", text(0));
    assert!(text(1).contains("total 5") && text(2).contains("enough: 10"), "{} {}", text(1), text(2));
    assert!(text(3).contains("job_1 is over: done"), "{}", text(3));
    assert_eq!(said[4].kind(), "stale");
    assert!(text(5).starts_with("first\n"), "{}", text(5));
    assert!(!said[6].ok() && text(6).contains("no way"), "{}", text(6));
    assert!(text(8).contains("cancelled"), "{}", text(8));
    assert_eq!(text(9), "USUAL", "its process goes on");
}
