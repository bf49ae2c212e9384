//! A turn that is rewound names the calls that changed files in it, so that they can be undone.

use std::sync::Arc;

use haft::{
    agent::{Agent, Bounds, Settings, Silent, model::script::Script},
    kit::services::Which,
    store::undo::Scope,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::support::{SESSION, TestWorkspace};

fn agent(test_ws: &TestWorkspace, script: &[Value]) -> Agent {
    let text: String = script.iter().map(|it| format!("{it}\n")).collect();
    Agent::open(Settings {
        session: test_ws.session(),
        model: Arc::new(Script::parse("script", &text).unwrap()),
        system: "".into(),
        bounds: Bounds::default(),
        visible: Default::default(),
        host: Arc::new(Silent),
    })
    .unwrap()
}

#[tokio::test]
async fn the_calls_that_changed_files_are_named_newest_first_and_can_be_undone() {
    let test_ws = TestWorkspace::new();
    test_ws.put("kept", "old\n");
    let write =
        |path: &str, content: &str| json!({"tool": "write", "arguments": {"path": path, "content": content}});
    let edit =
        json!({"tool": "edit", "arguments": {"path": "kept", "edits": [{"old": "old", "new": "new"}]}});
    let mut agent = agent(
        &test_ws,
        &[
            json!({"calls": [write("first", "1\n")]}),
            json!({"say": "done"}),
            json!({"calls": [{"tool": "read", "arguments": {"path": "kept"}}]}),
            json!({"calls": [edit]}),
            json!({"calls": [write("second", "2\n")]}),
            json!({"say": "done again"}),
        ],
    );
    for words in ["first", "second"] {
        agent.turn(Some(words.to_owned()), &CancellationToken::new()).await.unwrap();
    }
    assert_eq!((test_ws.text("kept").as_str(), test_ws.text("second").as_str()), ("new\n", "2\n"));
    let back = agent.rewind(1).await.unwrap();
    let changed: Vec<(&str, Vec<&str>)> = back
        .changed
        .iter()
        .map(|it| (it.tool.as_str(), it.files.iter().map(String::as_str).collect()))
        .collect();
    assert_eq!(changed, [("write", vec!["second"]), ("edit", vec!["kept"])]);
    assert_eq!(test_ws.text("kept"), "new\n", "files stay until somebody undoes the calls");
    let runtime = agent.session().runtime().clone();
    for it in back.changed {
        let by = runtime.undo(SESSION, &runtime.store().call_id(), Scope::Workspace);
        by.undo(Which::Call(it.call)).unwrap();
    }
    assert_eq!((test_ws.text("kept").as_str(), test_ws.text("second").as_str()), ("old\n", ""));
    assert_eq!(test_ws.text("first"), "1\n", "the turn before it is as it was");
    let back = agent.rewind(1).await.unwrap();
    assert_eq!((back.said.as_str(), back.changed.len()), ("first", 1));
    agent.session().end().await;
}
