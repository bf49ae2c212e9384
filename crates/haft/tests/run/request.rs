//! The first request: its size, and tools that it does not list.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    thread,
};

use serde_json::{Value, json};

use super::script;
use crate::support::TestWorkspace;

/// The maximum of a first request: instructions, tool list and task.
const MOST: usize = 16_000;

/// Answers one request as a model's server; returns the body of the request.
fn answer(listener: &TcpListener) -> Vec<u8> {
    loop {
        let mut stream = listener.accept().unwrap().0;
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = bytes.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        if !head.starts_with("POST ") {
            stream
                .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .unwrap();
            continue;
        }
        let said = "data: {\"choices\": [{\"index\": 0, \"delta\": {\"content\": \"done\"}, \"finish_reason\": \"stop\"}]}\n\n\
                    data: [DONE]\n\n";
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(format!("{head}{said}").as_bytes()).unwrap();
        return body;
    }
}

#[test]
fn first_request_has_a_short_list_and_at_most_16_kb() {
    let test_ws = TestWorkspace::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let model = format!("http://{}/v1#stub", listener.local_addr().unwrap());
    let server = thread::spawn(move || answer(&listener));
    let ran = test_ws.run(&["run", "--model", &model, "say done"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "done\n"), "{ran:?}");
    let body = server.join().unwrap();
    assert!(body.len() <= MOST, "{} bytes", body.len());
    let request: Value = serde_json::from_slice(&body).unwrap();
    let tools: Vec<&str> = request["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["function"]["name"].as_str().unwrap())
        .collect();
    for name in [
        "read",
        "edit",
        "write",
        "grep",
        "glob",
        "bash",
        "shell",
        "search_tools",
        "call_tool",
        "web_fetch",
        "web_search",
        "ask_user",
        "subagent",
    ] {
        assert!(tools.contains(&name), "{name} in {tools:?}");
    }
    assert!(!tools.contains(&"json_read"), "{tools:?}");
}

#[test]
fn a_tool_that_is_not_listed_is_found_and_called() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.json", "{\"a\": [1, 22333]}");
    let arguments = json!({"path": "a.json", "pointer": "/a/1"});
    let calls = json!({"calls": [
        {"tool": "search_tools", "arguments": {"query": "read a value of a JSON file"}},
        {"tool": "json_read", "arguments": arguments},
        {"tool": "call_tool", "arguments": {"name": "json_read", "arguments": arguments}},
    ]});
    let last = json!({"expect": ["json_read: Read a part of a JSON file", "22333"], "say": "seen"});
    let model = script(&test_ws, &format!("{calls}\n{last}\n"));
    let ran = test_ws.run(&["run", "--model", &model, "read it"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "seen\n"), "{ran:?}");
    let failed: Vec<Value> = test_ws.log().into_iter().filter(|it| it["outcome"] != "ok").collect();
    assert!(failed.is_empty(), "{failed:?}");
}
