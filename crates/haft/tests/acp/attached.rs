//! One session in several processes: an editor's session at a terminal and in another editor, and a terminal's in an editor.

use std::{
    io::Write as _,
    process::{Child, Stdio},
};

use serde_json::{Value, json};

use super::support::{Client, call, choose, haft, say, set_script, workspace};
use crate::{chat::stage::Stage, support::TestWorkspace};

fn load(client: &Client, test_ws: &TestWorkspace, session: &str) -> Value {
    let params = json!({"sessionId": session, "cwd": test_ws.at(""), "mcpServers": []});
    client.ask("session/load", params).result()
}

fn writes_a_control_file() -> Value {
    call("write", json!({"path": ".envrc", "content": "export A=1\n"}))
}

/// Waits for a message of this kind with this text.
fn hears(client: &Client, kind: &str, text: &str) {
    client.until(|it| {
        let update = &it["params"]["update"];
        update["sessionUpdate"] == kind
            && update["content"]["text"].as_str().is_some_and(|it| it.contains(text))
    });
}

fn is_asked(it: &Value) -> bool {
    it["method"] == "session/request_permission"
}

#[test]
fn a_terminal_answers_for_an_editor_and_takes_part_in_its_session() {
    let stage = Stage::new((80, 24), true);
    let test_ws = &stage.test_ws;
    set_script(
        test_ws,
        &[
            writes_a_control_file(),
            say("Written."),
            say("From the terminal."),
            json!({"say": "Slow", "end_ms": 600_000}),
        ],
    );
    let client = Client::start(test_ws);
    let session = client.session(test_ws);
    let turn = client.prompt(&session, "go");
    let question = client.until(is_asked);
    let mut terminal = stage.run("", &["chat", "--attach", &session]);
    terminal.shows("allow it?").types("o\n");
    let back = client.until(|it| it["method"] == "$/cancel_request");
    assert_eq!(back["params"]["requestId"], question["id"]);
    assert_eq!(turn.result()["stopReason"], "end_turn");
    assert_eq!(test_ws.text(".envrc"), "export A=1\n");
    terminal.rests("Written.");
    hears(&client, "agent_thought_chunk", "decided: once");
    // What the person types there, the editor sees as their message.
    terminal.types("and more\n").rests("From the terminal.");
    hears(&client, "user_message_chunk", "and more");
    hears(&client, "agent_message_chunk", "From the terminal.");
    // A turn of the editor is stopped from there.
    let turn = client.prompt(&session, "slowly");
    terminal.shows("> slowly").shows("Slow").key("Esc").rests("Stopped.");
    assert_eq!(turn.result()["stopReason"], "cancelled");
    let listed = test_ws.run(&["sessions"]);
    assert!(listed.out.contains(&session), "{listed:?}");
}

#[test]
fn two_editors_have_one_session_and_the_first_answer_counts() {
    let test_ws = workspace(&[
        writes_a_control_file(),
        say("Written."),
        say("Second."),
        json!({"say": "Slow", "end_ms": 600_000}),
    ]);
    let owner = Client::start(&test_ws);
    let session = owner.session(&test_ws);
    let other = Client::with(&test_ws, &[], json!({}), choose("allow_once"));
    let opened = load(&other, &test_ws, &session);
    assert_eq!(opened["modes"]["currentModeId"], "none");
    hears(&other, "agent_thought_chunk", &format!("process {} (acp) runs this session", owner.pid()));
    let turn = owner.prompt(&session, "go");
    // Asked at both; the other one answers at once.
    let question = owner.until(is_asked);
    assert_eq!(turn.result()["stopReason"], "end_turn");
    let asked = &other.asked("session/request_permission")[0];
    assert_eq!(asked["params"]["sessionId"], json!(session));
    assert_eq!(asked["params"]["toolCall"]["toolCallId"], question["params"]["toolCall"]["toolCallId"]);
    owner.until(|it| it["method"] == "$/cancel_request");
    hears(&other, "user_message_chunk", "go");
    hears(&other, "agent_message_chunk", "Written.");

    assert_eq!(other.says(&session, "second"), "end_turn");
    assert_eq!(other.text(&session, "agent_message_chunk"), "Written.Second.");
    hears(&owner, "user_message_chunk", "second");
    hears(&owner, "agent_message_chunk", "Second.");

    // Whoever began it: a turn is stopped from either.
    let turn = owner.prompt(&session, "slowly");
    hears(&other, "agent_message_chunk", "Slow");
    other.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(turn.result()["stopReason"], "cancelled");

    // The process that ran it is killed: the other one goes on with it.
    let taken = || say("Taken over.");
    set_script(&test_ws, &[taken(), taken(), taken(), taken(), taken(), taken()]);
    owner.kill();
    assert_eq!(other.says(&session, "go on"), "end_turn");
    assert!(other.text(&session, "agent_message_chunk").ends_with("Taken over."));
}

#[test]
fn editor_has_the_commands_of_the_chat_in_a_session_that_another_process_runs() {
    // The summary is the model's second answer too.
    let test_ws = workspace(&[say(&"First. ".repeat(400)), say("Planned."), say("On.")]);
    let owner = Client::start(&test_ws);
    let session = owner.session(&test_ws);
    assert_eq!(owner.says(&session, "go"), "end_turn");
    let other = Client::start(&test_ws);
    load(&other, &test_ws, &session);
    let offered = other.until(|it| it["params"]["update"]["sessionUpdate"] == "available_commands_update");
    let offered = offered["params"]["update"]["availableCommands"].as_array().unwrap().clone();
    for name in ["status", "tools", "context", "cost", "model", "plan", "compact", "rewind", "fork", "rename"]
    {
        assert!(offered.iter().any(|it| it["name"] == name), "{name}: {offered:?}");
    }
    let answer = |command: &str| {
        let before = other.text(&session, "agent_message_chunk").len();
        assert_eq!(other.says(&session, command), "end_turn", "{command}");
        other.text(&session, "agent_message_chunk")[before..].to_owned()
    };
    assert!(answer("/status").contains(&format!("{} (acp)", owner.pid())));
    assert!(answer("/tools filegrep").contains("filegrep: "));
    assert!(answer("/context").contains("Window: "));
    assert!(answer("/cost").contains("1 step, "));
    assert!(answer("/model").contains("(in use)"));
    assert_eq!(answer("/rename Numbers"), "");
    other.until(|it| it["params"]["update"]["title"] == "Numbers");
    assert_eq!(answer("/compact"), "");
    hears(&other, "agent_thought_chunk", "compacted: ");
    hears(&owner, "agent_thought_chunk", "compacted: ");
    assert_eq!(answer("/plan the plan"), "Planned.");
    other.until(|it| it["params"]["update"]["currentModeId"] == "plan");
    assert_eq!(answer("/profile none"), "");
    assert_eq!(answer("/rewind"), "");
    hears(&owner, "agent_thought_chunk", "went back to before: the plan");
    assert!(answer("/fork").contains("forked: s_"));
    let error = other.prompt(&session, "/rename").error();
    assert!(error["message"].as_str().unwrap().contains("needs a title"), "{error}");
    let error = other.prompt(&session, "/resume").error();
    assert!(error["message"].as_str().unwrap().contains("/resume"), "{error}");
}

/// A chat in a pipe, killed when it is dropped.
struct Chat(Child);

impl Chat {
    fn start(test_ws: &TestWorkspace, session: &str) -> Self {
        let model = format!("script:{}", test_ws.base().join("script").display());
        let mut command =
            haft(test_ws, &["--dir", &test_ws.at("").display().to_string(), "--session", session, "chat"]);
        command.args(["--model", &model]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn types(&mut self, line: &str) {
        writeln!(self.0.stdin.as_mut().unwrap(), "{line}").unwrap();
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_session_that_a_chat_runs_is_loaded_prompted_answered_and_stopped() {
    let test_ws = workspace(&[
        json!({"think": "hm", "say": "Typed."}),
        say("From the editor."),
        writes_a_control_file(),
        say("Written."),
        json!({"say": "Slow", "end_ms": 600_000}),
    ]);
    let mut chat = Chat::start(&test_ws, "shared");
    chat.types("hello");
    let client = Client::with(&test_ws, &[], json!({}), choose("allow_once"));
    // The chat has begun once its session is listed.
    let is_there = || {
        let listed = client.ask("session/list", json!({"cwd": test_ws.at("")})).result();
        listed["sessions"].as_array().is_some_and(|it| !it.is_empty())
    };
    let deadline = std::time::Instant::now() + crate::support::TIMEOUT;
    while !is_there() {
        assert!(std::time::Instant::now() < deadline, "the chat does not begin");
        std::thread::yield_now();
    }
    load(&client, &test_ws, "shared");
    hears(&client, "user_message_chunk", "hello");
    hears(&client, "agent_message_chunk", "Typed.");
    hears(&client, "agent_thought_chunk", "hm");
    assert_eq!(client.says("shared", "and you?"), "end_turn");
    assert_eq!(client.text("shared", "agent_message_chunk"), "Typed.From the editor.");
    // The chat in a pipe has nobody who could answer: the editor does.
    chat.types("write it");
    hears(&client, "user_message_chunk", "write it");
    hears(&client, "agent_message_chunk", "Written.");
    assert_eq!(client.asked("session/request_permission").len(), 1);
    assert_eq!(test_ws.text(".envrc"), "export A=1\n");
    chat.types("slowly");
    hears(&client, "agent_message_chunk", "Slow");
    client.notify("session/cancel", json!({"sessionId": "shared"}));
    // The next prompt waits until the turn is over.
    client.ask("session/close", json!({"sessionId": "shared"})).result();
    assert!(chat.0.try_wait().unwrap().is_none(), "closing it in the editor leaves the chat as it is");
}

#[test]
fn a_session_that_another_process_runs_is_not_deleted_and_stays_open() {
    let test_ws = workspace(&[say("First."), say("Second.")]);
    let owner = Client::start(&test_ws);
    let session = owner.session(&test_ws);
    owner.says(&session, "one");
    let other = Client::start(&test_ws);
    load(&other, &test_ws, &session);
    let error = other.ask("session/delete", json!({"sessionId": session})).error();
    assert!(error["message"].as_str().unwrap().contains("process"), "{error}");
    assert_eq!(other.says(&session, "two"), "end_turn");
}

#[test]
fn a_name_that_sessions_of_two_folders_have_is_not_deleted_in_either() {
    let test_ws = workspace(&[say("Done.")]);
    let model = format!("script:{}", test_ws.base().join("script").display());
    let client = Client::start(&test_ws);
    for folder in [test_ws.at(""), test_ws.outside()] {
        let folder = folder.to_str().unwrap();
        let ran =
            haft(&test_ws, &["--dir", folder, "--session", "main", "run", "--model", &model, "go"]).output();
        assert!(ran.unwrap().status.success());
        let listed = client.ask("session/list", json!({"cwd": folder})).result();
        assert_eq!(listed["sessions"][0]["sessionId"], "main", "{listed}");
    }
    let delete = || client.ask("session/delete", json!({"sessionId": "main"}));
    let error = delete().error();
    let outside = test_ws.outside();
    assert!(error["message"].as_str().unwrap().contains(outside.to_str().unwrap()), "{error}");
    let left = |folder: &std::path::Path| {
        let listed = client.ask("session/list", json!({"cwd": folder})).result();
        listed["sessions"].as_array().unwrap().len()
    };
    assert_eq!((left(&test_ws.at("")), left(&outside)), (1, 1));
    // A loaded one is the one that is meant.
    client.ask("session/load", json!({"sessionId": "main", "cwd": outside, "mcpServers": []})).result();
    delete().result();
    assert_eq!((left(&test_ws.at("")), left(&outside)), (1, 0));
}

#[test]
fn a_suspended_owner_is_named_and_its_session_goes_on_once_it_is_continued() {
    let test_ws = workspace(&[say("First."), say("Second."), say("Third.")]);
    let owner = Client::start(&test_ws);
    let session = owner.session(&test_ws);
    owner.says(&session, "one");
    let other = Client::start(&test_ws);
    load(&other, &test_ws, &session);
    let process = rustix::process::Pid::from_raw(i32::try_from(owner.process()).unwrap()).unwrap();
    let send = |signal| rustix::process::kill_process(process, signal).unwrap();
    send(rustix::process::Signal::STOP);
    let fails = |error: Value| {
        let text = error.to_string();
        assert!(text.contains("suspended") && text.contains("kill -CONT"), "{text}");
    };
    fails(other.prompt(&session, "two").error());
    let third = Client::start(&test_ws);
    let params = json!({"sessionId": session, "cwd": test_ws.at(""), "mcpServers": []});
    fails(third.ask("session/load", params).error());
    send(rustix::process::Signal::CONT);
    assert_eq!(other.says(&session, "three"), "end_turn");
}

#[test]
fn a_cancellation_reaches_a_suspended_owner_once_it_is_continued() {
    let script = [call("shell", json!({"command": "sleep 600; touch made"})), say("Never.")];
    let test_ws = workspace(&script);
    let owner = Client::start(&test_ws);
    let session = owner.session(&test_ws);
    let turn = owner.prompt(&session, "go");
    owner.until(|it| it["params"]["update"]["status"] == "in_progress");
    let other = Client::start(&test_ws);
    load(&other, &test_ws, &session);
    let process = rustix::process::Pid::from_raw(i32::try_from(owner.process()).unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::STOP).unwrap();
    other.notify("session/cancel", json!({"sessionId": session}));
    // The next request is read after it.
    other.ask("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).error();
    let store = store::Store::open(
        &test_ws.state(),
        &test_ws.at("."),
        std::sync::Arc::new(kit::redact::Secrets::none()),
    );
    while store.operations().open(0).unwrap().iter().all(|it| !it.body.contains("cancel")) {
        std::thread::yield_now();
    }
    rustix::process::kill_process(process, rustix::process::Signal::CONT).unwrap();
    assert_eq!(turn.result()["stopReason"], "cancelled");
}

#[test]
fn a_load_of_the_session_whose_turn_goes_on_here_is_refused_and_stops_nothing() {
    let test_ws = workspace(&[json!({"say": "Slowly.", "chunks": 2, "chunk_ms": 400})]);
    let client = Client::start(&test_ws);
    let session = client.session(&test_ws);
    let turn = client.prompt(&session, "go");
    hears(&client, "agent_message_chunk", "Slo");
    let params = json!({"sessionId": session, "cwd": test_ws.at(""), "mcpServers": []});
    let error = client.ask("session/load", params.clone()).error();
    assert!(error["message"].as_str().unwrap().contains("a turn goes on"), "{error}");
    assert_eq!(turn.result()["stopReason"], "end_turn");
    client.ask("session/load", params).result();
}
