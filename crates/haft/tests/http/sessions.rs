//! Sessions: bound to their token, ended by the client or by time.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
};

use serde_json::json;

use super::support::{ANN, BOB, TestWorkspace, good, initialize};

#[test]
fn session_of_another_token_is_not_found() {
    let http_server = TestWorkspace::new().open();
    let ann = http_server.begin(ANN);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    for message in [&ping, &answer, &note] {
        let foreign = http_server.post(BOB, Some(&ann), message);
        let unknown = http_server.post(BOB, Some("00000000-0000-0000-0000-000000000000"), message);
        assert_eq!((foreign.status, &foreign.body), (404, &unknown.body));
    }
    for line in ["GET /mcp", "DELETE /mcp"] {
        for more in ["", "Last-Event-ID: 1.1\r\n"] {
            let reply = http_server.ask(line, &format!("{}Mcp-Session-Id: {ann}\r\n{more}", good(BOB)), "");
            assert_eq!(reply.status, 404, "{line}: {reply:?}");
        }
    }
    assert_eq!(http_server.call(ANN, &ann, "shell", json!({"command": "echo mine"})), "mine");
}

#[test]
fn ended_session_is_not_found() {
    let http_server = TestWorkspace::new().open();
    let session = http_server.begin(ANN);
    // Two of them, and be they the same, are one too many.
    let twice = format!("{}Mcp-Session-Id: {session}\r\nMcp-Session-Id: {session}\r\n", good(ANN));
    assert_eq!(http_server.ask("GET /mcp", &twice, "").status, 400);
    let header = format!("{}Mcp-Session-Id: {session}\r\n", good(ANN));
    assert!(http_server.ask("DELETE /mcp", &header, "").status < 300);
    assert_eq!(http_server.ask("DELETE /mcp", &header, "").status, 404);
    assert_eq!(
        http_server.post(ANN, Some(&session), &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).status,
        404
    );
    assert_eq!(
        http_server.post(ANN, None, &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).status,
        400
    );
}

#[test]
fn revision_without_sessions_opens_no_session() {
    let http_server = TestWorkspace::new().open();
    let mut message = initialize();
    message["params"]["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: initialize\r\n";
    let reply = http_server.ask("POST /mcp", &format!("{}{headers}", good(ANN)), &message.to_string());
    assert_eq!((reply.status, reply.header("mcp-session-id")), (404, None), "{reply:?}");
    assert_eq!(reply.message()["error"]["code"], -32601);
    http_server.is_alive();
}

#[test]
fn undelivered_answer_is_sent_again() {
    let test_ws = TestWorkspace::new();
    let http_server = test_ws.open();
    let session = http_server.begin(ANN);
    let call = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {
        "name": "shell", "arguments": {"command": "while ! test -e go; do sleep 0.05; done; echo went"}}});
    let body = call.to_string();
    let mut socket = http_server.connect();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\n{}Mcp-Session-Id: {session}\r\n",
        http_server.address,
        good(ANN)
    );
    socket.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
    let mut seen = String::new();
    let mut buffer = [0; 1024];
    let id = loop {
        let count = socket.read(&mut buffer).unwrap();
        seen.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        if let Some(id) = seen.lines().find_map(|line| line.strip_prefix("id: ")) {
            break id.to_owned();
        }
    };
    drop(socket);
    std::fs::write(test_ws.path("ws/go"), "").unwrap();
    let header = format!("{}Mcp-Session-Id: {session}\r\nLast-Event-ID: {id}\r\n", good(ANN));
    for _ in 0..2 {
        let again = http_server.ask("GET /mcp", &header, "");
        assert_eq!(again.message()["result"]["content"][0]["text"], "went");
    }
    let bob = http_server.begin(BOB);
    let foreign = http_server.ask(
        "GET /mcp",
        &format!("{}Mcp-Session-Id: {bob}\r\nLast-Event-ID: {id}\r\n", good(BOB)),
        "",
    );
    assert!(!foreign.body.contains("went"), "{foreign:?}");
}

#[test]
fn session_that_was_idle_longest_is_given_up_for_a_new_one_and_resumed() {
    let http_server = TestWorkspace::new().open();
    let sessions: Vec<String> = (0..128).map(|_| http_server.begin(ANN)).collect();
    let sleep = json!({"command": "exec sleep 1000", "run_in_background": true});
    let begun = http_server.call(ANN, &sessions[0], "shell", sleep);
    assert!(begun.contains("job_1"), "{begun}");
    // Clients that went away without DELETE lock nobody out.
    let more: Vec<String> = (0..3).map(|_| http_server.begin(ANN)).collect();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for session in sessions[1..4].iter().chain(&more) {
        assert_eq!(http_server.post(BOB, Some(session), &ping).status, 404, "it is another one's");
        assert_eq!(http_server.call(ANN, session, "shell", json!({"command": "echo back"})), "back");
    }
    let job = http_server.call(ANN, &sessions[0], "read_job", json!({"job": "job_1"}));
    assert!(job.contains("running"), "a session with a job is not given up: {job}");
    // Those that were resumed took the places of others, of which each can be ended without being resumed.
    let headers = |session: &str| format!("{}Mcp-Session-Id: {session}\r\n", good(ANN));
    for session in &sessions[4..8] {
        assert!(http_server.ask("DELETE /mcp", &headers(session), "").status < 300);
        assert_eq!(http_server.post(ANN, Some(session), &ping).status, 404);
    }
}

#[test]
fn full_server_answers_with_retry_after() {
    let http_server = TestWorkspace::new().open();
    let headers = |session: &str| format!("{}Mcp-Session-Id: {session}\r\n", good(ANN));
    let read = |session: &String| {
        let mut socket = http_server.connect();
        let head = format!("GET /mcp HTTP/1.1\r\nHost: {}\r\n{}\r\n", http_server.address, headers(session));
        socket.write_all(head.as_bytes()).unwrap();
        let mut first = [0; 12];
        socket.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        socket
    };
    // Each has a client that listens.
    let sessions: Vec<String> = (0..128).map(|_| http_server.begin(ANN)).collect();
    let listening: Vec<_> = sessions.iter().map(read).collect();
    let reply = http_server.post(ANN, None, &super::support::initialize());
    assert_eq!(reply.status, 503, "{reply:?}");
    assert!(reply.header("retry-after").is_some());
    http_server.begin(BOB);
    assert!(http_server.ask("DELETE /mcp", &headers(&sessions[0]), "").status < 300);
    http_server.is_alive();
    drop(listening);
}

#[test]
fn session_of_a_lost_client_ends_and_its_jobs_can_be_read() {
    let test_ws = TestWorkspace::new();
    let tokens = test_ws.path("tokens");
    let http_server = test_ws.open_with(&["--token-file", tokens.to_str().unwrap(), "--idle", "1"]);
    let first = http_server.begin(ANN);
    let begun = http_server.call(
        ANN,
        &first,
        "shell",
        json!({"command": "echo kept; touch began; exec sleep 1000", "run_in_background": true}),
    );
    assert!(begun.contains("job_1"), "{begun}");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    // A client that asks is not gone, so each look waits a little longer than that takes.
    while http_server.post(ANN, Some(&first), &ping).status == 200 {
        std::thread::sleep(std::time::Duration::from_secs(7));
    }
    let second = http_server.begin(ANN);
    let waited = http_server.call(ANN, &second, "wait", json!({"job": "job_1"}));
    let read = http_server.call(ANN, &second, "read_job", json!({"job": "job_1"}));
    assert!(read.contains("cancelled") && read.contains("kept"), "{waited}\n{read}");
    let bob = http_server.begin(BOB);
    assert_eq!(http_server.call(BOB, &bob, "jobs", json!({})), "no jobs");
}

#[test]
fn terminated_server_lets_calls_finish() {
    let http_server = TestWorkspace::new().open();
    let session = http_server.begin(ANN);
    http_server.call(
        ANN,
        &session,
        "shell",
        json!({"command": "exec sleep 1000", "run_in_background": true}),
    );
    assert_eq!(http_server.end(), Some(0));
}

#[test]
fn request_that_is_not_json_is_answered_with_its_id_and_half_an_emoji_is_repaired() {
    let http_server = TestWorkspace::new().open();
    let session = http_server.begin(ANN);
    let ask = |id: &str, command: &str, more: &str| {
        let headers = format!("{}Mcp-Session-Id: {session}\r\n", good(ANN));
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"shell","arguments":{{"command":"{command}"{more}}}}}}}"#
        );
        http_server.ask("POST /mcp", &headers, &body)
    };
    let said = ask("701", r"printf '%s' 'half \ud83d' | od -An -tx1", "").message();
    assert_eq!(said["id"], 701, "{said}");
    let text = said["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("ef bf bd"), "{said}");
    for id in ["702", r#""seven""#] {
        let said = ask(id, "true", r#","wait_ms":1e999"#).message();
        assert_eq!(said["id"].to_string(), id, "{said}");
        assert!(said["error"]["message"].as_str().unwrap().contains("number out of range"), "{said}");
    }
    http_server.is_alive();
}

#[test]
fn server_of_one_session_is_not_reached_by_another_session() {
    kit::needs!(SystemPython, Curl);
    let test_ws = TestWorkspace::new();
    let http_server = test_ws.open_contained();
    // A port that is free on the machine, too.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/");
    let [ann, again, bob] =
        [(ANN, http_server.begin(ANN)), (ANN, http_server.begin(ANN)), (BOB, http_server.begin(BOB))];
    let shell = |(token, session): &(&str, String), command: String, background: bool| {
        let arguments = json!({"command": command, "run_in_background": background});
        http_server.call(token, session, "shell", arguments)
    };
    shell(&ann, format!("/usr/bin/python3 -m http.server --bind 127.0.0.1 {port}"), true);
    let said = shell(
        &ann,
        format!("until curl -sS {url} -o got; do sleep 0.05; done 2>/dev/null; echo it is there"),
        false,
    );
    assert!(said.contains("it is there"), "{said}");
    for (other, is_its) in [(&ann, true), (&again, false), (&bob, false)] {
        // Theirs is a network namespace of their own, once they have run a command, and none before.
        for _ in 0..2 {
            let said = http_server.call(other.0, &other.1, "http_request", json!({"url": url}));
            assert_eq!(said.contains("200 OK"), is_its, "{said}");
            let said = shell(other, format!("curl -sS {url} || echo nobody there"), false);
            assert_eq!(said.contains("nobody there"), !is_its, "{said}");
        }
    }
}
