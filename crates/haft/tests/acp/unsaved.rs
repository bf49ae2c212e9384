//! Text in the editor that is not saved: read by tools, and never written over.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::support::{Client, call, say, workspace};

/// The editor's text of every file; `None` if it has no file open.
type Open = Arc<Mutex<Option<&'static str>>>;

fn editor(open: &Open) -> impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static {
    let open = open.clone();
    move |method, _| {
        assert_eq!(method, "fs/read_text_file");
        let text = (*open.lock().unwrap()).unwrap_or("one\ntwo\n");
        Some(json!({"content": text}))
    }
}

#[test]
fn unsaved_text_is_read_and_an_edit_of_it_is_refused_with_fresh_anchors() {
    let test_ws = workspace(&[
        call("read", json!({"path": "a.txt"})),
        json!({"expect": ["|typed"], "calls": [{"tool": "edit", "arguments": {"path": "a.txt", "old": "two", "new": "2"}}]}),
        json!({"expect": ["not saved", "|two"], "calls": [{"tool": "write", "arguments": {"path": "a.txt", "content": "gone\n", "overwrite": true}}]}),
        json!({"expect": ["not saved"], "say": "Asked to save."}),
        call("edit", json!({"path": "a.txt", "old": "two", "new": "2"})),
        say("Changed."),
    ]);
    test_ws.put("a.txt", "one\ntwo\n");
    let open: Open = Arc::new(Mutex::new(Some("typed\none\ntwo\n")));
    let capabilities = json!({"fs": {"readTextFile": true, "writeTextFile": true}});
    let client = Client::with(&test_ws, &[], capabilities, editor(&open));
    let session = client.session(&test_ws);
    assert_eq!(client.says(&session, "change two"), "end_turn");
    assert_eq!(client.text(&session, "agent_message_chunk"), "Asked to save.");
    assert_eq!(test_ws.text("a.txt"), "one\ntwo\n", "nothing was written");
    let asked = &client.asked("fs/read_text_file")[0]["params"];
    assert_eq!((&asked["sessionId"], &asked["path"]), (&json!(session), &json!(test_ws.at("a.txt"))));

    *open.lock().unwrap() = None;
    assert_eq!(client.says(&session, "I saved it as it was"), "end_turn");
    assert_eq!(test_ws.text("a.txt"), "one\n2\n");
}
