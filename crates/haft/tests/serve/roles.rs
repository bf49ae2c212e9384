//! Roles: each operation that is described, with each role.

use std::io::{BufRead as _, BufReader, Write as _};

use serde_json::{Value, json};

use super::support::{ROLES, Served, Stage, token};
use crate::http::support::rest;

/// Returns the status of a request, without its body: that of a stream has no end.
fn status(served: &Served, method: &str, path: &str, headers: &str) -> u16 {
    let mut socket = served.connect();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n{headers}\r\n{{}}",
        served.address
    );
    socket.write_all(head.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).unwrap();
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn each_operation_is_done_for_its_role_and_those_above_and_for_nobody_else() {
    let served = Stage::new(&[]).serve();
    let described = served.get("openapi.json");
    let mut operations = Vec::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let path = path.replace("{session}", "nothing").replace(['{', '}'], "");
            operations.push((method.to_uppercase(), path, operation["x-role"].as_str().map(str::to_owned)));
        }
    }
    assert!(operations.len() > 40, "{operations:?}");
    for (method, path, needs) in &operations {
        let nobody = status(&served, method, path, "X-Haft: 1\r\n");
        let Some(needs) = needs else {
            // Whoever asks is answered; a sign-in without a code, and a share that is none, are answered with an error.
            assert_ne!(nobody, 403, "{method} {path}");
            continue;
        };
        assert_eq!(nobody, 401, "{method} {path} for nobody");
        let wrong = "Authorization: Bearer token-of-nobody-0123456789\r\n";
        assert_eq!(status(&served, method, path, wrong), 401, "{method} {path} for a wrong token");
        let needed = ROLES.iter().position(|it| it == needs).unwrap();
        for (rank, role) in ROLES.iter().enumerate() {
            let bearer = format!("Authorization: Bearer {}\r\n", token(role));
            let status = status(&served, method, path, &bearer);
            if rank < needed {
                assert_eq!(status, 403, "{method} {path} as {role}");
            } else {
                assert!(![401, 403, 405].contains(&status), "{method} {path} as {role}: {status}");
            }
        }
    }
}

#[test]
fn only_the_owner_chooses_a_model_that_is_not_listed() {
    let stage = Stage::new(&[]);
    let served = stage.serve();
    let session = served.does(201, "POST /api/v1/sessions", &Value::Null)["id"].as_str().unwrap().to_owned();
    let other = format!("script:{}", stage.path("tokens").display());
    for model in [other.as_str(), "http://127.0.0.1:1/admin?x=#m"] {
        for role in ["say", "approve"] {
            let body = serde_json::json!({"model": model});
            for line in [format!("PATCH /api/v1/sessions/{session}"), "POST /api/v1/sessions".to_owned()] {
                let reply = served.ask(role, &line, &body);
                assert!(
                    reply.status == 403 && reply.body.contains("not in the list"),
                    "{line} as {role}: {reply:?}"
                );
            }
        }
    }
    let own = serde_json::json!({"model": format!("script:{}", stage.path("script").display())});
    served.does(200, &format!("PATCH /api/v1/sessions/{session}"), &own);
}

#[test]
fn nothing_is_served_that_is_not_described() {
    let served = Stage::new(&[]).serve();
    for path in ["/api/v1/nothing", "/api/v2/info", "/api", "/api/v1/sessions/x/nothing", "/mcp/x", "/.env"] {
        assert_eq!(served.ask("own", &format!("GET {path}"), &Value::Null).status, 404, "{path}");
    }
    for (line, allowed) in [("PUT /api/v1/info", "GET"), ("OPTIONS /api/v1/sessions", "GET, POST")] {
        let reply = served.ask("own", line, &Value::Null);
        assert!(reply.status == 405 && reply.body.contains(allowed), "{reply:?}");
    }
}

#[test]
fn request_whose_token_is_revoked_while_its_body_comes_is_refused() {
    let served = Stage::new(&[]).serve();
    let made = served.does(201, "POST /api/v1/tokens", &json!({"name": "mallory", "role": "own"}));
    let (bearer, body) = (made["token"].as_str().unwrap(), r#"{"name": "backdoor", "role": "own"}"#);
    let head = format!(
        "POST /api/v1/tokens HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {bearer}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        served.address,
        body.len()
    );
    let (first, last) = body.split_at(10);
    let mut socket = served.connect();
    socket.write_all(format!("{head}{first}").as_bytes()).unwrap();
    // Its head is read before this request is.
    served.get("tokens");
    served.does(204, "DELETE /api/v1/tokens/mallory", &Value::Null);
    socket.write_all(last.as_bytes()).unwrap();
    assert_eq!(rest(&mut socket).status, 401);
    assert!(!served.get("tokens").to_string().contains("backdoor"));
}

#[test]
fn prompt_that_an_editor_takes_for_undo_needs_the_role_of_undo() {
    let stage = Stage::new(&[json!({"say": "Hello."})]);
    let served = stage.serve();
    let session = served.begin("hello");
    for text in ["/undo", "/UNDO c_1", " /undo"] {
        let prompt = |role| {
            served
                .ask(role, &format!("POST /api/v1/sessions/{session}/prompt"), &json!({"text": text}))
                .status
        };
        assert_eq!((prompt("say"), prompt("approve")), (403, 202), "{text}");
    }
}
