//! Replay of a loaded session: the same as when it happened, also after its process was killed in the middle.

use std::fs;

use serde_json::{Value, json};

use super::support::{Client, call, say, set_script, workspace};
use crate::support::TestWorkspace;

fn load(client: &Client, test_ws: &TestWorkspace, session: &str) {
    let params = json!({"sessionId": session, "cwd": test_ws.at(""), "mcpServers": []});
    client.ask("session/load", params).result();
}

/// Returns the messages and calls of a session, without the person's messages, which their own editor does not get live.
fn by_the_agent(client: &Client, session: &str) -> Vec<Value> {
    client.told(session).into_iter().filter(|it| it["kind"] != "user_message_chunk").collect()
}

/// A workspace in which a model starts a sub-agent that says something.
fn with_sub_agent() -> TestWorkspace {
    let test_ws = workspace(&[
        json!({"think": "somebody else may look", "say": "I ask.", "chunks": 4,
            "calls": [{"tool": "subagent", "arguments": {"prompt": "look", "profile": "looker"}}]}),
        json!({"think": "now I know", "calls": [
            {"tool": "edit", "arguments": {"path": "a.txt", "old": "two", "new": "2"}},
            {"tool": "read", "arguments": {"path": "nowhere.txt"}},
        ]}),
        json!({"say": "Changed, `as you said`.\n\n```\nx\n```\n", "chunks": 7}),
        say("Again."),
    ]);
    test_ws.put("a.txt", "one\ntwo\n");
    fs::create_dir_all(test_ws.config().join("agents")).unwrap();
    let below = test_ws.base().join("below");
    let reads =
        json!({"say": "I read it first.", "calls": [{"tool": "read", "arguments": {"path": "a.txt"}}]});
    fs::write(&below, format!("{reads}\n{}\n", say("It has two lines."))).unwrap();
    let profile = format!("---\ndescription: Looks\nmodel: script:{}\n---\nLook.\n", below.display());
    fs::write(test_ws.config().join("agents/looker.md"), profile).unwrap();
    test_ws
}

#[test]
fn thoughts_texts_calls_diffs_and_sub_agents_are_replayed_as_they_were_told() {
    let test_ws = with_sub_agent();
    let client = Client::start(&test_ws);
    let session = client.session(&test_ws);
    assert_eq!(client.says(&session, "change it"), "end_turn");
    let live = by_the_agent(&client, &session);
    assert_eq!(client.text(&session, "agent_thought_chunk"), "somebody else may looknow I know");
    let agent = live.iter().find(|it| it["toolCallId"].as_str().is_some_and(|it| it.starts_with("agent-")));
    let agent = agent.unwrap_or_else(|| panic!("the sub-agent is no call: {live:#?}"));
    assert!(agent["_meta"]["haft"]["agent"].as_str().unwrap().starts_with("looker"), "{agent}");
    assert_eq!(agent["content"][0]["content"]["text"], "I read it first.\n\nIt has two lines.");
    assert_eq!((&agent["status"], &agent["kind"]), (&json!("completed"), &json!("think")));
    client.end();

    let client = Client::start(&test_ws);
    load(&client, &test_ws, &session);
    assert_eq!(client.text(&session, "user_message_chunk"), "change it");
    let again = by_the_agent(&client, &session);
    assert_eq!(again, live);
    // The script goes on behind the answers that the conversation has.
    assert_eq!(client.says(&session, "again"), "end_turn");
    assert!(client.text(&session, "agent_message_chunk").ends_with("Again."));
}

#[test]
fn a_turn_whose_process_was_killed_is_there_as_far_as_it_was_told_and_nothing_twice() {
    let test_ws = workspace(&[
        json!({"think": "I look first", "say": "I look.", "calls": [{"tool": "read", "arguments": {"path": "a.txt"}}]}),
        json!({"say": "one two three four five six seven eight nine ten", "chunks": 10, "end_ms": 600_000}),
    ]);
    test_ws.put("a.txt", "one\n");
    let client = Client::start(&test_ws);
    let session = client.session(&test_ws);
    let _turn = client.prompt(&session, "go");
    has_said(&client, &session, "ten");
    let live = by_the_agent(&client, &session);
    client.kill();

    let again = || say("Here again.");
    set_script(&test_ws, &[again(), again(), again(), again()]);
    let client = Client::start(&test_ws);
    load(&client, &test_ws, &session);
    assert_eq!(client.text(&session, "user_message_chunk"), "go");
    assert_eq!(by_the_agent(&client, &session), live);
    assert_eq!(
        client.text(&session, "agent_message_chunk"),
        "I look.one two three four five six seven eight nine ten"
    );
    assert_eq!(client.says(&session, "are you there?"), "end_turn");
    client.end();

    let client = Client::start(&test_ws);
    load(&client, &test_ws, &session);
    assert_eq!(client.text(&session, "user_message_chunk"), "goare you there?");
    assert_eq!(
        client.text(&session, "agent_message_chunk"),
        "I look.one two three four five six seven eight nine tenHere again."
    );
}

/// Waits until the last chunk of the agent's text ends so.
fn has_said(client: &Client, session: &str, word: &str) {
    client.until(|it| {
        let update = &it["params"]["update"];
        it["params"]["sessionId"] == session
            && update["sessionUpdate"] == "agent_message_chunk"
            && update["content"]["text"].as_str().is_some_and(|it| it.ends_with(word))
    });
}

#[test]
fn messages_that_were_taken_back_are_not_replayed() {
    let test_ws = workspace(&[say("First."), say("Second."), say("Third.")]);
    let client = Client::start(&test_ws);
    let session = client.session(&test_ws);
    client.says(&session, "one");
    client.says(&session, "/context");
    client.says(&session, "two");
    client.end();
    let model = format!("script:{}", test_ws.base().join("script").display());
    let ran = crate::support::run(
        &mut test_ws.haft(&["chat", "--resume", "--session", &session, "--model", &model]),
        "/rewind\n",
    );
    assert!(ran.out.contains("Went back"), "{ran:?}");
    let client = Client::start(&test_ws);
    load(&client, &test_ws, &session);
    assert_eq!(client.text(&session, "user_message_chunk"), "one/context");
    let said = client.text(&session, "agent_message_chunk");
    assert!(said.starts_with("First.") && !said.contains("Second."), "{said}");
}

#[test]
fn a_call_that_nobody_ended_is_closed_by_the_next_process() {
    let test_ws = workspace(&[call("shell", json!({"command": "sleep 600"})), say("x")]);
    let client = Client::start(&test_ws);
    let session = client.session(&test_ws);
    let _turn = client.prompt(&session, "wait");
    client.until(|it| it["params"]["update"]["status"] == "in_progress");
    client.kill();
    let client = Client::start(&test_ws);
    load(&client, &test_ws, &session);
    let calls = client.calls(&session);
    assert_eq!(calls.len(), 1, "{calls:#?}");
    assert_eq!(calls[0]["status"], "failed", "{calls:#?}");
}
