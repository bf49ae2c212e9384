//! MCP on `haft serve`: tools for whoever may approve, until the access ends.

use std::io::{BufRead as _, BufReader, Write as _};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::support::{ROLES, Served, Stage, token, wait_for};
use crate::http::support::{Reply, good, initialize};

/// A client of MCP, by the headers that let it in.
pub(super) struct Client<'a> {
    served: &'a Served,
    headers: String,
    path: String,
    session: Option<String>,
}

impl<'a> Client<'a> {
    pub(super) fn new(served: &'a Served, token: &str) -> Self {
        Self { served, headers: good(token), path: "/mcp".to_owned(), session: None }
    }

    /// The client of one workspace of several.
    pub(super) fn of_workspace(served: &'a Served, token: &str, workspace: &str) -> Self {
        Self { path: format!("/mcp?workspace={workspace}"), ..Self::new(served, token) }
    }

    pub(super) fn post(&self, message: &Value) -> Reply {
        let session = self.session.as_ref().map(|it| format!("Mcp-Session-Id: {it}\r\n")).unwrap_or_default();
        let headers = format!("{}{session}", self.headers);
        self.served.raw(&format!("POST {}", self.path), &headers, message.to_string().as_bytes())
    }

    /// Opens a session.
    #[track_caller]
    pub(super) fn begin(mut self) -> Self {
        let reply = self.post(&initialize());
        assert_eq!(reply.status, 200, "{reply:?}");
        self.session = reply.header("mcp-session-id");
        assert!(self.session.is_some(), "{reply:?}");
        let reply = self.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(reply.status, 202, "{reply:?}");
        self
    }

    /// Ends the session. Returns the status.
    pub(super) fn end(&self) -> u16 {
        let session = format!("Mcp-Session-Id: {}\r\n", self.session.as_ref().unwrap());
        self.served.raw("DELETE /mcp", &format!("{}{session}", self.headers), b"").status
    }

    #[track_caller]
    fn call(&self, tool: &str, arguments: Value) -> Value {
        let reply = self.post(&called(tool, arguments));
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.message()["result"].clone()
    }

    #[track_caller]
    pub(super) fn reads(&self, path: &str) -> String {
        self.call("read", json!({"path": path}))["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Sends a message, and returns the stream of its answer after the head.
    pub(super) fn stream(&self, line: &str, body: &str) -> BufReader<std::net::TcpStream> {
        let mut socket = self.served.connect();
        let head = format!(
            "{line} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{}Mcp-Session-Id: {}\r\nContent-Length: {}\r\n\r\n{body}",
            self.served.address,
            self.headers,
            self.session.as_ref().unwrap(),
            body.len()
        );
        socket.write_all(head.as_bytes()).unwrap();
        let mut lines = BufReader::new(socket);
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.contains(" 200 "), "{line}");
        lines
    }
}

fn called(tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

/// Reads until the connection ends.
pub(super) fn rest(mut lines: BufReader<std::net::TcpStream>) -> String {
    let (mut text, mut line) = (String::new(), String::new());
    // A connection that is reset has ended, too.
    while lines.read_line(&mut line).is_ok_and(|it| it > 0) {
        text.push_str(&line);
        line.clear();
    }
    text
}

#[test]
fn tools_are_listed_and_called_by_whoever_may_approve_and_by_nobody_else() {
    let stage = Stage::new(&[]);
    stage.put("a.txt", "hello\n");
    let served = stage.serve();
    for role in ROLES {
        let client = Client::new(&served, &token(role));
        if ["view", "say"].contains(&role) {
            let reply = client.post(&initialize());
            assert_eq!(reply.status, 403, "{role}: {reply:?}");
            assert!(reply.body.contains("this needs the role `approve`"), "{reply:?}");
            continue;
        }
        let client = client.begin();
        let listed = client.post(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})).message();
        let names: Vec<&str> = listed["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|it| it["name"].as_str())
            .collect();
        assert!(names.contains(&"read") && names.contains(&"edit"), "{names:?}");
        assert!(client.reads("a.txt").contains("hello"));
        assert_eq!(client.end(), 204);
    }
    let reply = served.raw("POST /mcp", "Content-Type: application/json\r\n", b"{}");
    assert_eq!(
        (reply.status, reply.header("www-authenticate").as_deref()),
        (401, Some("Bearer")),
        "{reply:?}"
    );
}

#[test]
fn session_of_one_token_means_nothing_with_another() {
    let stage = Stage::new(&[]);
    stage.put("a.txt", "hello\n");
    let served = stage.serve();
    let approver = Client::new(&served, &token("approve")).begin();
    let mut owner = Client::new(&served, &token("own"));
    owner.session.clone_from(&approver.session);
    assert_eq!(owner.post(&called("read", json!({"path": "a.txt"}))).status, 404);
    assert!(approver.reads("a.txt").contains("hello"));
}

#[test]
fn revoked_token_ends_its_sessions_calls_and_streams() {
    let stage = Stage::new(&[]);
    let served = stage.serve();
    let made = served.does(201, "POST /api/v1/tokens", &json!({"name": "ci", "role": "approve"}));
    let client = Client::new(&served, made["token"].as_str().unwrap()).begin();
    let events = client.stream("GET /mcp", "");
    // The sandbox has its own numbers of processes, so a file says whether it still runs.
    let command = "while :; do date +%N > alive; sleep 0.05; done";
    let calling = client.stream("POST /mcp", &called("shell", json!({"command": command})).to_string());
    let alive = stage.path("ws/alive");
    wait_for("the command", || std::fs::read_to_string(&alive).ok().filter(|it| !it.is_empty()));
    served.does(204, "DELETE /api/v1/tokens/ci", &Value::Null);
    assert_eq!(client.post(&called("read", json!({"path": "a.txt"}))).status, 401);
    rest(events);
    let answer = rest(calling);
    assert!(!answer.contains("\"isError\":false"), "{answer}");
    // Whether it writes on is known only after a while in which it would have.
    let is_over = || {
        let before = std::fs::read_to_string(&alive).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        (std::fs::read_to_string(&alive).unwrap() == before).then_some(())
    };
    wait_for("the end of the command", is_over);
    // A new token of the same name has none of it.
    let made = served.does(201, "POST /api/v1/tokens", &json!({"name": "ci", "role": "approve"}));
    let mut other = Client::new(&served, made["token"].as_str().unwrap());
    other.session.clone_from(&client.session);
    assert_eq!(other.post(&called("read", json!({"path": "a.txt"}))).status, 404);
    let other = Client::new(&served, made["token"].as_str().unwrap()).begin();
    assert_eq!(other.call("jobs", json!({}))["content"][0]["text"], "no jobs");
}

#[test]
fn workspace_is_named_where_there_are_several() {
    let stage = Stage::new(&[]);
    std::fs::create_dir(stage.path("other")).unwrap();
    stage.put("where", "in ws\n");
    std::fs::write(stage.path("other/where"), "in other\n").unwrap();
    let served = stage.serve_with(&["--workspace", stage.path("other").to_str().unwrap()]);
    let reply = Client::new(&served, &token("approve")).post(&initialize());
    assert!(reply.status == 400 && reply.body.contains("?workspace=NAME"), "{reply:?}");
    for name in ["nothing", "..", ""] {
        let line = format!("POST /mcp?workspace={name}");
        let reply = served.raw(&line, &good(&token("approve")), initialize().to_string().as_bytes());
        assert!(reply.status == 404 && reply.body.contains("other"), "{reply:?}");
    }
    let id = served.get("info")["workspaces"][1]["id"].as_str().unwrap().to_owned();
    for (name, holds) in [("ws", "in ws"), ("other", "in other"), (&id, "in other")] {
        let client = Client::of_workspace(&served, &token("approve"), name).begin();
        assert!(client.reads("where").contains(holds), "{name}");
    }
}

#[test]
fn cookie_alone_and_foreign_pages_are_refused() {
    let stage = Stage::new(&[]);
    stage.put("a.txt", "hello\n");
    let served = stage.serve();
    let cookie = served.sign_in();
    let kind = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
    let with = |headers: &str| {
        served.raw("POST /mcp", &format!("{cookie}{kind}{headers}"), initialize().to_string().as_bytes())
    };
    let own = format!("Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\nX-Haft: 1\r\n", served.address);
    let session = with(&own).header("mcp-session-id").unwrap();
    for headers in [
        "",
        "Origin: https://evil.example\r\nX-Haft: 1\r\n",
        // Another port of this machine is the same site, so a browser sends it the cookie.
        "Origin: http://127.0.0.1:1\r\nX-Haft: 1\r\n",
        "Origin: null\r\nX-Haft: 1\r\n",
        "Sec-Fetch-Site: same-site\r\nX-Haft: 1\r\n",
        "Sec-Fetch-Site: cross-site\r\nX-Haft: 1\r\n",
    ] {
        let reply = with(headers);
        assert_eq!(reply.status, 403, "{headers}: {reply:?}");
        let all = format!("{cookie}{kind}Mcp-Session-Id: {session}\r\n{headers}");
        for line in ["GET /mcp", "DELETE /mcp"] {
            if headers.is_empty() && line == "GET /mcp" {
                // It changes nothing, and a page can't name the session.
                continue;
            }
            assert_eq!(served.raw(line, &all, b"").status, 403, "{line} {headers}");
        }
    }
    let all = format!("{cookie}{kind}Mcp-Session-Id: {session}\r\n{own}");
    let reply =
        served.raw("POST /mcp", &all, called("read", json!({"path": "a.txt"})).to_string().as_bytes());
    assert!(reply.status == 200 && reply.body.contains("hello"), "{reply:?}");
    let mut socket = served.connect();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n{}Content-Length: 2\r\n\r\n{{}}",
        good(&token("own"))
    );
    socket.write_all(head.as_bytes()).unwrap();
    assert_eq!(crate::http::support::rest(&mut socket).status, 403);
    let reply = served.raw(&format!("POST /mcp?token={}", token("own")), &good(&token("own")), b"{}");
    assert_eq!(reply.status, 400, "{reply:?}");
}

#[test]
fn server_that_is_told_to_end_ends_calls_and_streams_of_mcp() {
    let stage = Stage::new(&[]);
    let mut served = stage.serve();
    let client = Client::new(&served, &token("approve")).begin();
    let events = client.stream("GET /mcp", "");
    let command = called("shell", json!({"command": "echo began > began; exec sleep 1000"}));
    let calling = client.stream("POST /mcp", &command.to_string());
    wait_for("the command", || std::fs::read_to_string(stage.path("ws/began")).ok());
    let pid = Pid::from_raw(served.pid().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    rest(events);
    rest(calling);
    drop(client);
    assert!(served.wait().success());
}

#[test]
fn views_are_offered_over_http_to_hosts_that_show_them_and_to_no_others() {
    let stage = Stage::new(&[]);
    stage.put("a.txt", "one\n");
    let served = stage.serve_with(&["--approve", "auto"]);
    let mime = "text/html;profile=mcp-app";
    for shows in [true, false] {
        let mut client = Client::new(&served, &token("approve"));
        let mut hello = initialize();
        if shows {
            hello["params"]["capabilities"]["extensions"] =
                json!({"io.modelcontextprotocol/ui": {"mimeTypes": [mime]}});
        }
        let reply = client.post(&hello);
        client.session = reply.header("mcp-session-id");
        assert_eq!(
            client.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).status,
            202
        );
        let ask = |method: &str, params: Value| {
            client.post(&json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params})).message()
        };
        let tools = ask("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone();
        let edit = tools.iter().find(|it| it["name"] == "edit").unwrap();
        let resources = ask("resources/list", json!({}))["result"]["resources"].as_array().unwrap().clone();
        let views: Vec<&str> = resources
            .iter()
            .filter_map(|it| it["uri"].as_str())
            .filter(|it| it.starts_with("ui://"))
            .collect();
        let read = ask("resources/read", json!({"uri": "ui://haft/diff"}));
        client.reads("a.txt");
        let called = client.call("edit", json!({"path": "a.txt", "edits": [{"old": "one", "new": "1"}]}));
        assert_ne!(called["isError"], true, "{called}");
        if !shows {
            assert!(
                edit["_meta"]["ui"].is_null() && views.is_empty() && called["_meta"]["haft/view"].is_null(),
                "{called}"
            );
            assert!(read.get("error").is_some(), "{read}");
            continue;
        }
        assert_eq!(edit["_meta"]["ui"]["resourceUri"], "ui://haft/diff");
        assert_eq!(views, ["ui://haft/diff", "ui://haft/jobs", "ui://haft/part"], "{resources:?}");
        let view = &read["result"]["contents"][0];
        assert_eq!(view["mimeType"], mime);
        assert!(view["text"].as_str().unwrap().contains("<!doctype html>"), "{view}");
        let data = &called["_meta"]["haft/view"];
        assert_eq!(data["changes"][0]["hunks"][0]["lines"], json!([["-", "one"], ["+", "1"]]));
        // Its button calls the tool by which the change is put back.
        let undone = client.call("undo", json!({"call": data["call"]}));
        assert_ne!(undone["isError"], true, "{undone}");
        assert_eq!(stage.text("a.txt").as_deref(), Some("one\n"));
    }
}
