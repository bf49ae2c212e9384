//! Diffs in the events of `haft run` and in its lines.

use serde_json::{Value, json};

use super::{calls, edit, script};
use crate::support::TestWorkspace;

/// Returns the answered calls in the output of `haft run --json`.
fn answered(test_ws: &TestWorkspace, options: &[&str], lines: &str) -> Vec<Value> {
    let model = script(test_ws, &(lines.to_owned() + "{\"say\": \"Done.\"}\n"));
    let ran = test_ws.run(&[options, &["run", "--json", "--model", &model, "do it"]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let events = ran.out.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
    let of_calls = |event: Value| match event["event"].as_str() {
        Some("answered") => Some(event),
        Some("under") if event["inner"]["event"] == "answered" => Some(event["inner"].clone()),
        _ => None,
    };
    events.filter_map(of_calls).collect()
}

#[test]
fn an_answered_event_has_the_diff_of_each_file_and_other_events_have_none() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "one\ntwo\nthree\n");
    let lines = calls("read", &json!({"path": "a.txt"}))
        + &calls("edit", &edit("a.txt", "two", "2"))
        + &calls("write", &json!({"path": "sub/new.txt", "content": "x\n"}))
        + &calls("edit", &edit("a.txt", "nowhere", "x"))
        + &calls("undo", &json!({}));
    let answered = answered(&test_ws, &[], &lines);
    assert_eq!(answered[0].get("changes"), None, "a read changes nothing");
    assert_eq!(
        answered[1]["changes"],
        json!([{
            "path": "a.txt", "kind": "changed", "added": 1, "removed": 1,
            "diff": "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n",
        }])
    );
    let made = &answered[2]["changes"][0];
    assert_eq!((&made["path"], &made["kind"]), (&json!("sub/new.txt"), &json!("created")));
    assert_eq!(answered[3]["ok"], false);
    assert_eq!(answered[3].get("changes"), None, "what did not land is not a change");
    let undone = &answered[4]["changes"][0];
    assert_eq!((&undone["path"], &undone["kind"]), (&json!("sub/new.txt"), &json!("deleted")));
}

#[test]
fn the_file_tools_of_every_toolset_tell_what_they_changed() {
    let cell = json!({"cells": [{"cell_type": "code", "id": "c1", "metadata": {}, "outputs": [],
        "execution_count": null, "source": ["print(1)"]}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5});
    let cases = [
        ("haft", "json_write", json!({"path": "a.json", "pointer": "/a", "value": 2})),
        (
            "haft",
            "editor",
            json!({"command": "str_replace", "path": "a.txt", "old_str": "one", "new_str": "1"}),
        ),
        (
            "haft",
            "notebook_edit",
            json!({"path": "n.ipynb", "edits": [{"cell": "c1", "source": "print(2)"}]}),
        ),
        ("nav", "edit", json!({"path": "a.txt", "old_string": "one", "new_string": "1"})),
        ("hyperagents", "editor", json!({"command": "create", "path": "new.txt", "file_text": "x\n"})),
        ("terrarium", "multi_edit", json!({"path": "a.txt", "edits": [{"old": "one", "new": "1"}]})),
    ];
    for (toolset, tool, arguments) in cases {
        let test_ws = TestWorkspace::new();
        test_ws.put("a.txt", "one\n");
        test_ws.put("a.json", "{\"a\": 1}\n");
        test_ws.put("n.ipynb", serde_json::to_string_pretty(&cell).unwrap());
        let path = arguments["path"].as_str().unwrap();
        let read = match tool {
            "notebook_edit" => calls("notebook_read", &json!({"path": path})),
            "multi_edit" => calls("read", &json!({"path": path})),
            _ => String::new(),
        };
        let answered = answered(&test_ws, &["--toolset", toolset], &(read + &calls(tool, &arguments)));
        let last = answered.last().unwrap();
        assert_eq!(last["changes"][0]["path"], path, "{toolset} {tool}: {last}");
        assert!(last["changes"][0]["diff"].as_str().unwrap().contains("\n+"), "{last}");
    }
    // Several files in one call.
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "one\n");
    let moved = json!({"action": "move", "path": "a.txt", "destination": "b.txt"});
    let answered = answered(&test_ws, &["--toolset", "navi"], &calls("filesystem", &moved));
    let told: Vec<(&str, &str)> = answered[0]["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["path"].as_str().unwrap(), it["kind"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [("b.txt", "created"), ("a.txt", "deleted")]);
}

#[test]
fn what_a_call_within_a_call_changed_is_told_with_the_outer_one_and_of_agents_below_too() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "one\n");
    let inner = json!({"name": "edit", "arguments": edit("a.txt", "one", "two")});
    let told = answered(&test_ws, &[], &calls("call_tool", &inner));
    assert_eq!(told[0]["changes"][0]["path"], "a.txt", "{}", told[0]);
    let script_below = calls("subagent", &json!({"prompt": "do it"}))
        + &calls("write", &json!({"path": "b.txt", "content": "x\n"}))
        + "{\"say\": \"done below\"}\n";
    let told = answered(&test_ws, &[], &script_below);
    assert!(told.iter().any(|it| it["changes"][0]["path"] == "b.txt"), "{told:?}");
}

#[test]
fn a_long_diff_is_cut_and_a_secret_is_masked() {
    let test_ws = TestWorkspace::new();
    let content = (0..1_000).map(|it| format!("line {it}\n")).collect::<String>();
    let lines = calls("write", &json!({"path": "long.txt", "content": content}));
    let told = answered(&test_ws, &[], &lines);
    let change = &told[0]["changes"][0];
    assert_eq!((&change["added"], &change["more"]), (&json!(1_000), &json!(601)));
    assert!(change["diff"].as_str().unwrap().ends_with("\n+line 398\n… 601 more lines\n"), "{change}");

    test_ws.put("key.txt", "token = s3cret-Value-91c4\nx\n");
    let model = script(&test_ws, &(calls("edit", &edit("key.txt", "x", "y")) + "{\"say\": \"Done.\"}\n"));
    let mut command = test_ws.haft(&["run", "--json", "--model", &model, "do it"]);
    let ran = crate::support::run(command.env("SOME_TOKEN", "s3cret-Value-91c4"), "");
    assert!(ran.out.contains("token = [masked:SOME_TOKEN]") && !ran.out.contains("91c4"), "{ran:?}");
}

#[test]
fn in_a_pipe_a_diff_stands_below_its_call_without_colours_and_apart_from_the_answer() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "one\ntwo \u{1b}[2J\nthree\n");
    let lines = calls("edit", &edit("a.txt", "three", "3")) + "{\"say\": \"Done.\"}\n";
    let ran = test_ws.run(&["run", "--model", &script(&test_ws, &lines), "do it"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Done.\n"), "{ran:?}");
    let at = ran.err.find("    a.txt (+1 -1)\n").unwrap_or_else(|| panic!("{ran:?}"));
    assert!(
        ran.err[at..].starts_with(
            "    a.txt (+1 -1)\n    @@ -1,3 +1,3 @@\n     one\n     two \\u{1b}[2J\n    -three\n    +3\n"
        ),
        "{}",
        ran.err
    );
}
