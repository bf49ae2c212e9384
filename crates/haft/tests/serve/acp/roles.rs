//! Roles inside of the protocol: no method gives more than the API does.

use serde_json::{Value, json};

use super::support::Editor;
use crate::serve::support::{Stage, wait_for};

#[test]
fn operations_of_higher_roles_are_refused() {
    let stage = Stage::new(&[json!({"say": "Hello."})]);
    let served = stage.serve();
    let session = served.begin("go");
    served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    let cwd = stage.path("ws");
    let mut editor = Editor::open(&served, "say");
    editor.result("session/load", json!({"sessionId": session, "cwd": cwd, "mcpServers": []}));
    let prompt = |text: &str| json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
    let secret = format!("script:{}", stage.path("tokens").display());
    for (text, why) in [
        ("/undo".to_owned(), "this needs the role `approve`"),
        (format!("/model {secret}"), "not in the list"),
        ("/export /tmp/stolen.md".to_owned(), "would write a file where the server is"),
        ("/export".to_owned(), "would write a file where the server is"),
    ] {
        let refused = editor.refused("session/prompt", prompt(&text));
        assert!(refused.contains(why), "{text}: {refused}");
    }
    let model = |name: &str| json!({"sessionId": session, "configId": "model", "value": name});
    for name in [secret.as_str(), "http://127.0.0.1:1/admin?x=#m", "script:/etc/passwd"] {
        let refused = editor.refused("session/set_config_option", model(name));
        assert!(refused.contains("not in the list"), "{name}: {refused}");
    }
    for (option, value) in [("sandbox", "full"), ("effort", "high")] {
        let params = json!({"sessionId": session, "configId": option, "value": value});
        editor.refused("session/set_config_option", params);
    }
    editor.refused("session/delete", json!({"sessionId": session}));
    editor.refused("authenticate", json!({"methodId": "api-key"}));
    assert_eq!(served.get("sessions")["sessions"].as_array().unwrap().len(), 1);
    // The owner may name another model.
    let mut owner = Editor::open(&served, "own");
    owner.result("session/load", json!({"sessionId": session, "cwd": cwd, "mcpServers": []}));
    let own = format!("script:{}", stage.path("script").display());
    owner.result("session/set_config_option", model(&own));
    owner.refused("session/delete", json!({"sessionId": session}));
}

#[test]
fn nothing_of_the_editor_but_its_words_reaches_the_server() {
    let stage = Stage::new(&[json!({"say": "Hello."})]);
    std::fs::create_dir(stage.path("other")).unwrap();
    std::os::unix::fs::symlink(stage.path("ws"), stage.path("link")).unwrap();
    let served = stage.serve();
    for role in ["say", "own"] {
        let mut editor = Editor::connect(&served, role);
        let hello = editor.result(
            "initialize",
            json!({"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": true}, "auth": {"terminal": true}}}),
        );
        assert_eq!(hello["authMethods"], json!([]), "{hello}");
        let started = stage.path("home").join(role);
        let server = json!({"name": "evil", "command": "/usr/bin/touch", "args": [started], "env": []});
        let opened = editor.result("session/new", json!({"cwd": stage.path("ws"), "mcpServers": [server]}));
        assert!(!opened.to_string().contains("\"sandbox\""), "{opened}");
        // The person is notified, and it is not started.
        editor.until(|it| it.to_string().contains("starts no MCP servers of an editor (evil)"));
        let session = opened["sessionId"].as_str().unwrap().to_owned();
        let id = editor.prompt(&session, "go");
        editor.answer(id);
        assert!(!started.exists());
        for cwd in
            [stage.path("other"), stage.path("home"), "/".into(), stage.path("nothing"), stage.path("ws/..")]
        {
            for (method, more) in [
                ("session/new", json!({})),
                ("session/load", json!({"sessionId": session})),
                ("session/resume", json!({"sessionId": session})),
                ("session/fork", json!({"sessionId": session})),
                ("session/list", json!({})),
            ] {
                let mut params = json!({"cwd": cwd, "mcpServers": []});
                params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                let refused = editor.refused(method, params);
                assert!(refused.contains("does not serve"), "{method} {cwd:?}: {refused}");
            }
        }
        let dirs =
            json!({"cwd": stage.path("ws"), "mcpServers": [], "additionalDirectories": [stage.path("home")]});
        let refused = editor.refused("session/new", dirs);
        assert!(refused.contains("additional directories"), "{refused}");
        // The same folder by another name.
        editor.result("session/new", json!({"cwd": stage.path("link"), "mcpServers": []}));
        for session in ["s_nothing", "../x", "s_x/y", ""] {
            let params = json!({"sessionId": session, "cwd": stage.path("ws"), "mcpServers": []});
            editor.refused("session/load", params);
        }
    }
}

#[test]
fn fork_and_modes_are_those_of_the_server() {
    let stage = Stage::new(&[json!({"say": "Hello."})]);
    let served = stage.serve();
    let mut editor = Editor::open(&served, "say");
    let session = editor.session(&stage);
    let id = editor.prompt(&session, "hello");
    editor.answer(id);
    let params = json!({"sessionId": session, "cwd": stage.path("ws"), "mcpServers": []});
    let forked = editor.result("session/fork", params);
    let fork = forked["sessionId"].as_str().unwrap();
    assert_ne!(fork, session);
    editor.result("session/set_mode", json!({"sessionId": fork, "modeId": "plan"}));
    let is_planning = || (served.get(&format!("sessions/{fork}"))["profile"] == "plan").then_some(());
    wait_for("the plan mode", is_planning);
    assert_eq!(served.get(&format!("sessions/{session}"))["profile"], Value::Null);
}
