//! Conversations whose process is killed: each call keeps exactly one result.

use std::collections::HashSet;

use haft::agent::model::{Item, MessagePart, Piece};
use serde_json::{Value, json};

use super::support::{Life, TestWorkspace};

const STEPS: usize = 30;

/// Returns the calls of step `at`: a write, three calls at once, or an edit.
fn calls(at: usize) -> Vec<Value> {
    let write = |path: String| json!({"tool": "write", "arguments": {"path": path, "content": "written\n"}});
    match at % 3 {
        0 => vec![write(format!("w{at}"))],
        1 => vec![
            write(format!("a{at}")),
            json!({"tool": "bash", "arguments": {"command": format!("echo ran >> b{at}")}}),
            write(format!("c{at}")),
        ],
        _ => {
            let edits = json!([{"old": "old\n", "new": "new\n"}]);
            vec![json!({"tool": "edit", "arguments": {"path": format!("e{at}"), "edits": edits}})]
        }
    }
}

fn test_ws() -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    for at in (2..STEPS).step_by(3) {
        test_ws.put(&format!("e{at}"), "old\n");
    }
    let mut script: Vec<Value> =
        (0..STEPS).map(|at| json!({"say": format!("Step {at}."), "calls": calls(at), "chunks": 2})).collect();
    script.push(json!({"say": "finished"}));
    test_ws.script(&script);
    test_ws
}

/// Kills it once in each step, at the first event of this kind, and lets it end when there is no step left.
fn kill_at(kind: &str) -> TestWorkspace {
    let test_ws = test_ws();
    let mut killed = HashSet::new();
    let mut first = true;
    'lives: loop {
        let arguments: &[&str] = if first { &["do it"] } else { &["--resume"] };
        first = false;
        let mut life = Life::begin(&mut test_ws.run(arguments));
        let mut step = 0;
        while let Some(event) = life.event() {
            if event["event"] == "asked" {
                step = event["step"].as_u64().unwrap();
            }
            if event["event"] == kind && killed.insert(step) {
                continue 'lives;
            }
        }
        assert!(life.ended_well(), "it did not come to its end after {} kills", killed.len());
        break;
    }
    // A process goes on while its end is on the way, at times into the next step.
    assert!(killed.len() >= STEPS / 2, "{} kills", killed.len());
    test_ws
}

/// Every call has its one result right behind it, and what it says is so.
fn check(test_ws: &TestWorkspace) {
    let items = test_ws.items();
    let mut seen = HashSet::new();
    let mut count = 0;
    for (at, item) in items.iter().enumerate() {
        let Item::Model { said } = item else { continue };
        let calls: Vec<(&str, &str, &str)> = said
            .iter()
            .filter_map(|it| match it {
                MessagePart::Call { id, tool, arguments } => {
                    Some((id.as_str(), tool.as_str(), arguments.as_str()))
                }
                _ => None,
            })
            .collect();
        if calls.is_empty() {
            continue;
        }
        let Some(Item::Results { results }) = items.get(at + 1) else { panic!("no results: {item:?}") };
        let ids = |it: &mut dyn Iterator<Item = &str>| it.map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(ids(&mut calls.iter().map(|it| it.0)), ids(&mut results.iter().map(|it| it.id.as_str())));
        for ((id, tool, arguments), result) in calls.iter().zip(results) {
            assert!(seen.insert((*id).to_owned()), "twice: {id}");
            count += 1;
            let said = Piece::lines(&result.pieces);
            let there = effect(test_ws, tool, arguments);
            if result.ok || said.contains("was done") && !said.contains("nothing was done") {
                assert_eq!(there, Some(true), "{tool} {arguments}: {said}");
            } else if said.contains("nothing was done") {
                assert_eq!(there, Some(false), "{tool} {arguments}: {said}");
            } else {
                assert!(
                    said.contains("it may or may not have finished") && there.is_some(),
                    "{tool} {arguments}: {said}"
                );
            }
        }
    }
    let Some(Item::Model { said }) = items.last() else { panic!("{:?}", items.last()) };
    assert_eq!(said, &[MessagePart::Text { text: "finished".to_owned() }]);
    let asked = items.iter().filter(|it| matches!(it, Item::Person { .. })).count();
    assert_eq!(asked, 1, "what the person said is there once");
    let steps = items.iter().filter(|it| matches!(it, Item::Results { .. })).count();
    assert_eq!(steps, STEPS, "each step is there once");
    // Of an answer that was broken off only the calls are there that were made by then.
    assert!((STEPS..=all_calls()).contains(&count), "{count} calls");
}

/// Returns whether a call took effect; `None` if it did so partly or more than once.
fn effect(test_ws: &TestWorkspace, tool: &str, arguments: &str) -> Option<bool> {
    let arguments: Value = serde_json::from_str(arguments).unwrap();
    let path = arguments["path"].as_str().unwrap_or_default();
    let (before, after, path) = match tool {
        "write" => ("", "written\n", path),
        "edit" => ("old\n", "new\n", path),
        _ => ("", "ran\n", arguments["command"].as_str().unwrap().rsplit(' ').next().unwrap()),
    };
    match test_ws.text(path) {
        text if text == after => Some(true),
        text if text == before => Some(false),
        _ => None,
    }
}

fn all_calls() -> usize {
    (0..STEPS).map(|at| calls(at).len()).sum()
}

#[test]
fn killed_before_each_answer() {
    check(&kill_at("asked"));
}

#[test]
fn killed_as_each_first_call_begins() {
    check(&kill_at("called"));
}

#[test]
fn killed_as_each_first_call_ends() {
    check(&kill_at("answered"));
}

#[test]
fn killed_as_each_answer_is_complete() {
    check(&kill_at("used"));
}

#[test]
fn a_second_process_is_told_that_the_session_is_in_use() {
    let test_ws = TestWorkspace::new();
    test_ws.script(&[json!({"say": "late", "after_ms": 600_000})]);
    let mut life = Life::begin(&mut test_ws.run(&["do it"]));
    while life.event().unwrap()["event"] != "asked" {}
    let second = test_ws.run(&["--resume"]).output().unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(!second.status.success() && said.contains("is open in another haft (process"), "{said}");
    drop(life);
    test_ws.script(&[json!({"say": "soon"})]);
    assert!(
        test_ws.run(&["--resume"]).output().unwrap().status.success(),
        "the session is free once it is dead"
    );
}
