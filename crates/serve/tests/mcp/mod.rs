//! The MCP server on the wire.

mod asking;
mod client;
mod documents;
mod fake;
mod framing;
mod multi_round;
mod tasks;

use std::{
    io::{Write as _, pipe},
    thread,
    time::Duration,
};

use client::{Client, call, modern};
use fake::FakeBackend;
use serde_json::{Value, json};
use tokio::runtime::Builder;

const LEGACY: &[&str] = &["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}"))
}

#[test]
fn initialize_agrees_on_every_legacy_version() {
    for version in LEGACY {
        let mut client = Client::start();
        let answer = client.initialize(version);
        assert_eq!(answer["result"]["protocolVersion"], **version);
        assert_eq!(answer["result"]["serverInfo"]["name"], "haft");
        assert_eq!(answer["result"]["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(answer["result"]["instructions"], "How to use it.");
        assert_eq!(
            answer["result"]["capabilities"],
            json!({
            "tools": {"listChanged": true}, "resources": {"listChanged": true, "subscribe": true},
            "prompts": {"listChanged": true}, "completions": {}, "logging": {},
            "extensions": {"io.modelcontextprotocol/tasks": {}}})
        );
        assert_eq!(text(&client.ask(&call(2, "echo", &json!({"text": "hello"})))), "hello");
        client.end();
    }
}

#[test]
fn initialize_with_a_version_of_the_future_gets_the_newest_that_has_it() {
    for version in ["2026-07-28", "2999-01-01"] {
        let mut client = Client::start();
        assert_eq!(client.initialize(version)["result"]["protocolVersion"], "2025-11-25");
        client.end();
    }
}

#[test]
fn the_modern_lifecycle_needs_no_initialize() {
    let mut client = Client::start();
    let discovered = client.ask(&modern(1, "server/discover", json!({})));
    let versions = discovered["result"]["supportedVersions"].as_array().unwrap();
    assert!(
        versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2025-11-25")),
        "{discovered}"
    );
    assert_eq!(discovered["result"]["instructions"], "How to use it.");
    let listed = client.ask(&modern(2, "tools/list", json!({})));
    assert_eq!(listed["result"]["resultType"], "complete");
    assert!(listed["result"]["ttlMs"].is_u64() && listed["result"]["cacheScope"].is_string(), "{listed}");
    let called = client.ask(&modern(3, "tools/call", json!({"name": "echo", "arguments": {"text": "hi"}})));
    assert_eq!((text(&called), &called["result"]["resultType"]), ("hi", &json!("complete")));
    assert_eq!(client.code(&modern(4, "tools/call", json!({"name": "nothing"}))), -32602);
    assert_eq!(client.code(&modern(5, "tools/nothing", json!({}))), -32601);
    // Without its metadata a request is refused, and the next one served.
    assert_eq!(client.code(&json!({"jsonrpc": "2.0", "id": 6, "method": "tools/list"})), -32602);
    let mut unknown = modern(7, "tools/list", json!({}));
    unknown["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2999-01-01");
    assert_eq!(client.code(&unknown), -32022);
    assert!(client.ask(&modern(8, "tools/list", json!({})))["result"].is_object());
    client.end();
}

#[test]
fn discover_leaves_both_lifecycles_open() {
    let mut client = Client::start();
    client.ask(&modern(1, "server/discover", json!({})));
    assert_eq!(client.initialize("2025-11-25")["result"]["protocolVersion"], "2025-11-25");
    client.end();
}

#[test]
fn lists_the_tools_in_order_with_their_hints() {
    let mut client = Client::ready();
    let listed = client.ask(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.is_sorted(), "{names:?}");
    assert_eq!(
        *tools.iter().find(|tool| tool["name"] == "echo").unwrap(),
        json!({
            "name": "echo", "description": "Does what `echo` says.",
            "inputSchema": {"type": "object", "properties": {"text": {}}},
            "annotations": {"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true,
                "openWorldHint": false},
        })
    );
    assert!(listed["result"].get("resultType").is_none());
    let again = client.ask(&json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list"}));
    assert_eq!(again["result"], listed["result"]);
    let paged = json!({"jsonrpc": "2.0", "id": 4, "method": "tools/list", "params": {"cursor": "x"}});
    assert_eq!(client.code(&paged), -32602);
    client.end();
}

#[test]
fn answers_as_the_model_should_read_them() {
    let mut client = Client::ready();
    let mut result = |tool: &str, arguments: Value| client.ask(&call(2, tool, &arguments))["result"].clone();
    assert_eq!(
        result("echo", json!({"text": "a\nb"})),
        json!({"content": [{"type": "text", "text": "a\nb"}], "isError": false})
    );
    assert_eq!(
        result("fault", json!({})),
        json!({"content": [{"type": "text", "text": "it changed\nread it again"}], "isError": true})
    );
    assert_eq!(
        result("image", json!({})),
        json!({"content": [{"type": "image", "data": "iVBORw==", "mimeType": "image/png"}], "isError": false})
    );
    assert_eq!(
        result("notes", json!({})),
        json!({"content": [{"type": "text", "text": "done\nnote: repaired"}], "isError": false})
    );
    client.end();
}

#[test]
fn an_invalid_message_is_refused_and_the_next_one_served() {
    let mut client = Client::ready();
    let nested = "[".repeat(100_000);
    let lines: &[(&[u8], i64, Value)] = &[
        (b"{nonsense", -32700, Value::Null),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}", -32700, json!(1)),
        (nested.as_bytes(), -32700, Value::Null),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"x\"}", -32600, json!("x")),
        (b"{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"tools/none\"}", -32601, json!(4)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{}}", -32602, json!(5)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":99999999999999999999,\"method\":\"ping\"}", -32600, json!(1e20)),
    ];
    for (number, (line, code, id)) in (100..).zip(lines) {
        client.send_bytes(line);
        client.send_bytes(b"\n");
        let refused = client.next();
        assert_eq!((&refused["error"]["code"], &refused["id"]), (&json!(code), id), "{refused}");
        assert!(refused.as_object().unwrap().contains_key("id"));
        assert_eq!(text(&client.ask(&call(number, "echo", &json!({"text": "still here"})))), "still here");
    }
    client.end();
}

#[test]
fn a_line_that_is_too_long_is_skipped() {
    let mut client = Client::ready();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..65 {
        client.send_bytes(&piece);
    }
    client.send_bytes(b"\n");
    assert_eq!(client.next()["error"]["code"], -32600);
    assert!(client.ask(&call(2, "echo", &json!({"text": "x"})))["result"].is_object());
    client.end();
}

#[test]
fn line_ends_byte_order_marks_and_empty_lines_do_not_matter() {
    let mut client = Client::ready();
    client.send_bytes(b"\n\r\n  \n\xEF\xBB\xBF{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\r\n");
    assert_eq!(client.next(), json!({"jsonrpc": "2.0", "id": 2, "result": {}}));
    client.end();
}

#[test]
fn before_initialize_everything_gets_an_answer() {
    let mut client = Client::start();
    assert_eq!(client.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}))["result"], json!({}));
    assert_eq!(client.code(&call(2, "echo", &json!({"text": "x"}))), -32602);
    assert_eq!(client.code(&json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list"})), -32602);
    assert_eq!(client.code(&json!({"jsonrpc": "2.0", "id": 4, "method": "initialize"})), -32602);
    assert_eq!(client.code(&json!({"jsonrpc": "2.0", "id": 5, "method": "nothing"})), -32601);
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}));
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    let mut unknown = modern(6, "tools/list", json!({}));
    unknown["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2999-01-01");
    assert_eq!(client.code(&unknown), -32022);
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    assert!(client.initialize("2025-11-25")["result"].is_object());
    client.end();
}

#[test]
fn a_batch_is_answered_where_the_revision_has_them() {
    let batch = json!([
        call(2, "echo", &json!({"text": "a"})),
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/none"},
        5,
        call(4, "wait", &json!({})),
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}},
        call(5, "echo", &json!({"text": "b"})),
    ]);
    let mut client = Client::start();
    client.initialize("2025-03-26");
    client.send(&batch);
    let mut answers = client.next().as_array().unwrap().clone();
    answers.sort_by_key(|answer| answer["id"].as_i64());
    let seen: Vec<_> = answers.iter().map(|answer| (&answer["id"], &answer["error"]["code"])).collect();
    assert_eq!(json!(seen), json!([[null, -32600], [2, null], [3, -32601], [5, null]]));
    client.send(&json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}]));
    assert_eq!(client.code_of_none(&json!([])), -32600);
    assert_eq!(client.code_of_none(&json!(vec![0; 101])), -32600);
    client.end();
    let mut client = Client::ready();
    assert_eq!(client.code_of_none(&batch), -32600);
    assert_eq!(text(&client.ask(&call(2, "echo", &json!({"text": "x"})))), "x");
    client.end();
}

#[test]
fn an_id_in_flight_is_refused() {
    let mut client = Client::ready();
    client.send(&call(7, "wait", &json!({})));
    assert_eq!(client.code(&call(7, "echo", &json!({}))), -32600);
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}));
    assert_eq!(text(&client.ask(&call("7", "echo", &json!({"text": "another id"})))), "another id");
    client.end();
}

#[test]
fn a_cancelled_call_stops_and_is_not_answered() {
    let mut client = Client::ready();
    client.send(&with_token(&call(7, "wait", &json!({})), "t"));
    assert_eq!(client.next()["params"]["message"], "waiting");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 7, "reason": "enough"}}));
    // Its id is free once it has stopped.
    let answer = loop {
        let answer = client.ask(&call(7, "echo", &json!({"text": "after"})));
        if answer["error"]["code"] != -32600 {
            break answer;
        }
    };
    assert_eq!(text(&answer), "after");
    client.end();
}

#[test]
fn progress_grows_and_its_last_step_comes_before_the_answer() {
    let mut client = Client::ready();
    client.send(&with_token(&call(2, "steps", &json!({"count": 1000, "total": 1000})), 42));
    let mut steps = Vec::new();
    let answer = loop {
        let message = client.next();
        if message["id"] == 2 {
            break message;
        }
        assert_eq!(message["method"], "notifications/progress");
        assert_eq!(
            (&message["params"]["progressToken"], &message["params"]["total"]),
            (&json!(42), &json!(1000.0))
        );
        steps.push(message["params"]["progress"].as_f64().unwrap());
    };
    assert_eq!(text(&answer), "stepped");
    assert!(steps.is_sorted() && steps.len() <= 50, "{steps:?}");
    assert_eq!(steps.last(), Some(&1000.0));
    // Without a progress token, no notification is sent.
    client.send(&call(3, "steps", &json!({"count": 10})));
    assert_eq!(client.next()["id"], 3);
    client.end();
}

#[test]
fn calls_run_together() {
    let mut client = Client::ready();
    client.send(&call(2, "wait", &json!({})));
    client.send(&call(3, "wait", &json!({})));
    assert_eq!(text(&client.ask(&call(4, "echo", &json!({"text": "past them"})))), "past them");
    client.end();
}

#[test]
fn calls_enter_the_runtime_in_the_order_in_which_they_came() {
    for mut client in [Client::ready(), Client::ready_on_threads(4)] {
        let all: Vec<Value> =
            (0..500).map(|number| call(number, "order", &json!({"number": number}))).collect();
        client.send_together(&all);
        let mut longest = Vec::new();
        for _ in &all {
            let order: Vec<u64> = serde_json::from_str(text(&client.next())).unwrap();
            if order.len() > longest.len() {
                longest = order;
            }
        }
        assert_eq!(longest, (0..500).collect::<Vec<u64>>());
        client.end();
    }
}

#[test]
fn a_call_that_panics_is_answered() {
    let mut client = Client::ready();
    assert_eq!(client.code(&call(2, "panic", &json!({}))), -32603);
    assert!(client.ask(&call(3, "echo", &json!({"text": "x"})))["result"].is_object());
    client.end();
}

#[test]
fn calls_beyond_the_concurrency_limit_are_all_answered() {
    let mut client = Client::ready();
    let all: Vec<Value> = (0..5000).map(|number| call(number, "echo", &json!({"text": "x"}))).collect();
    client.send_together(&all);
    for _ in &all {
        assert_eq!(text(&client.next()), "x");
    }
    client.end();
}

#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    let mut client = Client::ready_without_reading();
    let mut sent = 0;
    // A hundred and thirty megabytes of answers, if all were built; and more requests than the pipe and the reader hold.
    let ballast = "x".repeat(1000);
    let taken = client.send_until_blocked(Duration::from_millis(500), || {
        sent += 1;
        (sent <= 2000).then(|| call(sent, "huge", &json!({"bytes": 65536, "ballast": ballast})).to_string())
    });
    assert!(taken < 2000, "all {taken} requests were taken");
    client.start_reading();
    client.finish_sending();
    for _ in 0..2000 {
        assert_eq!(text(&client.next()).len(), 65536);
    }
    client.end();
}

#[test]
fn the_end_of_input_cancels_calls_in_flight() {
    let mut client = Client::ready();
    client.send(&call(2, "wait", &json!({})));
    client.send(&call(3, "stubborn", &json!({})));
    client.close_input();
    let answer = client.next();
    assert_eq!((&answer["id"], text(&answer)), (&json!(2), "stopped"));
    client.has_ended();
}

#[test]
fn a_script_that_closes_its_input_at_once_gets_its_answers() {
    let mut client = Client::start();
    let mut all = client::initialize(1, "2025-11-25").to_string();
    for number in 2..=100 {
        all += "\n";
        all += &call(number, "echo", &json!({"text": "x"})).to_string();
    }
    // The last line has no end.
    client.send_bytes(all.as_bytes());
    client.close_input();
    let ids: Vec<i64> = (1..=100).map(|_| client.next()["id"].as_i64().unwrap()).collect();
    assert!(ids.contains(&100), "{ids:?}");
    client.has_ended();
}

#[test]
fn a_client_that_reads_long_after_the_end_of_input_gets_its_answers_whole() {
    let mut client = Client::ready_without_reading();
    for number in 1..=8 {
        client.send(&call(number, "huge", &json!({"bytes": 65536})));
    }
    client.close_input();
    // Longer than a call may go on after the end of input.
    thread::sleep(Duration::from_millis(1500));
    client.start_reading();
    for _ in 1..=8 {
        assert_eq!(text(&client.next()).len(), 65536);
    }
    client.has_ended();
}

#[test]
fn answers_that_nobody_takes_after_the_end_of_input_are_an_error_of_the_server() {
    let (server_input, mut input) = pipe().unwrap();
    let (_unread, server_output) = pipe().unwrap();
    for message in [client::initialize(0, "2025-11-25"), call(1, "huge", &json!({"bytes": 1_000_000}))] {
        input.write_all(format!("{message}\n").as_bytes()).unwrap();
    }
    drop(input);
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let about = serve::About::new("How to use it.");
    let served = runtime.block_on(serve::mcp(FakeBackend::default(), about, server_input, server_output));
    let error = served.unwrap_err().to_string();
    assert!(error.contains("took none of the last") && error.ends_with("bytes for 5 s"), "{error}");
}

#[test]
fn a_client_that_goes_away_ends_the_server() {
    let mut client = Client::ready();
    client.send(&call(2, "wait", &json!({})));
    client.close_output();
    // The first line may still be read by the thread that is about to end.
    client.send(&call(3, "echo", &json!({"text": "to nobody"})));
    client.wait_until_nobody_reads();
    client.send(&call(4, "echo", &json!({"text": "to nobody"})));
    client.has_ended();
}

#[test]
fn empty_input_ends_the_server() {
    let mut client = Client::start();
    client.close_input();
    client.has_ended();
}

fn with_token(call: &Value, token: impl Into<Value>) -> Value {
    let mut call = call.clone();
    call["params"]["_meta"] = json!({"progressToken": token.into()});
    call
}
