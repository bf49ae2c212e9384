//! Output of a run for programs: events at a bounded rate, denied calls, an answer that fits a schema.

use serde_json::{Value, json};

use super::{events, names, script};
use crate::support::TestWorkspace;

fn schema(test_ws: &TestWorkspace, schema: &Value) -> String {
    let path = test_ws.base().join("schema.json");
    std::fs::write(&path, schema.to_string()).unwrap();
    path.display().to_string()
}

fn count() -> Value {
    json!({"type": "object", "properties": {"count": {"type": "integer", "minimum": 1}}, "required": ["count"],
        "additionalProperties": false})
}

fn lines(all: &[Value]) -> String {
    all.iter().map(|it| format!("{it}\n")).collect()
}

#[test]
fn an_answer_that_fits_the_schema_is_all_that_standard_output_has() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "one\ntwo\n");
    let file = schema(&test_ws, &count());
    let model = script(
        &test_ws,
        &lines(&[
            json!({"expect": ["how many lines", "fits this JSON Schema", "\"minimum\":1"], "say": "I count.",
            "calls": [{"tool": "read", "arguments": {"path": "a.txt"}}]}),
            json!({"say": "There are 2 lines."}),
            json!({"expect": ["does not fit: the answer is not JSON"], "say": "{\"count\": 0}"}),
            json!({"expect": ["does not fit: `count` is the number 0 and must be at least 1"], "say": "```json\n{\"count\": 2}\n```"}),
        ]),
    );
    let ran = test_ws.run(&["run", "--model", &model, "--output-schema", &file, "how many lines"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "{\"count\":2}\n"), "{ran:?}");
    assert!(ran.err.contains("< read a.txt") && ran.err.contains("haft: done: 4 steps, "), "{ran:?}");
    let model = script(&test_ws, &lines(&[json!({"say": "{\"count\": 3}"})]));
    let ran = test_ws.run(&["run", "--json", "--model", &model, "--output-schema", &file, "how many lines"]);
    let events = events(&ran.out);
    let last = &events[events.len() - 1];
    assert_eq!(
        (ran.code, &last["ended"], &last["output"]),
        (0, &json!("done"), &json!({"count": 3})),
        "{ran:?}"
    );
}

#[test]
fn an_answer_that_never_fits_is_exit_code_1_and_prints_nothing() {
    let test_ws = TestWorkspace::new();
    let file = schema(&test_ws, &count());
    let never: Vec<Value> = (0..9).map(|_| json!({"say": "I can't."})).collect();
    let model = script(&test_ws, &lines(&never));
    let ran = test_ws.run(&["run", "--model", &model, "--output-schema", &file, "how many"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{ran:?}");
    assert!(
        ran.err.contains("no answer fits the output schema, after 3 tries: the answer is not JSON"),
        "{ran:?}"
    );
    assert!(ran.err.contains("haft: to continue: "), "{ran:?}");
    let ran = test_ws.run(&["run", "--json", "--model", &model, "--output-schema", &file, "how many"]);
    let events = events(&ran.out);
    let last = &events[events.len() - 1];
    assert_eq!((ran.code, &last["ended"], last.get("output")), (1, &json!("error"), None), "{ran:?}");
    assert!(
        last["error"]["what"].as_str().unwrap().contains("after 3 tries") && last["text"] == "I can't.",
        "{last}"
    );
    assert_eq!(names(&events).iter().filter(|it| **it == "ended").count(), 1, "{ran:?}");
}

#[test]
fn a_schema_that_is_none_is_refused_before_the_model_is_asked() {
    let test_ws = TestWorkspace::new();
    let model = script(&test_ws, &lines(&[json!({"say": "x"})]));
    let file = schema(&test_ws, &json!({"type": "strnig"}));
    for (path, says) in
        [(file.as_str(), "`schema.type` is \"strnig\"; it must be one of"), ("/nowhere", "can't be read")]
    {
        let ran = test_ws.run(&["run", "--model", &model, "--output-schema", path, "x"]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains(says) && ran.out.is_empty(), "{ran:?}");
    }
}

#[test]
fn denied_calls_are_listed_at_the_end() {
    let test_ws = TestWorkspace::new();
    let write = json!({"path": ".vscode/settings.json", "content": "x"});
    let model = script(
        &test_ws,
        &lines(&[
            json!({"calls": [{"tool": "write", "arguments": write}, {"tool": "read", "arguments": {"path": "nope"}}]}),
            json!({"say": "I could not."}),
        ]),
    );
    let ran = test_ws.run(&["run", "--json", "--model", &model, "write it"]);
    let events = events(&ran.out);
    let last = &events[events.len() - 1];
    assert_eq!((ran.code, last["denied"].as_array().unwrap().len()), (0, 1), "{ran:?}");
    let denied = &last["denied"][0];
    assert_eq!((&denied["tool"], &denied["arguments"]), (&json!("write"), &write), "{denied}");
    assert!(denied["why"].as_str().unwrap().contains("only after approval"), "{denied}");
    let faults: Vec<&Value> =
        events.iter().filter(|it| it["event"] == "answered").map(|it| &it["fault"]).collect();
    assert!(faults.contains(&&json!("denied")) && faults.contains(&&json!("not_found")), "{faults:?}");
    let ran = test_ws.run(&["run", "--model", &model, "write it"]);
    assert!(ran.err.contains("haft: 1 call was denied: write\n"), "{ran:?}");
}

#[test]
fn a_long_call_that_is_written_is_told_of_a_few_times() {
    let test_ws = TestWorkspace::new();
    let write = json!({"path": "long.txt", "content": "0123456789\n".repeat(4_000)});
    let model = script(
        &test_ws,
        &lines(&[
            json!({"calls": [{"tool": "write", "arguments": write}], "chunks": 2_000}),
            json!({"say": "written"}),
        ]),
    );
    let ran = test_ws.run(&["run", "--json", "--model", &model, "write it"]);
    let events = events(&ran.out);
    let sizes: Vec<u64> =
        events.iter().filter(|it| it["event"] == "writing").map(|it| it["bytes"].as_u64().unwrap()).collect();
    assert!(sizes.len() < 60 && sizes.is_sorted() && sizes.first() == Some(&0), "{sizes:?}");
    assert_eq!(test_ws.text("long.txt").len(), 44_000);
}
