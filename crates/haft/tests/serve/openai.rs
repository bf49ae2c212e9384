//! OpenAI's API: a client of it is a front end of haft.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    thread,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::support::{Served, Stage, token, wait_for};
use crate::http::support::rest;

/// Returns the JSON of each event of a stream.
pub(super) fn events(body: &str) -> Vec<Value> {
    let data = body.lines().filter_map(|it| it.strip_prefix("data: ")).filter(|it| *it != "[DONE]");
    data.map(|it| serde_json::from_str(it).unwrap()).collect()
}

/// A stream that is read line by line.
pub(super) struct Streaming(BufReader<TcpStream>);

impl Streaming {
    pub(super) fn begin(served: &Served, line: &str, mut body: Value) -> Self {
        body["stream"] = true.into();
        let body = body.to_string();
        let mut socket = served.connect();
        let head = format!(
            "POST {line} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            served.address,
            token("say"),
            body.len()
        );
        socket.write_all(head.as_bytes()).unwrap();
        Self(BufReader::new(socket))
    }

    /// Returns the text up to a line that has this.
    #[track_caller]
    pub(super) fn until(&mut self, has: &str) -> String {
        let mut all = String::new();
        while !all.lines().last().is_some_and(|it| it.contains(has)) {
            assert!(self.0.read_line(&mut all).unwrap() > 0, "no `{has}` in {all}");
        }
        all
    }

    pub(super) fn rest(mut self) -> String {
        let mut all = String::new();
        self.0.read_to_string(&mut all).unwrap();
        all
    }
}

/// Returns the text of the chunks.
pub(super) fn text_of(body: &str) -> String {
    events(body).iter().filter_map(|it| it["choices"][0]["delta"]["content"].as_str()).collect()
}

#[track_caller]
pub(super) fn chat(served: &Served, body: &Value) -> Value {
    let reply = served.ask("say", "POST /v1/chat/completions", body);
    assert_eq!(reply.status, 200, "{reply:?}");
    serde_json::from_str(&reply.body).unwrap()
}

pub(super) fn says(role: &str, text: &str) -> Value {
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
    let part = |part: Value| json!({"model": "haft", "messages": [{"role": "user", "content": [part]}]});
    for (body, status, says_so) in [
        (json!({"model": "nobody", "messages": [says("user", "x")]}), 404, "`nobody`"),
        (json!({"model": "haft", "messages": [says("system", "x")]}), 400, "`system`"),
        (json!({"model": "haft", "messages": []}), 400, "`none`"),
        (json!({"model": "haft", "messages": [says("user", " ")], "stream": true}), 400, "empty"),
        (
            part(json!({"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}})),
            400,
            "http://127.0.0.1/x.png",
        ),
        (
            part(json!({"type": "input_audio", "input_audio": {"data": "", "format": "wav"}})),
            400,
            "`input_audio`",
        ),
        (part(json!({"type": "file", "file": {"file_data": ""}})), 400, "`file`"),
        (json!({}), 400, "model"),
    ] {
        let reply = served.ask("say", "POST /v1/chat/completions", &body);
        let error: Value = serde_json::from_str(&reply.body).unwrap();
        let message = error["error"]["message"].as_str().unwrap();
        assert!(reply.status == status && message.contains(says_so), "{body}: {reply:?}");
    }
    let input = json!([{"role": "user", "content": [{"type": "input_file", "file_data": "x"}]}]);
    let reply = served.ask("say", "POST /v1/responses", &json!({"model": "haft", "input": input}));
    assert!(reply.status == 400 && reply.body.contains("`input_file`"), "{reply:?}");
}

#[test]
fn wrong_host_and_wrong_token_have_the_shape_of_the_api() {
    let served = Stage::new(&[]).serve();
    let mut socket = served.connect();
    let head = format!(
        "GET /v1/models HTTP/1.1\r\nHost: host.docker.internal:8723\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        token("say")
    );
    socket.write_all(head.as_bytes()).unwrap();
    let by_host = rest(&mut socket);
    let by_token = served.raw("GET /v1/models", "Authorization: Bearer token-of-nobody-0123456789\r\n", b"");
    for (reply, status, says_so) in
        [(by_host, 403, "--public"), (by_token, 401, "no token that this server knows")]
    {
        let error: Value = serde_json::from_str(&reply.body).unwrap();
        let error = &error["error"];
        assert!(reply.status == status && error["message"].as_str().unwrap().contains(says_so), "{reply:?}");
        assert_eq!(error["type"], "invalid_request_error");
        assert_eq!(error["code"], "denied");
    }
}

#[test]
fn wrong_key_of_the_provider_is_named_with_what_helps() {
    let stage = Stage::new(&[json!({"fault": "auth"}), json!({"say": "One."})]);
    let served = stage.serve();
    let body = json!({"model": "haft", "messages": [says("user", "first")]});
    let reply = served.ask("say", "POST /v1/chat/completions", &body);
    assert!(reply.status == 503 && reply.body.contains("haft login"), "{reply:?}");
    assert!(!reply.body.contains("in a moment"), "{reply:?}");
}

#[test]
fn server_that_ends_says_that_answers_are_cut() {
    let stage = Stage::new(&[json!({"say": "word ".repeat(100), "chunks": 100, "chunk_ms": 100})]);
    for path in ["/v1/chat/completions", "/v1/responses"] {
        let mut served = stage.serve();
        let (name, value) = match path {
            "/v1/responses" => ("input", json!("first")),
            _ => ("messages", json!([says("user", "first")])),
        };
        let body = json!({"model": "haft", name: value});
        let mut stream = Streaming::begin(&served, path, body.clone());
        stream.until("word");
        let end = Pid::from_raw(served.pid().try_into().unwrap()).unwrap();
        let (rest, whole) = thread::scope(|scope| {
            let whole = scope.spawn(|| served.ask("own", &format!("POST {path}"), &body));
            wait_for("both turns", || {
                let all = served.get("sessions");
                let of = |it: &&Value| it["turn"].is_object();
                (all["sessions"].as_array().unwrap().iter().filter(of).count() == 2).then_some(())
            });
            kill_process(end, Signal::TERM).unwrap();
            (stream.rest(), whole.join().unwrap())
        });
        assert!(rest.contains("haft ends") && rest.contains("error"), "{rest}");
        assert!(!rest.contains("\"stop\"") && !rest.contains("response.completed"), "{rest}");
        let error: Value = serde_json::from_str(&whole.body).unwrap();
        assert!(whole.status == 503 && error["error"]["type"] == "server_error", "{whole:?}");
        served.wait();
    }
}

#[test]
fn answer_that_the_provider_cut_is_in_the_whole_answer_once() {
    let stage = Stage::new(&[
        json!({"say": "One.\n\n", "calls": [{"tool": "write", "arguments": {"path": "made", "content": "x\n"}}]}),
        json!({"fault": "cut"}),
        json!({"say": "abcdefgh", "chunks": 4}),
    ]);
    let served = stage.serve();
    let answer = chat(&served, &json!({"model": "haft", "messages": [says("user", "first")]}));
    // One empty line between the texts, also where the first one ends with it.
    assert_eq!(answer["choices"][0]["message"]["content"], "One.\n\nabcdefgh");
}

#[test]
fn stream_says_that_a_call_waits_for_a_decision_and_keeps_the_connection_busy() {
    let stage = Stage::new(&[
        json!({"say": "Now.", "calls": [{"tool": "write", "arguments": {"path": ".envrc", "content": "A=1\n"}}]}),
        json!({"say": "Written."}),
        json!({"say": "Next."}),
    ]);
    let tokens = stage.path("tokens");
    let mut haft = stage.haft(&["--addr", "127.0.0.1:0", "--tokens", tokens.to_str().unwrap()]);
    // The last number is four times the silence after which a comment is sent.
    let served = Served::start(haft.env("HAFT_SERVE_LIMITS", "256,128,800"));
    let mut messages = vec![says("user", "first")];
    let mut stream =
        Streaming::begin(&served, "/v1/chat/completions", json!({"model": "haft", "messages": messages}));
    let mut body = stream.until("waits for a decision");
    assert!(
        body.contains(&format!("`write` waits for a decision: http://{}/#/approvals", served.address)),
        "{body}"
    );
    assert!(!body.contains("token"), "{body}");
    body += &stream.until(": waiting");
    let session = served.get("sessions")["sessions"][0]["id"].as_str().unwrap().to_owned();
    let approval = served.approval(&session);
    let line = format!("POST /api/v1/sessions/{session}/approvals/{}", approval["id"].as_str().unwrap());
    served.does(200, &line, &json!({"decision": "once", "hash": approval["hash"]}));
    body += &stream.rest();
    let text = text_of(&body);
    assert!(text.starts_with("Now.\n\n> haft: ") && text.ends_with("\n\nWritten."), "{text}");
    messages.extend([says("assistant", &text), says("user", "second")]);
    chat(&served, &json!({"model": "haft", "messages": messages}));
    assert_eq!(served.get("sessions")["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn text_model_has_no_tools_and_leaves_no_session() {
    let call = json!({"tool": "write", "arguments": {"path": "made", "content": "x\n"}});
    let stage =
        Stage::new(&[json!({"expect": ["### Task:"], "say": "A title", "chunks": 3, "calls": [call]})]);
    let served = stage.serve();
    let models = served.does(200, "GET /v1/models", &Value::Null);
    let models = models["data"].as_array().unwrap().clone();
    assert!(models.iter().any(|it| it["id"] == "haft-text"), "{models:?}");
    let messages = json!([says("system", "Be short."), says("user", "### Task:\nGive a title.")]);
    let body = json!({"model": "haft-text", "messages": messages});
    let whole = chat(&served, &body);
    assert_eq!(whole["choices"][0]["message"]["content"], "A title");
    assert!(whole["usage"]["total_tokens"].as_u64().unwrap() > 0, "{whole}");
    let streamed = Streaming::begin(&served, "/v1/chat/completions", body).rest();
    assert_eq!(text_of(&streamed), "A title", "{streamed}");
    assert!(streamed.contains("\"stop\"") && streamed.contains("[DONE]"), "{streamed}");
    for archived in ["false", "true"] {
        let sessions = served.get(&format!("sessions?archived={archived}"));
        assert_eq!(sessions["sessions"], json!([]));
    }
    assert_eq!(stage.text("made"), None);
    let body = json!({"model": "haft-text", "input": "x"});
    assert_eq!(served.ask("say", "POST /v1/responses", &body).status, 400);
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
