//! Spans: the stable names and fields that `HAFT_LOG` shows.

use std::collections::BTreeMap;

use serde_json::json;

use crate::support::{Server, TestWorkspace, run};

/// Of each line that tells of a span's end: the path of spans, and the fields of the last.
fn ends(log: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let mut found = Vec::new();
    for line in log.lines().filter(|it| it.contains(": spans: close ")) {
        let (_, rest) = line.split_once(" INFO ").unwrap();
        let (spans, _) = rest.split_once(": spans: close").unwrap();
        let mut path = Vec::new();
        let mut fields = BTreeMap::new();
        for span in spans.trim().split_inclusive('}').map(|it| it.trim_start_matches(':')) {
            let (name, values) = span.trim_end_matches('}').split_once('{').unwrap();
            path.push(name);
            let value =
                |it: &str| it.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
            fields = values.split(' ').filter_map(value).collect();
        }
        found.push((path.join("/"), fields));
    }
    found
}

/// Returns the end of a span of this path, with this value in one of its fields.
fn end<'a>(
    ends: &'a [(String, BTreeMap<String, String>)],
    path: &str,
    (field, value): (&str, &str),
) -> &'a BTreeMap<String, String> {
    let mut found = ends.iter().filter(|it| it.0 == path && it.1.get(field).is_some_and(|it| it == value));
    &found.next().unwrap_or_else(|| panic!("no {path} with {field}={value} in {ends:#?}")).1
}

fn names(fields: &BTreeMap<String, String>) -> Vec<&str> {
    fields.keys().map(String::as_str).collect()
}

#[test]
fn a_run_tells_of_its_turns_steps_requests_calls_and_jobs() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "hello\n");
    let calls = json!([
        {"tool": "read", "arguments": {"path": "a.txt"}},
        {"tool": "read", "arguments": {"path": "not-there-xyzzy"}},
        {"tool": "shell", "arguments": {"command": "echo xyzzy", "run_in_background": true}},
    ]);
    let script =
        [json!({"say": "I look.", "calls": calls}), json!({"say": "Done."}), json!({"say": "Done."})];
    let lines: Vec<String> = script.iter().map(ToString::to_string).collect();
    std::fs::write(test_ws.base().join("script.jsonl"), lines.join("\n")).unwrap();
    let model = format!("script:{}", test_ws.base().join("script.jsonl").display());
    let mut command = test_ws.haft(&["run", "--model", &model, "go"]);
    let ran = run(command.env("HAFT_LOG", "spans=info"), "");
    assert_eq!(ran.code, 0, "{ran:?}");
    let ends = ends(&ran.err);

    let turn = end(&ends, "turn", ("ended", "\"done\""));
    assert_eq!(names(turn), ["ended", "input_tokens", "ms", "output_tokens", "session", "steps"]);
    assert_eq!(names(end(&ends, "turn/step", ("number", "1"))), ["ms", "number"]);
    let request = end(&ends, "turn/step/request", ("ended", "\"calls\""));
    assert_eq!(names(request), ["ended", "input_tokens", "model", "ms", "output_tokens"]);
    let read = end(&ends, "turn/step/call", ("outcome", "\"ok\""));
    let of_call =
        ["approval_ms", "bytes", "call", "decision", "kind", "lock_ms", "ms", "outcome", "session", "tool"];
    assert_eq!(
        (names(read), read["tool"].as_str(), read["kind"].as_str()),
        (of_call.to_vec(), "\"read\"", "read")
    );
    assert_eq!(end(&ends, "turn/step/call", ("outcome", "\"not_found\""))["tool"], "\"read\"");
    let shell = end(&ends, "turn/step/call", ("tool", "\"shell\""));
    assert!(shell["sandbox_ms"].parse::<f64>().unwrap() > 0.0, "{shell:?}");
    let job = end(&ends, "turn/step/call/job", ("job", "\"job_1\""));
    assert_eq!((names(job), job["state"].as_str()), (vec!["job", "ms", "state"], "\"done\""));
    // Arguments and results are in the journal and not here.
    let spans: String = ran.err.lines().filter(|it| it.contains(": spans: ")).collect();
    assert!(!spans.contains("xyzzy") && !spans.contains("hello"), "{spans}");
}

#[test]
fn a_request_of_a_client_is_the_parent_of_the_call_that_it_makes() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "hello\n");
    let server = Server::spawn(test_ws.haft(&["mcp"]).env("HAFT_LOG", "spans=info")).greeted();
    server.does("read", &json!({"path": "a.txt"}));
    let (_, log) = server.finish();
    let ends = ends(&log);
    let request = end(&ends, "mcp_request", ("method", "\"tools/call\""));
    assert_eq!(names(request), ["id", "method", "ms", "outcome", "side", "target"]);
    assert_eq!((request["side"].as_str(), request["target"].as_str()), ("\"server\"", "\"read\""));
    assert_eq!(end(&ends, "mcp_request/call", ("tool", "\"read\""))["outcome"], "\"ok\"");
}

#[test]
fn a_process_of_a_tool_file_has_a_span_of_its_own() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let tool = "name = \"twice\"\ndescription = \"Twice.\"\nparameters = {\"type\": \"object\", \"properties\": {}}\n\nasync def execute(params):\n    return \"two\"\n";
    std::fs::create_dir_all(test_ws.config().join("tools")).unwrap();
    std::fs::write(test_ws.config().join("tools/twice.py"), tool).unwrap();
    let mut command = test_ws.haft(&["call", "twice", "{}"]);
    let ran = run(command.env("HAFT_LOG", "spans=info"), "");
    assert!(ran.code == 0 && ran.out.contains("two"), "{ran:?}");
    let ends = ends(&ran.err);
    assert_eq!(end(&ends, "call", ("tool", "\"twice\""))["outcome"], "\"ok\"");
    let process = end(&ends, "plugin_process", ("file", "\"twice.py\""));
    assert!(
        process["ms"].parse::<f64>().unwrap() > 0.0 && process.contains_key("interpreter"),
        "{process:?}"
    );
}

#[test]
fn without_being_asked_for_no_span_is_told_of() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "hello\n");
    let ran = test_ws.run(&["call", "read", r#"{"path": "a.txt"}"#]);
    assert!(ran.code == 0 && !ran.err.contains("spans"), "{ran:?}");
}
