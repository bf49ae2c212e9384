//! The tools of HyperAgents, nav, navi and KohakuTerrarium under their own names.

mod hyperagents;
mod nav;
mod nav_edits;
mod navi;
mod notebooks;
mod references;
mod terrarium;
mod terrarium_schemas;
mod upstream;

use crate::support::TestWorkspace;
use serde_json::{Value, json};

/// One call and its outcome: a kind of fault or `ok`, and a part of the text.
type Row = (&'static str, Value, &'static str, &'static str);

/// Returns the tools of a toolset: names, with the required arguments of each.
fn shown(test_ws: &TestWorkspace, toolset: &str) -> Vec<(String, Vec<String>)> {
    let ran = test_ws.run(&["--toolset", toolset, "tools", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let tools: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    tools
        .iter()
        .map(|it| {
            let schema = &it["inputSchema"];
            let names = schema["required"].as_array().into_iter().flatten();
            let names = names.map(|it| it.as_str().unwrap().to_owned()).collect();
            assert_eq!(schema["type"], "object", "{it}");
            assert!(it["description"].as_str().is_some_and(|it| it.len() > 10), "{it}");
            (it["name"].as_str().unwrap().to_owned(), names)
        })
        .collect()
}

/// Each of these tools is there and needs these arguments.
#[track_caller]
fn all_are_there(toolset: &str, expected: &[(&str, &[&str])]) {
    let shown = shown(&TestWorkspace::new(), toolset);
    for (name, required) in expected {
        let Some((_, needs)) = shown.iter().find(|(it, _)| it == name) else {
            panic!("{toolset} has no `{name}`: {shown:?}")
        };
        assert_eq!(needs, required, "{toolset} {name}");
    }
}

/// Makes the calls in one session of a toolset, and looks at each answer.
#[track_caller]
fn all_answer(test_ws: &TestWorkspace, toolset: &str, rows: &[Row]) {
    let calls: Vec<(&str, Value)> =
        rows.iter().map(|(tool, arguments, ..)| (*tool, arguments.clone())).collect();
    let called = test_ws.batch(&["--toolset", toolset, "--sandbox", "full", "--approve", "auto"], &calls);
    for ((tool, arguments, kind, says), called) in rows.iter().zip(called) {
        let text = called.text();
        assert_eq!(called.kind(), *kind, "{tool} {arguments}: {text}");
        assert!(text.contains(says), "{tool} {arguments}: `{says}` is not in\n{text}");
    }
}

/// Runs a model that makes these calls in order; each answer must contain the expected text.
fn conversation(
    test_ws: &TestWorkspace,
    toolset: &str,
    steps: &[(&str, Value, &str)],
) -> crate::support::Ran {
    let mut lines = String::new();
    let mut expected: Option<&str> = None;
    for (tool, arguments, says) in steps {
        let mut line = json!({"say": format!("{tool}."), "calls": [{"tool": tool, "arguments": arguments}]});
        if let Some(expected) = expected {
            line["expect"] = json!([expected]);
        }
        lines.push_str(&format!("{line}\n"));
        expected = Some(says);
    }
    lines.push_str(&format!("{}\n", json!({"expect": [expected.unwrap_or_default()], "say": "All done."})));
    let path = test_ws.base().join("script.jsonl");
    std::fs::write(&path, lines).unwrap();
    let model = format!("script:{}", path.display());
    test_ws.run(&["--toolset", toolset, "--approve", "auto", "run", "--model", &model, "use your tools"])
}
