//! OpenAI's API: a client of it is a front end of haft.

use std::io::Write as _;

use serde_json::{Value, json};

use super::support::{Served, Stage, token, wait_for};

/// Returns the JSON of each event of a stream.
fn events(body: &str) -> Vec<Value> {
    let data = body.lines().filter_map(|it| it.strip_prefix("data: ")).filter(|it| *it != "[DONE]");
    data.map(|it| serde_json::from_str(it).unwrap()).collect()
}

#[track_caller]
fn chat(served: &Served, body: &Value) -> Value {
    let reply = served.ask("say", "POST /v1/chat/completions", body);
    assert_eq!(reply.status, 200, "{reply:?}");
    serde_json::from_str(&reply.body).unwrap()
}

fn says(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

#[test]
fn conversation_of_chat_completions_is_one_session() {
    let stage = Stage::new(&[
        json!({"say": "One.", "calls": [{"tool": "write", "arguments": {"path": "made", "content": "x\n"}}]}),
        json!({"say": "Written.", "usage": {"input": 10, "cached": 0, "kept": 0, "output": 5, "reasoning": 0}}),
        json!({"say": "And two.", "chunks": 3}),
    ]);
    let served = stage.serve();
    let models = served.does(200, "GET /v1/models", &Value::Null);
    assert_eq!(models["data"][0]["id"], "haft");
    let mut messages = vec![says("user", "first")];
    let first = chat(&served, &json!({"model": "haft", "messages": messages, "temperature": 1}));
    let text = first["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!((text, &first["choices"][0]["finish_reason"]), ("One.\n\nWritten.", &json!("stop")));
    assert!(first["usage"]["total_tokens"].as_u64().unwrap() > 0, "{first}");
    assert_eq!(stage.text("made").as_deref(), Some("x\n"));
    messages.extend([says("assistant", text), says("user", "second")]);
    let body = json!({"model": "haft", "messages": messages, "stream": true, "stream_options": {"include_usage": true}});
    let reply = served.ask("say", "POST /v1/chat/completions", &body);
    let chunks = events(&reply.body);
    let text: String = chunks.iter().filter_map(|it| it["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "And two.", "{}", reply.body);
    assert!(chunks.last().unwrap()["usage"]["total_tokens"].is_u64(), "{}", reply.body);
    assert!(reply.body.trim_end().ends_with("data: [DONE]"), "{}", reply.body);
    let sessions = served.get("sessions");
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1, "{sessions}");
    assert_eq!(sessions["sessions"][0]["turns"], 2);
}

#[test]
fn two_folders_of_one_name_are_two_models() {
    let stage = Stage::new(&[json!({"say": "Hello."})]);
    let folders = ["one/project", "two/project"].map(|it| stage.path(it));
    folders.iter().for_each(|it| std::fs::create_dir_all(it).unwrap());
    let [one, two] = folders.each_ref().map(|it| it.to_str().unwrap());
    let served = stage.serve_with(&["--workspace", one, "--workspace", two]);
    let workspaces = served.get("info")["workspaces"].clone();
    let ids = [&workspaces[1]["id"], &workspaces[2]["id"]].map(|it| it.as_str().unwrap());
    let models = served.does(200, "GET /v1/models", &Value::Null);
    let models: Vec<&str> =
        models["data"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    let models: Vec<&str> = models.into_iter().filter(|it| it.ends_with("haft")).collect();
    assert_eq!(models, ["haft", "project/haft", &format!("{}/haft", ids[1])]);
    let by_id = format!("{}/haft", ids[0]);
    for (model, workspace) in [(models[1], ids[0]), (models[2], ids[1]), (&by_id, ids[0])] {
        let before = served.get(&format!("sessions?workspace={workspace}"));
        let before = before["sessions"].as_array().unwrap().len();
        chat(&served, &json!({"model": model, "messages": [says("user", "hi")]}));
        let after = served.get(&format!("sessions?workspace={workspace}"));
        assert_eq!(after["sessions"].as_array().unwrap().len(), before + 1, "{model}");
    }
}

#[test]
fn conversations_of_two_persons_and_two_branches_are_sessions_of_their_own() {
    let stage = Stage::new(&[
        json!({"say": "Hello."}),
        json!({"say": "Hello."}),
        json!({"say": "A."}),
        json!({"say": "B."}),
    ]);
    let served = stage.serve();
    let ask = |role: &str, last: &str, is_first: bool| {
        let mut messages = Vec::new();
        if !is_first {
            messages.extend([says("user", "hi"), says("assistant", "Hello.")]);
        }
        messages.push(says("user", last));
        let body = json!({"model": "haft", "messages": messages, "stream": null, "stream_options": null});
        assert_eq!(served.ask(role, "POST /v1/chat/completions", &body).status, 200);
    };
    ask("own", "hi", true);
    ask("say", "hi", true);
    ask("own", "my own", false);
    ask("own", "another branch", false);
    let sessions = served.get("sessions");
    let mut turns: Vec<u64> =
        sessions["sessions"].as_array().unwrap().iter().map(|it| it["turns"].as_u64().unwrap()).collect();
    turns.sort_unstable();
    assert_eq!(turns, [1, 1, 2], "{sessions}");
}

#[test]
fn wrong_requests_are_answered_as_the_api_does() {
    let served = Stage::new(&[]).serve();
    for (body, status) in [
        (json!({"model": "nobody", "messages": [says("user", "x")]}), 404),
        (json!({"model": "haft", "messages": [says("assistant", "x")]}), 400),
        (json!({"model": "haft", "messages": []}), 400),
        (
            json!({"model": "haft", "messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}]}]}),
            400,
        ),
        (json!({}), 400),
    ] {
        let reply = served.ask("say", "POST /v1/chat/completions", &body);
        let error: Value = serde_json::from_str(&reply.body).unwrap();
        assert!(reply.status == status && error["error"]["message"].is_string(), "{body}: {reply:?}");
    }
}

#[test]
fn response_goes_on_from_the_one_that_it_names() {
    let stage = Stage::new(&[json!({"say": "One."}), json!({"say": "Two.", "chunks": 2})]);
    let served = stage.serve();
    let first = served.does(200, "POST /v1/responses", &json!({"model": "haft", "input": "first"}));
    assert_eq!(first["output"][0]["content"][0]["text"], "One.");
    let body = json!({"model": "haft", "input": [says("user", "second")], "previous_response_id": first["id"], "stream": true});
    let reply = served.ask("say", "POST /v1/responses", &body);
    let all = events(&reply.body);
    let kinds: Vec<&str> = all.iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], *kinds.last().unwrap()), ("response.created", "response.completed"), "{kinds:?}");
    let text: String = all.iter().filter_map(|it| it["delta"].as_str()).collect();
    assert_eq!(text, "Two.");
    let numbers: Vec<u64> = all.iter().map(|it| it["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..all.len() as u64).collect::<Vec<_>>());
    assert_eq!(served.get("sessions")["sessions"].as_array().unwrap().len(), 1);
    served.does(
        404,
        "POST /v1/responses",
        &json!({"model": "haft", "input": "x", "previous_response_id": "resp_no.x"}),
    );
}

#[test]
fn completion_asked_for_again_under_its_key_has_the_same_answer_and_is_one_turn() {
    let stage =
        Stage::new(&[json!({"say": "Once.", "chunks": 2, "chunk_ms": 100}), json!({"say": "Twice?"})]);
    let served = stage.serve();
    let headers = format!(
        "Authorization: Bearer {}\r\nContent-Type: application/json\r\nIdempotency-Key: the-first\r\n",
        token("say")
    );
    let body = json!({"model": "haft", "messages": [says("user", "first")]}).to_string();
    let ask = || {
        let reply = served.raw("POST /v1/chat/completions", &headers, body.as_bytes());
        assert_eq!(reply.status, 200, "{reply:?}");
        serde_json::from_str::<Value>(&reply.body).unwrap()
    };
    // Two at once, and one later.
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let both = [scope.spawn(ask), scope.spawn(ask)];
        both.into_iter().map(|it| it.join().unwrap()).chain([ask()]).collect()
    });
    for answer in &answers {
        assert_eq!(answer["choices"][0]["message"]["content"], "Once.", "{answers:?}");
        assert_eq!(answer["id"], answers[0]["id"]);
    }
    // Another request under the same key is refused, and begins nothing.
    let other = json!({"model": "haft", "messages": [says("user", "other")]}).to_string();
    for line in ["POST /v1/chat/completions", "POST /v1/responses"] {
        let other = if line.ends_with("responses") { r#"{"model":"haft","input":"other"}"# } else { &other };
        let reply = served.raw(line, &headers, other.as_bytes());
        assert!(reply.status == 400 && reply.body.contains("belongs to another request"), "{reply:?}");
    }
    let sessions = served.get("sessions");
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1, "{sessions}");
    assert_eq!(sessions["sessions"][0]["turns"], 1);
}

#[test]
fn completion_with_a_key_goes_on_when_its_client_leaves_and_one_without_is_stopped() {
    for (key, ended) in [("Idempotency-Key: mine\r\n", "done"), ("", "cancelled")] {
        let stage = Stage::new(&[json!({"say": "Once and for all.", "chunks": 4, "chunk_ms": 150})]);
        let served = stage.serve();
        let headers =
            format!("Authorization: Bearer {}\r\nContent-Type: application/json\r\n{key}", token("say"));
        let body = json!({"model": "haft", "stream": true, "messages": [says("user", "first")]}).to_string();
        let mut socket = served.connect();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: {}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            served.address,
            body.len()
        );
        socket.write_all(head.as_bytes()).unwrap();
        let session = wait_for("the session", || {
            served.get("sessions")["sessions"][0]["id"].as_str().map(str::to_owned)
        });
        let mut stream = served.watch(&session, 0);
        stream.until(|row| row.kind() == "text");
        drop(socket);
        let end = stream.until(|row| row.kind() == "turn_ended");
        assert_eq!(end.last().unwrap().event["ended"], ended, "{key}");
        if !key.is_empty() {
            let reply = served.raw("POST /v1/chat/completions", &headers, body.as_bytes());
            assert!(reply.status == 200 && reply.body.contains("[DONE]"), "{reply:?}");
        }
    }
}
