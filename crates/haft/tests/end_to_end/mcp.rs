//! The `haft mcp` process: start, bad input, end.

use std::{io::Write as _, process::Stdio, time::Duration};

use serde_json::{Value, json};

use crate::support::{Server, TestWorkspace, run};

/// Sends lines to an initialized server, then ends its input. Returns all its messages.
fn say(test_ws: &TestWorkspace, lines: &[&str]) -> Vec<Value> {
    let initialize = json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let ran = run(&mut test_ws.haft(&["mcp"]), &format!("{initialize}\n{}\n", lines.join("\n")));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    let mut said: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(said.iter().all(|it| it["jsonrpc"] == "2.0"), "nothing but protocol on standard output");
    let all = said.len();
    said.retain(|it| it["id"] != "hello");
    assert_eq!(said.len() + 1, all);
    said
}

#[test]
fn what_is_no_request_gets_the_error_that_says_so() {
    let test_ws = TestWorkspace::new();
    for (line, id, code) in [
        ("{broken", json!(null), -32700),
        ("\u{1}\u{2}", json!(null), -32700),
        (r#"{"jsonrpc": "2.0", "id": 5}"#, json!(5), -32600),
        (r#"{"jsonrpc": "2.0", "id": 5, "method": 7}"#, json!(5), -32600),
        (r#"{"id": 5, "method": "tools/list"}"#, json!(5), -32600),
        (r#"{"jsonrpc": "2.0", "id": 5, "method": "no/such"}"#, json!(5), -32601),
        (
            r#"{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "no_such"}}"#,
            json!(5),
            -32602,
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"arguments": {}}}"#,
            json!(5),
            -32602,
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "read", "arguments": "x"}}"#,
            json!(5),
            -32602,
        ),
    ] {
        let said = say(&test_ws, &[line, r#"{"jsonrpc": "2.0", "id": 6, "method": "ping"}"#]);
        // A tool that nobody knows is looked for, which keeps nobody waiting.
        let (pong, refusal): (Vec<_>, Vec<_>) = said.iter().partition(|it| it["id"] == 6);
        let ([refusal], [pong]) = (refusal.as_slice(), pong.as_slice()) else { panic!("{line}: {said:?}") };
        assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&id, &json!(code)), "{line}: {refusal}");
        assert_eq!((&pong["id"], pong.get("result").is_some()), (&json!(6), true), "it goes on after {line}");
    }
}

#[test]
fn what_no_client_should_send_is_refused_and_it_goes_on() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    let server = test_ws.serve();
    let refused = |line: &str| {
        server.send(line);
        let ping = server.ask("ping", &json!({})).wait().unwrap();
        assert!(ping.get("result").is_some(), "{ping}");
        server.take_other()
    };
    for (what, line) in [
        ("deep", "[".repeat(100_000)),
        ("deep and whole", format!("{}{}", "{\"a\":".repeat(5_000), "}".repeat(5_000))),
        ("a number for an id", r#"{"jsonrpc": "2.0", "id": 1e400, "method": "ping"}"#.to_owned()),
        ("a long id", json!({"jsonrpc": "2.0", "id": "x".repeat(1 << 20), "method": "ping"}).to_string()),
        ("a list", "[1, 2, 3]".to_owned()),
        ("a long line", format!("{{\"a\": \"{}\"}}", "x".repeat(70 << 20))),
    ] {
        let answers = refused(&line);
        let [answer] = answers.as_slice() else { panic!("{what}: {} answers", answers.len()) };
        let answer: Value = serde_json::from_str(answer).unwrap();
        assert!(answer["error"]["code"].as_i64().is_some_and(|code| code <= -32600), "{what}: {answer}");
        assert!(answer.to_string().len() < 2_000, "{what}: it is not sent back");
    }
    // Bytes that are not UTF-8 are refused as well.
    server.send_bytes(b"{\"jsonrpc\": \"2.0\", \"method\": \"\xff\xfe\"}\n");
    assert!(server.does("read", &json!({"path": "file"})).contains("|one"));
    assert!(server.take_other().iter().all(|line| line.contains("-32700")));
    assert!(server.peak_memory() < 512, "{} MiB", server.peak_memory());
    assert!(server.finish().0.success());
}

#[test]
fn a_client_that_does_not_read_costs_no_memory() {
    let test_ws = TestWorkspace::new();
    test_ws.put("long", format!("{}\n", "x".repeat(99)).repeat(1_000));
    let mut child = test_ws
        .haft(&["mcp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let (wrote, done) = std::sync::mpsc::channel();
    let writing = std::thread::spawn(move || {
        let client = json!({"name": "t", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let _ = writeln!(
            input,
            "{}",
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        );
        let params = json!({"name": "read", "arguments": {"path": "long"}});
        for id in 1..3_000 {
            let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
            if writeln!(input, "{call}").is_err() {
                return;
            }
        }
        let _ = wrote.send(());
    });
    // It stops taking requests while its answers are not taken.
    assert!(done.recv_timeout(Duration::from_secs(3)).is_err(), "300 MB of answers are waiting somewhere");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim().to_owned();
    let peak: u64 = peak.trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 256 * 1024, "{peak} kB");
    child.kill().unwrap();
    child.wait().unwrap();
    writing.join().unwrap();
}

#[test]
fn a_fault_of_a_tool_is_a_result_that_the_model_reads() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    let server = test_ws.serve();
    for arguments in [json!({"path": "nothing"}), json!({"paths": 1}), json!({"path": "../x"})] {
        let answer =
            server.ask("tools/call", &json!({"name": "read", "arguments": arguments})).wait().unwrap();
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(answer["result"].get("structuredContent").is_none(), "{answer}");
    }
    let answer =
        server.ask("tools/call", &json!({"name": "read", "arguments": {"path": "file"}})).wait().unwrap();
    assert_eq!(answer["result"]["content"][0]["type"], "text", "{answer}");
    assert!(answer["result"].get("structuredContent").is_none(), "{answer}");
}

#[test]
fn tools_are_listed_with_what_they_may_do() {
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve();
    let answer = server.ask("tools/list", &json!({})).wait().unwrap();
    for tool in answer["result"]["tools"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let hints = &tool["annotations"];
        let reads = ["read", "skim", "filegrep", "json_read"].contains(&name);
        let writes = ["edit", "write", "editor", "json_write", "undo"].contains(&name);
        if reads || writes {
            assert_eq!(
                (&hints["readOnlyHint"], &hints["destructiveHint"]),
                (&json!(reads), &json!(writes)),
                "{tool}"
            );
            assert_eq!(hints["openWorldHint"], false, "{tool}");
        }
        assert!(tool.get("outputSchema").is_none(), "{tool}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert!(!tool["description"].as_str().unwrap().is_empty(), "{tool}");
    }
}

#[test]
fn a_client_of_the_newer_revision_needs_no_initialize() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    let server = Server::start(&test_ws, &[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let answer = server.ask("server/discover", &json!({"_meta": meta})).wait().unwrap();
    assert!(
        answer["result"]["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")),
        "{answer}"
    );
    let answer = server.ask("tools/list", &json!({"_meta": meta})).wait().unwrap();
    assert!(answer["result"]["tools"].as_array().unwrap().len() >= 9, "{answer}");
    let params = json!({"name": "read", "arguments": {"path": "file"}, "_meta": meta});
    let answer = server.ask("tools/call", &params).wait().unwrap();
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("|one"), "{answer}");
    assert!(server.finish().0.success());
}

#[test]
fn the_end_of_input_ends_it_and_everything_it_was_asked_is_answered() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "count 0\n");
    let calls: Vec<String> = (0..20)
        .map(|number| {
            let edits =
                json!([{"old": format!("count {number}\n"), "new": format!("count {}\n", number + 1)}]);
            let params = json!({"name": "edit", "arguments": {"path": "file", "edits": edits}});
            json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).to_string()
        })
        .collect();
    let lines: Vec<&str> = calls.iter().map(String::as_str).collect();
    let mut ids: Vec<u64> = say(&test_ws, &lines).iter().map(|it| it["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..20).collect::<Vec<_>>());
    let acknowledged = test_ws.log().iter().filter(|call| call["outcome"] == "ok").count();
    assert_eq!(test_ws.text("file"), format!("count {acknowledged}\n"));
    // Nothing at all is not a reason to fail, either.
    let ran = run(&mut test_ws.haft(&["mcp"]), "");
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
}

#[test]
fn a_client_that_goes_away_ends_it() {
    let test_ws = TestWorkspace::new();
    let mut child = test_ws
        .haft(&["mcp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    // Its first answer finds nobody. What else is sent may meet a closed pipe.
    for id in 0..2 {
        let _ = writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
    }
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let output = child.wait_with_output();
        let _ = ended.send(output);
    });
    // Its input is still open.
    let output = end.recv_timeout(Duration::from_secs(30)).unwrap().unwrap();
    assert!(output.status.code().is_some(), "it ended by itself: {output:?}");
    drop(input);
}

#[test]
fn a_call_can_be_cancelled_and_the_server_goes_on() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    let server = test_ws.serve();
    for _ in 0..50 {
        let call = server.start_call("read", &json!({"path": "file"}));
        let id = call.id();
        let cancelled =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        server.send(&cancelled.to_string());
    }
    assert!(server.does("read", &json!({"path": "file"})).contains("|one"));
    assert!(server.finish().0.success());
}

#[test]
fn a_spill_can_be_read_by_its_handle() {
    let test_ws = TestWorkspace::new();
    let long: String = (0..20_000).map(|line| format!("{line:05} {}\n", "x".repeat(40))).collect();
    test_ws.put("long", long);
    let server = test_ws.serve();
    let said = server.does("editor", &json!({"command": "view", "path": "long"}));
    assert!(said.len() < 80_000, "{} bytes", said.len());
    let handle =
        said.split_whitespace().map(|word| word.trim_matches(|it: char| !it.is_alphanumeric() && it != '_'));
    let handle = handle.into_iter().find(|word| word.starts_with("out_")).unwrap();
    assert!(server.does("read", &json!({"path": handle, "offset": 10_001, "limit": 2})).contains("10"));
    assert!(server.does("filegrep", &json!({"path": handle, "pattern": "19999 "})).contains("19999 "));
}
