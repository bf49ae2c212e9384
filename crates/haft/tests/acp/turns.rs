//! Turns: updates, permissions, questions, commands, and their end.

use std::{fs, time::Instant};

use serde_json::{Value, json};

use super::support::{Client, call, choose, haft, say, set_script, workspace};
use crate::support::run;

/// One pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

#[test]
fn piped_requests_are_answered_before_the_end() {
    let test_ws = workspace(&[]);
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}});
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "session/list", "params": {}});
    let ran = run(&mut haft(&test_ws, &["acp"]), &format!("{hello}\n{list}\n"));
    let answers: Vec<Value> = ran.out.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let result = |id: u64| answers.iter().find(|it| it["id"] == id).map(|it| it["result"].clone()).unwrap();
    assert_eq!(result(1)["protocolVersion"], 1, "{ran:?}");
    assert_eq!(result(2)["sessions"], json!([]), "{ran:?}");
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn prompts_that_are_sent_at_once_run_in_their_order() {
    let words = ["first", "second", "third", "fourth", "fifth", "sixth"];
    let script: Vec<Value> = words
        .iter()
        .map(|it| {
            let mut answer = say(&format!("to the {it}"));
            answer["expect"] = json!([it]);
            answer
        })
        .collect();
    let test_ws = workspace(&script);
    let client = Client::start(&test_ws);
    let session = client.session(&test_ws);
    let sent: Vec<_> = words.iter().map(|it| client.prompt(&session, it)).collect();
    for (word, turn) in words.iter().zip(sent) {
        assert_eq!(turn.result()["stopReason"], "end_turn", "{word}");
    }
    let shown = client.text(&session, "agent_message_chunk");
    assert_eq!(shown, words.map(|it| format!("to the {it}")).concat(), "{shown}");
    client.end();
}

#[test]
fn initialize_negotiates_the_version_and_offers_what_is_there() {
    let test_ws = workspace(&[]);
    let client = Client::spawn(&mut haft(&test_ws, &["acp"]), |_, _| None);
    let early = client.ask("session/new", json!({"cwd": test_ws.at(""), "mcpServers": []})).error();
    assert_eq!(early["code"], -32600, "{early}");
    let capabilities = json!({"auth": {"terminal": true}});
    let params = json!({"protocolVersion": 7, "clientCapabilities": capabilities});
    let hello = client.ask("initialize", params).result();
    assert_eq!(hello["protocolVersion"], 1);
    let agent = &hello["agentCapabilities"];
    assert_eq!(agent["loadSession"], true);
    assert_eq!(agent["promptCapabilities"]["image"], true);
    assert_eq!(agent["promptCapabilities"]["embeddedContext"], true);
    assert_ne!(agent["promptCapabilities"]["audio"], true);
    for ability in ["list", "delete", "fork", "resume", "close", "additionalDirectories"] {
        assert!(agent["sessionCapabilities"][ability].is_object(), "{ability}: {agent}");
    }
    let methods = hello["authMethods"].as_array().unwrap();
    assert!(methods.iter().any(|it| it["id"] == "api-key"), "{hello}");
    let login = methods.iter().find(|it| it["id"] == "login-anthropic").unwrap();
    assert_eq!((&login["type"], &login["args"]), (&json!("terminal"), &json!(["--login", "anthropic"])));
    for (method, code) in [("session/explode", -32601), ("_x/y", -32601)] {
        assert_eq!(client.ask(method, json!({})).error()["code"], code);
    }
    client.send_line("this is not JSON");
    let refusal = client.until(|it| it.get("error").is_some());
    assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&Value::Null, &json!(-32700)));
    assert_eq!(client.end(), "");
}

#[test]
fn without_a_key_a_session_needs_authentication_and_says_how() {
    let test_ws = workspace(&[]);
    let client = Client::spawn(&mut haft(&test_ws, &["acp"]), |_, _| None);
    client.ask("initialize", json!({"protocolVersion": 1})).result();
    let error = client.ask("session/new", json!({"cwd": test_ws.at(""), "mcpServers": []})).error();
    assert_eq!(error["code"], -32000, "{error}");
    let error = client.ask("authenticate", json!({"methodId": "api-key"})).error();
    assert!(error["message"].as_str().unwrap().contains("haft login anthropic"), "{error}");
    assert_eq!(client.ask("authenticate", json!({"methodId": "x"})).error()["code"], -32602);
    let with_key = Client::spawn(haft(&test_ws, &["acp"]).env("ANTHROPIC_API_KEY", "sk-x"), |_, _| None);
    with_key.ask("initialize", json!({"protocolVersion": 1})).result();
    with_key.ask("authenticate", json!({"methodId": "api-key"})).result();
}

#[test]
fn a_turn_tells_thoughts_text_calls_diffs_usage_and_title() {
    let test_ws = workspace(&[
        json!({"think": "first I look", "say": "I read it.", "usage": {"input": 100, "cached": 0, "kept": 0, "output": 7, "reasoning": 0},
            "calls": [{"tool": "read", "arguments": {"path": "a.txt"}}]}),
        call("edit", json!({"path": "a.txt", "old": "two", "new": "2"})),
        say("Done."),
    ]);
    test_ws.put("a.txt", "one\ntwo\n");
    let client = Client::start(&test_ws);
    let session = client.session(&test_ws);
    assert_eq!(client.says(&session, "change two to 2"), "end_turn");
    assert_eq!(test_ws.text("a.txt"), "one\n2\n");
    assert_eq!(client.text(&session, "agent_thought_chunk"), "first I look");
    assert_eq!(client.text(&session, "agent_message_chunk"), "I read it.Done.");
    let chunks = client.of_kind(&session, "agent_message_chunk");
    assert!(chunks.iter().all(|it| it["messageId"].is_string()), "{chunks:?}");
    assert_ne!(chunks[0]["messageId"], chunks[1]["messageId"]);

    let calls = client.calls(&session);
    let path = test_ws.at("a.txt");
    let kinds: Vec<(&Value, &Value)> = calls.iter().map(|it| (&it["kind"], &it["title"])).collect();
    assert_eq!(kinds, [(&json!("read"), &json!("read a.txt")), (&json!("edit"), &json!("edit a.txt"))]);
    assert!(calls.iter().all(|it| it["locations"][0]["path"] == json!(path)), "{calls:?}");
    assert_eq!(calls[1]["rawInput"], json!({"path": "a.txt", "old": "two", "new": "2"}));
    let (read, edited) = (&calls[0], &calls[1]);
    let diff = json!({"type": "diff", "path": path, "oldText": "one\ntwo\n", "newText": "one\n2\n"});
    assert_eq!((&edited["status"], &edited["content"]), (&json!("completed"), &json!([diff])));
    assert!(read["content"][0]["content"]["text"].as_str().unwrap().contains("|one"), "{read}");

    let usage = client.of_kind(&session, "usage_update");
    assert_eq!((&usage[0]["size"], &usage[0]["cost"]["currency"]), (&json!(200_000), &json!("USD")));
    assert_eq!(client.of_kind(&session, "session_info_update")[0]["title"], "change two to 2");
    let error = client.prompt("nobody", "x").error();
    assert_eq!(error["code"], -32002, "{error}");
}

#[test]
fn a_call_is_pending_while_the_model_writes_it_then_in_progress_then_over() {
    let read = json!({"calls": [{"tool": "read", "arguments": {"path": "a.txt"}}], "end_ms": 60_000});
    let test_ws = workspace(&[call("read", json!({"path": "a.txt"})), read]);
    test_ws.put("a.txt", "one\n");
    let client = Client::start(&test_ws);
    let session = client.session(&test_ws);
    let turn = client.prompt(&session, "read it twice");
    let is_done = |it: &Value| it["params"]["update"]["status"] == "completed";
    client.until(is_done);
    let id = client.calls(&session)[0]["toolCallId"].clone();
    let states: Vec<Value> =
        client.updates(&session).into_iter().filter(|it| it["toolCallId"] == id).collect();
    let kinds: Vec<(&Value, &Value)> =
        states.iter().map(|it| (&it["sessionUpdate"], &it["status"])).collect();
    let (call, update) = (json!("tool_call"), json!("tool_call_update"));
    // Pending is what a call is whose status is left out.
    let (pending, running, completed) = (Value::Null, json!("in_progress"), json!("completed"));
    assert_eq!(kinds, [(&call, &pending), (&update, &running), (&update, &completed)], "{states:#?}");
    assert_eq!((&states[0]["title"], &states[0]["kind"]), (&json!("read"), &json!("read")));
    assert!(states[0].get("rawInput").is_none());
    assert_eq!(states[1]["rawInput"], json!({"path": "a.txt"}));
    assert_eq!(states[1]["locations"][0]["path"], json!(test_ws.at("a.txt")));
    client.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(turn.result()["stopReason"], "cancelled");
    let open: Vec<Value> = client
        .calls(&session)
        .into_iter()
        .filter(|it| it["status"] != "completed" && it["status"] != "failed")
        .collect();
    assert!(open.is_empty(), "{open:#?}");
}

#[test]
fn the_model_s_list_of_tasks_is_a_plan() {
    let tasks = json!({"action": "set", "tasks": ["look", "change"]});
    let test_ws = workspace(&[
        call("todo", tasks),
        call("todo", json!({"action": "update", "task": 1, "status": "in_progress"})),
        say("Planned."),
    ]);
    let client = Client::start(&test_ws);
    let session = client.session(&test_ws);
    assert_eq!(client.says(&session, "plan it"), "end_turn");
    let plans = client.of_kind(&session, "plan");
    let entry =
        |content: &str, status: &str| json!({"content": content, "priority": "medium", "status": status});
    assert_eq!(plans[0]["entries"], json!([entry("look", "pending"), entry("change", "pending")]));
    assert_eq!(plans[1]["entries"], json!([entry("look", "in_progress"), entry("change", "pending")]));
}

#[test]
fn permission_is_asked_with_once_session_project_and_reject() {
    let script =
        [call("http_request", json!({"url": "http://203.0.113.1/", "method": "POST"})), say("Over.")];
    let test_ws = workspace(&script);
    let client = Client::with(&test_ws, &[], json!({}), choose("reject_once"));
    let session = client.session(&test_ws);
    assert_eq!(client.says(&session, "send it"), "end_turn");
    let asked = client.asked("session/request_permission");
    assert_eq!(asked.len(), 1, "{asked:?}");
    let params = &asked[0]["params"];
    assert_eq!(params["sessionId"], json!(session));
    let options = params["options"].as_array().unwrap();
    let kinds: Vec<&str> = options.iter().map(|it| it["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["allow_once", "allow_always", "allow_always", "reject_once"]);
    assert!(options[2]["name"].as_str().unwrap().contains("project: net 203.0.113.1"), "{options:?}");
    let call = &client.of_kind(&session, "tool_call")[0];
    assert_eq!(params["toolCall"]["toolCallId"], call["toolCallId"], "the call was told before");
    let ended = &client.calls(&session)[0];
    assert_eq!(ended["status"], "failed", "{ended}");
}

#[test]
fn answer_to_a_permission_that_can_t_be_read_is_a_no_and_the_person_is_asked_again() {
    let request = || call("http_request", json!({"url": "http://203.0.113.1/", "method": "POST"}));
    let test_ws = workspace(&[request(), request(), say("Over.")]);
    let client = Client::with(&test_ws, &[], json!({}), |_, _| Some(json!({"outcome": "sure"})));
    let session = client.session(&test_ws);
    assert_eq!(client.says(&session, "send it"), "end_turn");
    assert_eq!(client.asked("session/request_permission").len(), 2);
    let calls = client.calls(&session);
    assert!(calls.iter().all(|it| it["status"] == "failed"), "{calls:?}");
}

#[test]
fn what_is_allowed_for_a_session_is_not_asked_again() {
    let request = || call("shell", json!({"command": "rm -rf build"}));
    let test_ws = workspace(&[request(), request(), say("Over.")]);
    let client = Client::with(&test_ws, &["--sandbox", "full"], json!({}), choose("allow_always"));
    let session = client.session(&test_ws);
    assert_eq!(client.says(&session, "clean up"), "end_turn");
    assert_eq!(client.asked("session/request_permission").len(), 1);
    let ended = client.of_kind(&session, "tool_call_update");
    assert!(ended.iter().filter(|it| it["status"] == "completed").count() >= 2, "{ended:?}");
}

#[test]
fn cancel_ends_a_turn_and_takes_its_question_back() {
    let script =
        [call("http_request", json!({"url": "http://203.0.113.1/", "method": "POST"})), say("Over.")];
    let test_ws = workspace(&script);
    let client = Client::start(&test_ws);
    let session = client.session(&test_ws);
    let turn = client.prompt(&session, "send it");
    let question = client.until(|it| it["method"] == "session/request_permission");
    let began = Instant::now();
    client.notify("session/cancel", json!({"sessionId": session}));
    let (at, answer) = turn.wait();
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    // The promise is 200 ms; the machine may be busy with other tests.
    assert!((at - began).as_millis() < 1_000, "{:?}", at - began);
    let back = client.until(|it| it["method"] == "$/cancel_request");
    assert_eq!(back["params"]["requestId"], question["id"]);
    client.answer(&question["id"], json!({"outcome": {"outcome": "cancelled"}}));
    set_script(&test_ws, &[say("a"), say("Again.")]);
    let other = client.session(&test_ws);
    assert_eq!(client.says(&other, "hello"), "end_turn");
}

#[test]
fn cancel_request_ends_a_turn_as_cancelled_too() {
    let test_ws = workspace(&[json!({"say": "slow", "after_ms": 60_000})]);
    let client = Client::start(&test_ws);
    let session = client.session(&test_ws);
    let prompt = json!([{"type": "text", "text": "x"}]);
    let (id, turn) = client.ask_with_id("session/prompt", json!({"sessionId": session, "prompt": prompt}));
    client.notify("$/cancel_request", json!({"requestId": id}));
    assert_eq!(turn.result()["stopReason"], "cancelled");
}

#[test]
fn a_question_of_the_model_is_a_form_or_a_choice() {
    let question = call("ask_user", json!({"question": "Which branch?", "options": ["main", "dev"]}));
    let script = [question, json!({"expect": ["dev"], "say": "Taken."})];
    let test_ws = workspace(&script);
    let by_choice = Client::with(&test_ws, &[], json!({}), |method, params| {
        assert_eq!(method, "session/request_permission");
        let option = params["options"].as_array()?.iter().find(|it| it["name"] == "dev")?;
        Some(json!({"outcome": {"outcome": "selected", "optionId": option["optionId"]}}))
    });
    let session = by_choice.session(&test_ws);
    assert_eq!(by_choice.says(&session, "go"), "end_turn");
    assert_eq!(by_choice.text(&session, "agent_message_chunk"), "Taken.");

    let by_form = Client::with(&test_ws, &[], json!({"elicitation": {"form": {}}}), |method, params| {
        assert_eq!(method, "elicitation/create");
        assert_eq!(params["mode"], "form");
        Some(json!({"action": "accept", "content": {"choice": "2"}}))
    });
    let session = by_form.session(&test_ws);
    assert_eq!(by_form.says(&session, "go"), "end_turn");
    assert_eq!(by_form.text(&session, "agent_message_chunk"), "Taken.");
    let form = &by_form.asked("elicitation/create")[0]["params"];
    let call = &by_form.of_kind(&session, "tool_call")[0];
    assert_eq!((&form["sessionId"], &form["toolCallId"]), (&json!(session), &call["toolCallId"]));
}

#[test]
fn prompts_carry_pictures_embedded_texts_and_links() {
    let test_ws = workspace(&[
        json!({"expect": ["look at `src/a.rs`", "<file name=\"notes.md\"", "remember this", "[picture out_"], "say": "Seen."}),
    ]);
    let client = Client::start(&test_ws);
    let session = client.session(&test_ws);
    let uri = |path: &str| format!("file://{}", test_ws.at(path).display());
    let prompt = json!([
        {"type": "text", "text": "look at "},
        {"type": "resource_link", "name": "a.rs", "uri": uri("src/a.rs")},
        {"type": "resource", "resource": {"uri": uri("notes.md"), "text": "remember this"}},
        {"type": "image", "mimeType": "image/png", "data": PNG},
    ]);
    let answer = client.ask("session/prompt", json!({"sessionId": session, "prompt": prompt})).result();
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(client.text(&session, "agent_message_chunk"), "Seen.");
    let audio = json!([{"type": "audio", "mimeType": "audio/wav", "data": ""}]);
    let error = client.ask("session/prompt", json!({"sessionId": session, "prompt": audio})).error();
    assert_eq!(error["code"], -32602, "{error}");
}

#[test]
fn slash_commands_are_offered_and_can_be_sent() {
    let test_ws = workspace(&[json!({"expect": ["Review a.txt closely."], "say": "Reviewed."})]);
    fs::create_dir_all(test_ws.config().join("commands")).unwrap();
    let text = "---\ndescription: Review a file\nargument-hint: FILE\n---\nReview $ARGUMENTS closely.\n";
    fs::write(test_ws.config().join("commands/review.md"), text).unwrap();
    let client = Client::start(&test_ws);
    let session = client.session(&test_ws);
    let update = client.until(|it| it["params"]["update"]["sessionUpdate"] == "available_commands_update");
    let commands = update["params"]["update"]["availableCommands"].as_array().unwrap().clone();
    let review = commands.iter().find(|it| it["name"] == "review").unwrap();
    assert_eq!(review["input"]["hint"], "FILE", "{review}");
    assert!(commands.iter().any(|it| it["name"] == "context"), "{commands:?}");
    assert_eq!(client.says(&session, "/review a.txt"), "end_turn");
    assert_eq!(client.text(&session, "agent_message_chunk"), "Reviewed.");
    assert_eq!(client.says(&session, "/context"), "end_turn");
    assert!(client.text(&session, "agent_message_chunk").contains("tokens"));
    let error = client.prompt(&session, "/revew a.txt").error();
    assert!(error["message"].as_str().unwrap().contains("/review"), "{error}");
}

#[test]
fn limits_and_refusals_have_their_stop_reasons() {
    let looped = |at: usize| call("read", json!({"path": format!("{at}.txt")}));
    let script: Vec<Value> = (0..6).map(looped).collect();
    let test_ws = workspace(&script);
    let model = format!("script:{}", test_ws.base().join("script").display());
    let mut command = haft(&test_ws, &["acp", "--model", &model, "--max-steps", "2"]);
    let client = Client::spawn(&mut command, |_, _| None);
    client.ask("initialize", json!({"protocolVersion": 1})).result();
    let session = client.session(&test_ws);
    assert_eq!(client.says(&session, "go on"), "max_turn_requests");
    set_script(&test_ws, &[json!({"say": "No.", "end": "refused"})]);
    let session = client.session(&test_ws);
    assert_eq!(client.says(&session, "do harm"), "refusal");
    let cut: Vec<Value> = (0..3).map(|_| json!({"say": "long", "end": "length"})).collect();
    set_script(&test_ws, &cut);
    let client = Client::start(&test_ws);
    let session = client.session(&test_ws);
    assert_eq!(client.says(&session, "write much"), "max_tokens");
}

#[test]
fn a_sub_agent_s_permission_is_asked_in_the_session_of_its_parent() {
    let test_ws =
        workspace(&[call("subagent", json!({"prompt": "post it", "profile": "poster"})), say("All done.")]);
    fs::create_dir_all(test_ws.config().join("agents")).unwrap();
    let below = test_ws.base().join("below");
    let posts = call("http_request", json!({"url": "http://203.0.113.1/", "method": "POST"}));
    fs::write(&below, format!("{posts}\n{}\n", say("posted"))).unwrap();
    let profile = format!("---\ndescription: Posts\nmodel: script:{}\n---\nPost it.\n", below.display());
    fs::write(test_ws.config().join("agents/poster.md"), profile).unwrap();
    let client = Client::with(&test_ws, &[], json!({}), choose("reject_once"));
    let session = client.session(&test_ws);
    assert_eq!(client.says(&session, "post"), "end_turn");
    let asked = client.asked("session/request_permission");
    assert_eq!(asked.len(), 1, "{:#?}", client.updates(&session));
    assert_eq!(asked[0]["params"]["sessionId"], json!(session));
    let nested = client.of_kind(&session, "tool_call");
    let nested = nested.iter().find(|it| it["_meta"]["haft"]["agent"].is_string()).unwrap();
    assert_eq!(nested["toolCallId"], asked[0]["params"]["toolCall"]["toolCallId"]);
}
