//! Approvals of MCP clients without elicitation: their calls wait on the page.

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::{
    mcp::{Client, rest},
    support::{Served, Stage, token, wait_for},
};

/// A call that writes a file which needs approval, and asks for its progress.
fn writes(id: u32) -> String {
    writes_to(".envrc", id)
}

/// The message of a call that writes this control file.
fn writes_to(path: &str, id: u32) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": "write", "arguments": {"path": path, "content": format!("export A={id}\n"), "overwrite": true},
        "_meta": {"progressToken": format!("t{id}")}}})
    .to_string()
}

/// Waits for the approval that is the only one.
fn approval(served: &Served) -> Value {
    let all = wait_for("an approval", || {
        let all = served.get("approvals")["approvals"].as_array().unwrap().clone();
        (!all.is_empty()).then_some(all)
    });
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].clone()
}

fn none_waits(served: &Served) {
    wait_for("the end of the approval", || (served.get("approvals")["approvals"] == json!([])).then_some(()));
}

/// The request line and the body by which an approval is decided.
fn decision(open: &Value, decision: &str) -> (String, Value) {
    let (session, id) = (open["session"].as_str().unwrap(), open["approval"]["id"].as_str().unwrap());
    let line = format!("POST /api/v1/sessions/{session}/approvals/{id}");
    (line, json!({"decision": decision, "hash": open["approval"]["hash"]}))
}

fn decide(served: &Served, open: &Value, how: &str) {
    let (line, body) = decision(open, how);
    served.does(200, &line, &body);
}

/// Reads the next message of a stream.
fn next(lines: &mut BufReader<TcpStream>) -> Value {
    loop {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "the stream ended");
        if let Some(message) = line.strip_prefix("data: ").and_then(|it| serde_json::from_str(it).ok()) {
            return message;
        }
    }
}

/// Reads up to the answer, and returns its result.
fn answer(mut lines: BufReader<TcpStream>) -> Value {
    loop {
        let message = next(&mut lines);
        if message.get("result").is_some() {
            return message["result"].clone();
        }
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

#[test]
fn call_waits_with_progress_and_runs_once_somebody_else_approved_it() {
    let stage = Stage::new(&[]);
    let served = stage.serve();
    let client = Client::new(&served, &token("approve")).begin();
    let mut calling = client.stream("POST /mcp", &writes(7));
    let open = approval(&served);
    let progress = loop {
        let message = next(&mut calling);
        if message["method"] == "notifications/progress" {
            break message;
        }
    };
    let page = format!("http://{}/#/approvals", served.address);
    let said = progress["params"]["message"].as_str().unwrap();
    assert!(said.contains("waits for approval") && said.contains(&page), "{progress}");
    assert_eq!((&open["client"], &open["by"]), (&json!("test"), &json!("approveer")), "{open}");
    assert_eq!(open["approval"]["changes"][0]["hunks"][0]["lines"], json!([["+", "export A=7"]]));
    let (line, body) = decision(&open, "once");
    for role in ["view", "say"] {
        assert_eq!(served.ask(role, &line, &body).status, 403, "{role}");
    }
    let own = served.ask("approve", &line, &body);
    assert!(own.status == 403 && own.body.contains("own calls"), "{own:?}");
    let other = json!({"decision": "once", "hash": "0".repeat(64)});
    assert_eq!(served.ask("own", &line, &other).status, 409);
    assert_eq!(stage.text(".envrc"), None);
    served.does(200, &line, &body);
    let done = answer(calling);
    assert_ne!(done["isError"], true, "{done}");
    assert_eq!(stage.text(".envrc").as_deref(), Some("export A=7\n"));
    let late = served.does(409, &line, &body);
    assert_eq!(late["error"]["winner"], "owner allowed it");
    none_waits(&served);
}

#[test]
fn decision_for_the_session_holds_for_that_mcp_session_alone() {
    let stage = Stage::new(&[]);
    let served = stage.serve();
    let client = Client::new(&served, &token("approve")).begin();
    let calling = client.stream("POST /mcp", &writes(1));
    decide(&served, &approval(&served), "session");
    answer(calling);
    client.reads(".envrc");
    let second = answer(client.stream("POST /mcp", &writes(2)));
    assert_ne!(second["isError"], true, "{second}");
    assert_eq!(stage.text(".envrc").as_deref(), Some("export A=2\n"), "no second question");
    let other = Client::new(&served, &token("approve")).begin();
    other.reads(".envrc");
    let calling = other.stream("POST /mcp", &writes(3));
    decide(&served, &approval(&served), "no");
    let refused = answer(calling);
    assert!(refused["isError"] == true && text(&refused).contains("the person said no"), "{refused}");
    assert_eq!(stage.text(".envrc").as_deref(), Some("export A=2\n"));
}

#[test]
fn call_that_nobody_decides_is_refused_and_names_the_page() {
    let stage = Stage::new(&[]);
    let served = stage.serve_with(&["--approval-wait", "1"]);
    let client = Client::new(&served, &token("approve")).begin();
    let refused = answer(client.stream("POST /mcp", &writes(1)));
    let page = format!("http://{}/#/approvals", served.address);
    let said = text(&refused);
    assert!(refused["isError"] == true && said.contains("nobody decided within 1 s"), "{refused}");
    assert!(said.contains(&page), "{refused}");
    assert_eq!((served.get("approvals")["approvals"].clone(), stage.text(".envrc")), (json!([]), None));
    drop(served);
    let served = stage.serve_with(&["--approval-wait", "0"]);
    let client = Client::new(&served, &token("approve")).begin();
    let refused = answer(client.stream("POST /mcp", &writes(1)));
    assert!(text(&refused).contains("nobody to ask"), "{refused}");
}

#[test]
fn approval_goes_with_its_client() {
    let stage = Stage::new(&[]);
    let served = stage.serve();
    let client = Client::new(&served, &token("approve")).begin();
    let calling = client.stream("POST /mcp", &writes(1));
    let open = approval(&served);
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(client.post(&cancelled).status, 202);
    none_waits(&served);
    let (line, body) = decision(&open, "once");
    let late = served.does(409, &line, &body);
    assert!(late["error"]["what"].as_str().unwrap().contains("no longer waits"), "{late}");
    drop(calling);
    // A token that is revoked.
    let made = served.does(201, "POST /api/v1/tokens", &json!({"name": "ci", "role": "approve"}));
    let client = Client::new(&served, made["token"].as_str().unwrap()).begin();
    let calling = client.stream("POST /mcp", &writes(2));
    let open = approval(&served);
    assert_eq!(open["by"], "ci", "{open}");
    served.does(204, "DELETE /api/v1/tokens/ci", &Value::Null);
    none_waits(&served);
    rest(calling);
    let (line, body) = decision(&open, "once");
    let late = served.ask("own", &line, &body).status;
    assert!([404, 409].contains(&late), "{late}");
    assert_eq!(stage.text(".envrc"), None);
}

#[test]
fn repeated_decision_with_its_idempotency_key_gets_the_first_answer() {
    let stage = Stage::new(&[]);
    let served = stage.serve();
    let client = Client::new(&served, &token("approve")).begin();
    let calling = client.stream("POST /mcp", &writes(1));
    let open = approval(&served);
    let (line, body) = decision(&open, "once");
    let send = |role: &str, key: &str, body: &Value| {
        let headers = format!(
            "Authorization: Bearer {}\r\nContent-Type: application/json\r\nIdempotency-Key: {key}\r\n",
            token(role)
        );
        served.raw(&line, &headers, body.to_string().as_bytes())
    };
    // The answer to a refused decision is not kept.
    let other = json!({"decision": "once", "hash": "0".repeat(64)});
    assert_eq!(send("own", "k0", &other).status, 409);
    let first = send("own", "k1", &body);
    assert_eq!(first.status, 200, "{first:?}");
    answer(calling);
    let again = send("own", "k1", &body);
    assert_eq!((again.status, &again.body), (200, &first.body));
    let (_, no) = decision(&open, "no");
    assert_eq!(send("own", "k1", &no).status, 400, "the key with another decision");
    assert_eq!(send("own", "k2", &body).status, 409, "another key");
    assert_eq!(send("approve", "k1", &body).status, 403, "the key of somebody else");
    assert_eq!(client.end(), 204);
    assert_eq!(send("own", "k1", &body).status, 200, "the MCP session has ended");
    assert_eq!(stage.text(".envrc").as_deref(), Some("export A=1\n"));
}

#[test]
fn decision_for_the_project_holds_for_later_sessions_of_every_kind() {
    let stage = Stage::new(&[
        json!({"calls": [{"tool": "write", "arguments": {"path": ".envrc", "content": "export A=9\n", "overwrite": true}}]}),
        json!({"say": "Done."}),
    ]);
    let served = stage.serve();
    let client = Client::new(&served, &token("approve")).begin();
    let calling = client.stream("POST /mcp", &writes(1));
    decide(&served, &approval(&served), "project");
    answer(calling);
    let grants = served.get("grants")["grants"].as_array().unwrap().clone();
    assert!(grants.len() == 1 && grants[0]["session"].is_null(), "{grants:?}");
    drop(served);
    let served = stage.serve();
    let client = Client::new(&served, &token("approve")).begin();
    client.reads(".envrc");
    let second = answer(client.stream("POST /mcp", &writes(2)));
    assert_ne!(second["isError"], true, "{second}");
    assert_eq!(stage.text(".envrc").as_deref(), Some("export A=2\n"), "no second question");
}

#[test]
fn client_that_signs_in_with_its_token_approves_no_call_of_its_own() {
    let stage = Stage::new(&[]);
    let served = stage.serve();
    let client = Client::new(&served, &token("approve")).begin();
    let calling = client.stream("POST /mcp", &writes(1));
    let open = approval(&served);
    let (line, body) = decision(&open, "once");
    let cookie = served.sign_in_with(&json!({"token": token("approve")}));
    let headers = format!("{cookie}X-Haft: 1\r\nContent-Type: application/json\r\n");
    let own = served.raw(&line, &headers, body.to_string().as_bytes());
    assert!(own.status == 403 && own.body.contains("own calls"), "{own:?}");
    // An approval is not reached by the name of another session either.
    let foreign = line.replace(open["session"].as_str().unwrap(), "s_other");
    assert_eq!(served.ask("own", &foreign, &body).status, 404);
    assert_eq!(stage.text(".envrc"), None);
    decide(&served, &open, "no");
    answer(calling);
}

#[test]
fn approval_of_one_session_is_not_decided_by_another_one() {
    let stage = Stage::new(&[]);
    let served = stage.serve();
    let clients = [1, 2].map(|_| Client::new(&served, &token("approve")).begin());
    let first = clients[0].stream("POST /mcp", &writes(1));
    let open = approval(&served);
    // Another file: a call waits for one that changes the same file.
    let second = clients[1].stream("POST /mcp", &writes_to(".mcp.json", 2));
    let other = wait_for("the other approval", || {
        let all = served.get("approvals")["approvals"].as_array().unwrap().clone();
        all.into_iter().find(|it| it["session"] != open["session"])
    });
    let (line, body) = decision(&open, "once");
    let session = open["session"].as_str().unwrap();
    let crossed = line.replace(session, other["session"].as_str().unwrap());
    assert_eq!(served.ask("own", &crossed, &body).status, 404, "the id of one, the session of the other");
    let mixed = json!({"decision": "once", "hash": other["approval"]["hash"]});
    assert_eq!(served.ask("own", &line, &mixed).status, 409, "the hash of the other call");
    assert_eq!(stage.text(".envrc"), None);
    for (open, calling) in [(&open, first), (&other, second)] {
        decide(&served, open, "no");
        answer(calling);
    }
}
