//! Errors of the API: each says what happened, and what to do next.

use serde_json::{Value, json};

use super::support::{Served, Stage};

#[track_caller]
fn check(served: &Served, line: &str, body: &Value) {
    let reply = served.ask("own", line, body);
    if reply.status < 400 {
        return;
    }
    let error: Value =
        serde_json::from_str(&reply.body).unwrap_or_else(|_| panic!("{line} {body}: {reply:?}"));
    let error = &error["error"];
    // OpenAI's shape has one text.
    if line.contains(" /v1/") {
        let text = error["message"].as_str().unwrap_or_default();
        assert!(text.contains(". "), "{line} {body}: {error}");
        return;
    }
    for field in ["kind", "what", "next"] {
        let text = error[field].as_str().unwrap_or_default();
        assert!(!text.is_empty(), "{line} {body}: `{field}` is missing in {error}");
    }
}

#[test]
fn every_error_names_the_next_step() {
    let stage = Stage::new(&[json!({"say": "Hello."})]);
    let served = stage.serve();
    let session = served.begin("hello");
    served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    let described = served.get("openapi.json");
    let mut errors = 0;
    let all = described["paths"].as_object().unwrap();
    // MCP has errors of its own, and the list's stream no end.
    for (path, methods) in all.iter().filter(|it| !["/api/v1/events", "/mcp"].contains(&it.0.as_str())) {
        for method in methods.as_object().unwrap().keys().map(|it| it.to_uppercase()) {
            // Streams have no end, and a deleted session no operations.
            let is_left = path.ends_with("/events") || (method == "DELETE" && path.ends_with("{session}"));
            for of in ["nothing", &session].into_iter().filter(|it| *it == "nothing" || !is_left) {
                let path = path.replace("{session}", of).replace(['{', '}'], "");
                for body in [json!({}), json!([]), json!({"no such field": 1})] {
                    check(&served, &format!("{method} {path}"), &body);
                    errors += 1;
                }
            }
        }
    }
    assert!(errors > 200, "{errors}");
    let of_session = |rest: &str| format!("GET /api/v1/sessions/{session}/{rest}");
    for line in [
        of_session("rows?masked=1"),
        of_session("rows?after=x"),
        of_session("report?kind=x"),
        of_session("diff?against=x"),
        "GET /api/v1/files?path=nothing".to_owned(),
        "GET /api/v1/files?path=/etc".to_owned(),
        "GET /api/v1/files/raw?path=nothing&workspace=x".to_owned(),
        "GET /api/v1/nothing".to_owned(),
        "PUT /api/v1/info".to_owned(),
        "GET /assets/nothing.js".to_owned(),
        "GET /api/v1/info?token=x".to_owned(),
    ] {
        assert!(served.ask("own", &line, &Value::Null).status >= 400, "{line}");
        check(&served, &line, &Value::Null);
    }
    for (line, body) in [
        ("POST /api/v1/sessions", json!({"model": "no such model"})),
        ("POST /api/v1/sessions", json!({"profile": "nobody"})),
        ("POST /api/v1/sessions", json!({"sandbox": "none"})),
        ("POST /api/v1/shares", json!({"session": session, "hours": 0})),
        ("POST /api/v1/workspaces", json!({"path": "relative"})),
        ("POST /v1/chat/completions", json!({"model": "nobody", "messages": []})),
        (
            "POST /v1/chat/completions",
            json!({"model": "haft", "messages": [{"role": "system", "content": "x"}]}),
        ),
    ] {
        assert!(served.ask("own", line, &body).status >= 400, "{line} {body}");
        check(&served, line, &body);
    }
}

#[test]
fn masked_rows_are_asked_for_with_true_or_false() {
    let stage = Stage::new(&[]);
    let served = stage.serve();
    let session = served.does(201, "POST /api/v1/sessions", &json!({}))["id"].as_str().unwrap().to_owned();
    for (value, status) in [("true", 200), ("false", 200), ("1", 400), ("", 400), ("True", 400)] {
        served.does(status, &format!("GET /api/v1/sessions/{session}/rows?masked={value}"), &Value::Null);
    }
}

#[test]
fn session_with_a_named_model_needs_no_configured_one() {
    let stage = Stage::new(&[json!({"say": "Hello."})]);
    let tokens = stage.path("tokens");
    std::fs::create_dir_all(stage.path("config/agents")).unwrap();
    let model = format!("script:{}", stage.path("script").display());
    let profile =
        format!("---\nname: scripted\ndescription: has a model\nmodel: \"{model}\"\n---\nBe brief.\n");
    std::fs::write(stage.path("config/agents/scripted.md"), profile).unwrap();
    let mut haft = stage.haft_in(&stage.path("ws"));
    haft.args(["serve", "--addr", "127.0.0.1:0", "--tokens", tokens.to_str().unwrap()]);
    let served = Served::start(&mut haft);
    let unnamed = served.does(400, "POST /api/v1/sessions", &json!({"prompt": {"text": "hi"}}));
    assert!(unnamed["error"]["next"].as_str().unwrap().contains("haft login"), "{unnamed}");
    served.does(400, "POST /api/v1/sessions", &json!({"model": "nothing:at:all:"}));
    for body in [json!({"model": model}), json!({"profile": "scripted"})] {
        let session = served.does(201, "POST /api/v1/sessions", &body)["id"].as_str().unwrap().to_owned();
        let rows = served.prompt(&session, "hi");
        assert_eq!(rows.last().unwrap().event["text"], "Hello.", "{body}: {rows:?}");
    }
    // OpenAI's API: a model is a profile.
    let body = json!({"model": "scripted", "messages": [{"role": "user", "content": "hi"}]});
    let said = served.does(200, "POST /v1/chat/completions", &body);
    assert_eq!(said["choices"][0]["message"]["content"], "Hello.", "{said}");
}
