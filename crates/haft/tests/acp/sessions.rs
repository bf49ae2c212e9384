//! Sessions: folders, roots and servers, modes and options; loaded, resumed, forked, listed, deleted and closed.

use std::fs;

use serde_json::{Value, json};

use super::support::{Client, call, choose, haft, say, set_script, workspace};
use crate::support::TestWorkspace;

fn edited() -> (TestWorkspace, [Value; 3]) {
    let script = [
        call("edit", json!({"path": "a.txt", "old": "two", "new": "2"})),
        say("Changed it."),
        say("Still here."),
    ];
    let test_ws = workspace(&script);
    test_ws.put("a.txt", "one\ntwo\n");
    (test_ws, script)
}

fn opening(test_ws: &TestWorkspace, session: &str) -> Value {
    json!({"sessionId": session, "cwd": test_ws.at(""), "mcpServers": []})
}

#[test]
fn load_replays_text_calls_and_diffs_after_a_kill_and_the_session_goes_on() {
    let (test_ws, _) = edited();
    let client = Client::start(&test_ws);
    let session = client.session(&test_ws);
    assert_eq!(client.says(&session, "change it"), "end_turn");
    let live = client.of_kind(&session, "tool_call_update");
    let live = live.iter().find(|it| it["status"] == "completed").unwrap().clone();
    client.kill();

    let client = Client::start(&test_ws);
    let loaded = client.ask("session/load", opening(&test_ws, &session)).result();
    assert!(loaded["configOptions"].is_array() && loaded["modes"].is_object(), "{loaded}");
    assert_eq!(client.text(&session, "user_message_chunk"), "change it");
    assert_eq!(client.text(&session, "agent_message_chunk"), "Changed it.");
    let replayed = &client.of_kind(&session, "tool_call_update")[0];
    assert_eq!(replayed["content"], live["content"], "the same diff as when it was made");
    assert_eq!(replayed["content"][0]["oldText"], "one\ntwo\n");
    assert_eq!(replayed["toolCallId"], live["toolCallId"]);
    let order: Vec<String> = client
        .updates(&session)
        .iter()
        .map(|it| it["sessionUpdate"].as_str().unwrap().to_owned())
        .filter(|it| it != "available_commands_update")
        .collect();
    let expected = [
        "user_message_chunk",
        "tool_call",
        "tool_call_update",
        "agent_message_chunk",
        "usage_update",
        "session_info_update",
    ];
    assert_eq!(order, expected);
    assert_eq!(client.says(&session, "are you there?"), "end_turn");
    assert!(client.text(&session, "agent_message_chunk").ends_with("Still here."));
}

#[test]
fn resume_sends_nothing_and_what_is_not_there_is_an_error() {
    let (test_ws, _) = edited();
    let client = Client::start(&test_ws);
    let session = client.session(&test_ws);
    client.says(&session, "change it");
    client.end();
    let client = Client::start(&test_ws);
    client.ask("session/resume", opening(&test_ws, &session)).result();
    assert!(client.of_kind(&session, "user_message_chunk").is_empty());
    assert_eq!(client.says(&session, "are you there?"), "end_turn");
    for method in ["session/load", "session/resume"] {
        let error = client.ask(method, opening(&test_ws, "s_none")).error();
        assert_eq!(error["code"], -32002, "{error}");
    }
}

#[test]
fn fork_goes_on_from_where_the_other_session_is_and_leaves_it_alone() {
    let (test_ws, _) = edited();
    let client = Client::start(&test_ws);
    let session = client.session(&test_ws);
    client.says(&session, "change it");
    let forked = client.ask("session/fork", opening(&test_ws, &session)).result();
    let fork = forked["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(fork, session);
    assert_eq!(client.says(&fork, "in the fork"), "end_turn");
    assert_eq!(client.text(&fork, "agent_message_chunk"), "Still here.");
    client.ask("session/close", json!({"sessionId": session})).result();
    client.ask("session/close", json!({"sessionId": fork})).result();
    client.ask("session/load", opening(&test_ws, &fork)).result();
    assert_eq!(client.text(&fork, "user_message_chunk"), "change itin the fork");
    let diffs = client.of_kind(&fork, "tool_call_update");
    assert_eq!(diffs[0]["content"][0]["oldText"], "one\ntwo\n", "{diffs:?}");
    client.ask("session/load", opening(&test_ws, &session)).result();
    assert_eq!(client.text(&session, "user_message_chunk"), "change it");
}

#[test]
fn sessions_are_listed_by_folder_and_over_all_and_deleted_ones_are_not() {
    let test_ws = workspace(&[say("One."), say("Two.")]);
    let client = Client::start(&test_ws);
    let session = client.session(&test_ws);
    client.says(&session, "first words\nand more");
    let other =
        client.ask("session/new", json!({"cwd": test_ws.outside(), "mcpServers": []})).result()["sessionId"]
            .as_str()
            .unwrap()
            .to_owned();
    client.says(&other, "elsewhere");
    let list =
        |params: Value| client.ask("session/list", params).result()["sessions"].as_array().unwrap().clone();
    let here = list(json!({"cwd": test_ws.at("")}));
    assert_eq!(here.len(), 1, "{here:?}");
    assert_eq!((&here[0]["sessionId"], &here[0]["title"]), (&json!(session), &json!("first words")));
    assert!(here[0]["updatedAt"].as_str().unwrap().ends_with('Z'), "{here:?}");
    assert_eq!(list(json!({})).len(), 2);
    client.ask("session/delete", json!({"sessionId": session})).result();
    assert!(list(json!({"cwd": test_ws.at("")})).is_empty());
    let error = client.ask("session/load", opening(&test_ws, &session)).error();
    assert_eq!(error["code"], -32002);
    assert_eq!(client.ask("session/list", json!({"cursor": "x"})).error()["code"], -32602);
    client.ask("session/close", json!({"sessionId": other})).result();
    assert_eq!(client.prompt(&other, "x").error()["code"], -32002);
}

#[test]
fn modes_and_options_are_set_and_told() {
    let test_ws = workspace(&[say("One.")]);
    // Nothing is requested there before a turn.
    let toml = "[models.thinker]\nurl = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\neffort = \"low\"\n";
    fs::create_dir_all(test_ws.config()).unwrap();
    fs::write(test_ws.config().join("haft.toml"), toml).unwrap();
    let client = Client::start(&test_ws);
    let opened = client.ask("session/new", json!({"cwd": test_ws.at(""), "mcpServers": []})).result();
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(opened["modes"]["currentModeId"], "none");
    let value = |options: &Value, id: &str| -> Value {
        let all = options.as_array().unwrap();
        all.iter().find(|it| it["id"] == id).map(|it| it["currentValue"].clone()).unwrap_or_default()
    };
    client.ask("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).result();
    let told = client.until(|it| it["params"]["update"]["sessionUpdate"] == "config_option_update");
    assert_eq!(value(&told["params"]["update"]["configOptions"], "profile"), "plan");
    assert!(
        client.ask("session/set_mode", json!({"sessionId": session, "modeId": "x"})).error()["code"].is_i64()
    );
    let set = |id: &str, to: &str| {
        client.ask("session/set_config_option", json!({"sessionId": session, "configId": id, "value": to}))
    };
    let options = set("profile", "none").result()["configOptions"].clone();
    assert_eq!(value(&options, "profile"), "none");
    client.until(|it| it["params"]["update"]["sessionUpdate"] == "current_mode_update");
    let options = set("model", "thinker").result()["configOptions"].clone();
    assert_eq!((value(&options, "model"), value(&options, "effort")), (json!("thinker"), json!("low")));
    assert_eq!(value(&set("effort", "high").result()["configOptions"], "effort"), "high");
    let options = set("sandbox", "read-only").result()["configOptions"].clone();
    assert_eq!(value(&options, "sandbox"), "read-only");
    assert_eq!(value(&options, "effort"), "high", "it is the same conversation");
    let error = set("sandbox", "full").error();
    assert!(error["message"].as_str().unwrap().contains("configuration allows"), "{error}");
    assert!(set("nonsense", "x").error()["message"].as_str().unwrap().contains("profile, model"));
    client.ask("session/close", json!({"sessionId": session})).result();
    client.says(&client.session(&test_ws), "something");
}

#[test]
fn a_read_only_session_changes_nothing() {
    let test_ws = workspace(&[call("write", json!({"path": "b.txt", "content": "x"})), say("Over.")]);
    let client = Client::start(&test_ws);
    let session = client.session(&test_ws);
    let params = json!({"sessionId": session, "configId": "sandbox", "value": "read-only"});
    client.ask("session/set_config_option", params).result();
    assert_eq!(client.says(&session, "write it"), "end_turn");
    assert!(!test_ws.at("b.txt").exists());
}

#[test]
fn wide_folders_are_refused_and_further_folders_are_roots() {
    let test_ws = workspace(&[call("read", json!({"path": "OUT/o.txt"})), say("Read.")]);
    fs::write(test_ws.outside().join("o.txt"), "outside\n").unwrap();
    let path = test_ws.outside().join("o.txt");
    set_script(
        &test_ws,
        &[call("read", json!({"path": path})), json!({"expect": ["|outside"], "say": "Read."})],
    );
    let client = Client::start(&test_ws);
    for cwd in [
        "/".to_owned(),
        test_ws.base().join("home").display().to_string(),
        test_ws.base().display().to_string(),
    ] {
        let error = client.ask("session/new", json!({"cwd": cwd, "mcpServers": []})).error();
        assert!(error["message"].as_str().unwrap().contains("could delete everything"), "{cwd}: {error}");
    }
    for cwd in ["relative", "/no/such/folder"] {
        client.ask("session/new", json!({"cwd": cwd, "mcpServers": []})).error();
    }
    let params =
        json!({"cwd": test_ws.at(""), "mcpServers": [], "additionalDirectories": [test_ws.outside()]});
    let opened = client.ask("session/new", params).result();
    let session = opened["sessionId"].as_str().unwrap();
    assert_eq!(client.says(session, "read it"), "end_turn");
    assert_eq!(client.text(session, "agent_message_chunk"), "Read.");
    let listed = client.ask("session/list", json!({"cwd": test_ws.at("")})).result();
    assert_eq!(listed["sessions"][0]["additionalDirectories"], json!([test_ws.outside()]));
}

#[test]
fn dir_keeps_sessions_below_it() {
    let test_ws = workspace(&[]);
    fs::create_dir(test_ws.at("sub")).unwrap();
    let dir = test_ws.at("").display().to_string();
    let client = Client::with(&test_ws, &["--dir", &dir], json!({}), |_, _| None);
    client.ask("session/new", json!({"cwd": test_ws.at("sub"), "mcpServers": []})).result();
    let error = client.ask("session/new", json!({"cwd": test_ws.outside(), "mcpServers": []})).error();
    assert!(error["message"].as_str().unwrap().contains("--dir"), "{error}");
}

#[test]
fn an_mcp_server_of_the_editor_has_tools_in_the_session() {
    kit::needs!(Python);
    let test_ws = workspace(&[
        call("mine__echo", json!({"text": "from the server"})),
        json!({"expect": ["from the server"], "say": "Heard."}),
    ]);
    test_ws.put("server.py", include_str!("../servers/server.py"));
    let client = Client::with(&test_ws, &[], json!({}), choose("allow_once"));
    let sse = json!({"type": "sse", "name": "old", "url": "http://127.0.0.1:1/", "headers": []});
    let error = client.ask("session/new", json!({"cwd": test_ws.at(""), "mcpServers": [sse]})).error();
    assert!(error["message"].as_str().unwrap().contains("sse"), "{error}");
    let server = json!({"name": "mine", "command": "python3", "args": ["server.py", "{}"], "env": []});
    let opened = client.ask("session/new", json!({"cwd": test_ws.at(""), "mcpServers": [server]})).result();
    let session = opened["sessionId"].as_str().unwrap();
    assert_eq!(client.says(session, "use it"), "end_turn");
    assert_eq!(client.text(session, "agent_message_chunk"), "Heard.", "{:#?}", client.updates(session));
}

#[test]
fn login_at_a_terminal_is_an_option_of_acp() {
    let test_ws = workspace(&[]);
    let ran = haft(&test_ws, &["acp", "--login", "nobody"]).output().unwrap();
    assert!(String::from_utf8_lossy(&ran.stderr).contains("nobody"), "{ran:?}");
    let ran = haft(&test_ws, &["--session", "x", "acp"]).output().unwrap();
    assert!(String::from_utf8_lossy(&ran.stderr).contains("--session"), "{ran:?}");
}
