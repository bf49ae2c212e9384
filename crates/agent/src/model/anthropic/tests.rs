//! Tests of Anthropic's wire format, for streams that are cut at any place.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::needless_pass_by_value, reason = "tests")]

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use kit::{Kinds, Mode, Origin, Spec};
use serde_json::{Value, json};

use super::*;
use crate::model::{
    Item, MessagePart, OwnTool, Piece, ResultOf, Usage, Why,
    endpoint::{Endpoint, Key, Secret},
    http::RetryPolicy,
    loopback::{Loopback, Reply},
};

fn served(url: &str) -> Served {
    let key = Key::Header("x-api-key".parse().unwrap(), Secret::new("sk-ant-key"));
    let mut endpoint = Endpoint::new(url).with(Some(key));
    endpoint.retry_policy =
        RetryPolicy { tries: 3, pause: Duration::from_millis(1), idle: Duration::from_secs(20) };
    let abilities = Abilities {
        calls: true,
        images: true,
        window: 200_000,
        longest: 32_000,
        own_tools: vec![OwnTool::WebSearch],
        price: None,
    };
    let (name, model) = ("anthropic:claude-sonnet-4-5".to_owned(), "claude-sonnet-4-5".to_owned());
    Served { name, model, endpoint, abilities, effort: None }
}

fn request(items: Vec<Item>) -> Request {
    Request { system: "Be brief.".into(), items, tools: Arc::default(), step: 0, longest: None, format: None }
}

/// Returns the events of an answer.
async fn heard(reply: Reply) -> Vec<Result<Event, ModelError>> {
    let loopback = Loopback::serve([reply]).await;
    let model = Anthropic::new(served(&loopback.url));
    model.stream(request(vec![Item::person("Go.")])).collect().await
}

async fn events(text: &str) -> Vec<Event> {
    heard(Reply::events(text)).await.into_iter().map(Result::unwrap).collect()
}

/// Returns events as the provider sends them.
fn stream_of(events: &[Value]) -> String {
    events.iter().map(|it| format!("event: {}\ndata: {it}\n\n", it["type"].as_str().unwrap())).collect()
}

fn start(index: u64, block: Value) -> Value {
    json!({ "type": "content_block_start", "index": index, "content_block": block })
}

fn delta(index: u64, delta: Value) -> Value {
    json!({ "type": "content_block_delta", "index": index, "delta": delta })
}

fn stop(index: u64) -> Value {
    json!({ "type": "content_block_stop", "index": index })
}

fn call(index: u64, id: &str, name: &str) -> Value {
    start(index, json!({ "type": "tool_use", "id": id, "name": name, "input": {} }))
}

fn written(index: u64, part: &str) -> Value {
    delta(index, json!({ "type": "input_json_delta", "partial_json": part }))
}

fn said(index: u64, text: &str) -> Value {
    delta(index, json!({ "type": "text_delta", "text": text }))
}

fn begin() -> Value {
    json!({ "type": "message_start", "message": {
        "id": "msg_01", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": { "input_tokens": 25, "cache_creation_input_tokens": 7, "cache_read_input_tokens": 1000, "output_tokens": 1 },
    } })
}

fn end(reason: &str) -> [Value; 2] {
    [
        json!({ "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null }, "usage": { "output_tokens": 89 } }),
        json!({ "type": "message_stop" }),
    ]
}

fn answer(middle: impl IntoIterator<Item = Value>, reason: &str) -> String {
    let mut all = vec![begin()];
    all.extend(middle);
    all.extend(end(reason));
    stream_of(&all)
}

fn opaque(block: Value) -> MessagePart {
    let value = json!({ "model": "claude-sonnet-4-5", "block": block });
    MessagePart::Opaque { wire: "anthropic".to_owned(), value }
}

fn closed(index: usize, id: &str, tool: &str, arguments: &str) -> Event {
    let (id, tool, arguments) = (id.to_owned(), tool.to_owned(), arguments.to_owned());
    Event::CallClosed { index, id, tool, arguments }
}

fn usage() -> Event {
    Event::Used(Usage { input: 25, cached: 1000, kept: 7, output: 89, reasoning: 0 })
}

/// Returns an answer with everything that the format has.
fn whole() -> String {
    answer(
        [
            start(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
            json!({ "type": "ping" }),
            delta(0, json!({ "type": "thinking_delta", "thinking": "First " })),
            delta(0, json!({ "type": "thinking_delta", "thinking": "look." })),
            delta(0, json!({ "type": "signature_delta", "signature": "EqQB" })),
            stop(0),
            start(1, json!({ "type": "redacted_thinking", "data": "EmwK" })),
            stop(1),
            start(2, json!({ "type": "text", "text": "" })),
            said(2, "Grüße, "),
            said(2, "日本."),
            stop(2),
            start(
                3,
                json!({ "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {} }),
            ),
            written(3, "{\"query\": "),
            written(3, "\"haft\"}"),
            stop(3),
            start(
                4,
                json!({ "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
                    { "type": "web_search_result", "title": "Haft", "url": "https://example.org", "encrypted_content": "Eq" },
                ] }),
            ),
            stop(4),
            json!({ "type": "something_new", "with": [1, 2] }),
            start(5, json!({ "type": "block_of_tomorrow" })),
            delta(5, json!({ "type": "delta_of_tomorrow" })),
            stop(5),
            call(6, "toolu_1", "read"),
            written(6, ""),
            written(6, "{\"path\": \"gr"),
            written(6, "üße.txt\"}"),
            stop(6),
            call(7, "toolu_2", "tree"),
            written(7, ""),
            stop(7),
        ],
        "tool_use",
    )
}

fn whole_events() -> Vec<Event> {
    vec![
        Event::Reasoning("First ".to_owned()),
        Event::Reasoning("look.".to_owned()),
        Event::Opaque(opaque(json!({ "type": "thinking", "thinking": "First look.", "signature": "EqQB" }))),
        Event::Opaque(opaque(json!({ "type": "redacted_thinking", "data": "EmwK" }))),
        Event::Text("Grüße, ".to_owned()),
        Event::Text("日本.".to_owned()),
        Event::Opaque(opaque(
            json!({ "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": { "query": "haft" } }),
        )),
        Event::Opaque(opaque(
            json!({ "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
                { "type": "web_search_result", "title": "Haft", "url": "https://example.org", "encrypted_content": "Eq" },
            ] }),
        )),
        Event::CallBegan { index: 0, tool: "read".to_owned() },
        Event::CallGrew { index: 0, bytes: 12 },
        Event::CallGrew { index: 0, bytes: 11 },
        closed(0, "toolu_1", "read", r#"{"path": "grüße.txt"}"#),
        Event::CallBegan { index: 1, tool: "tree".to_owned() },
        closed(1, "toolu_2", "tree", "{}"),
        usage(),
        Event::End(Why::Calls),
    ]
}

#[tokio::test]
async fn an_answer_is_the_same_wherever_it_is_cut() {
    let text = whole();
    assert_eq!(events(&text).await, whole_events());
    let replies = (1..text.len()).map(|at| Reply::events(&text).split_at(at));
    let loopback = Loopback::serve(replies).await;
    let model = Anthropic::new(served(&loopback.url));
    let answers = stream::iter(1..text.len())
        .map(|_| model.stream(request(vec![Item::person("Go.")])).map(Result::unwrap).collect::<Vec<_>>())
        .buffer_unordered(16);
    let mut answers = std::pin::pin!(answers);
    let mut count = 1;
    while let Some(events) = answers.next().await {
        assert_eq!(events, whole_events());
        count += 1;
    }
    assert_eq!(count, text.len());
    let single = heard(Reply::events(&text).in_parts_of(1)).await;
    assert_eq!(single.into_iter().map(Result::unwrap).collect::<Vec<_>>(), whole_events());
    // Some servers end lines with CRLF.
    assert_eq!(events(&text.replace('\n', "\r\n")).await, whole_events());
}

#[tokio::test]
async fn call_in_many_chunks_is_one_call() {
    let arguments = json!({ "path": "a", "content": "zwölf \"Boxkämpfer\" jagen\n".repeat(20) }).to_string();
    let letters: Vec<char> = arguments.chars().collect();
    let parts: Vec<String> =
        letters.chunks(letters.len().div_ceil(100)).map(|it| it.iter().collect()).collect();
    assert!(parts.len() > 90);
    let middle = std::iter::once(call(0, "toolu_1", "write"))
        .chain(parts.iter().map(|it| written(0, it)))
        .chain([stop(0)]);
    let events = events(&answer(middle, "tool_use")).await;
    let grew: usize =
        events.iter().map(|it| if let Event::CallGrew { bytes, .. } = it { *bytes } else { 0 }).sum();
    assert_eq!(grew, arguments.len());
    assert!(events.contains(&closed(0, "toolu_1", "write", &arguments)));
}

#[tokio::test]
async fn interleaved_calls_stay_separate() {
    let text = answer(
        [
            call(0, "toolu_1", "read"),
            call(1, "toolu_2", "grep"),
            written(1, r#"{"pattern""#),
            written(0, r#"{"path":"#),
            written(1, r#": "x"}"#),
            stop(1),
            written(0, r#" "a"}"#),
            stop(0),
        ],
        "tool_use",
    );
    let events: Vec<Event> = events(&text).await;
    let ends: Vec<&Event> = events.iter().filter(|it| matches!(it, Event::CallClosed { .. })).collect();
    let expected = [
        closed(1, "toolu_2", "grep", r#"{"pattern": "x"}"#),
        closed(0, "toolu_1", "read", r#"{"path": "a"}"#),
    ];
    assert_eq!(ends, expected.iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn call_closes_before_the_rest_of_the_answer_arrives() {
    let text = answer([call(0, "toolu_1", "read"), written(0, r#"{"path": "a"}"#), stop(0)], "tool_use");
    let until = text.find("event: message_delta").unwrap();
    let loopback = Loopback::serve([Reply::events(&text[..until]).never_ending()]).await;
    let model = Anthropic::new(served(&loopback.url));
    let mut events = model.stream(request(vec![Item::person("Go.")]));
    let mut last = None;
    while !matches!(last, Some(Event::CallClosed { .. })) {
        last = Some(events.next().await.unwrap().unwrap());
    }
    assert_eq!(last, Some(closed(0, "toolu_1", "read", r#"{"path": "a"}"#)));
}

#[tokio::test]
async fn invalid_json_arguments_are_passed_on_unchanged() {
    let bad = r#"{"path": "a", "content": }"#;
    let text = answer(
        [call(0, "toolu_1", "write"), written(0, bad), stop(0), call(1, "toolu_2", "tree"), stop(1)],
        "tool_use",
    );
    let events = events(&text).await;
    assert!(events.contains(&closed(0, "toolu_1", "write", bad)), "{events:?}");
    assert!(events.contains(&closed(1, "toolu_2", "tree", "{}")), "{events:?}");
}

#[tokio::test]
async fn call_cut_off_by_the_length_limit_is_not_made() {
    for cut in [r#"{"path": "a", "content": "half of"#, ""] {
        let text = answer(
            [
                call(0, "toolu_1", "read"),
                written(0, r#"{"path": "a"}"#),
                stop(0),
                call(1, "toolu_2", "write"),
                written(1, cut),
                stop(1),
            ],
            "max_tokens",
        );
        let events = events(&text).await;
        let count = events.iter().filter(|it| matches!(it, Event::CallClosed { .. })).count();
        assert_eq!((count, events.last()), (1, Some(&Event::End(Why::Length))), "{events:?}");
    }
}

#[tokio::test]
async fn end_reason_is_the_one_of_the_provider() {
    for (reason, why) in [
        ("end_turn", Why::Done),
        ("stop_sequence", Why::Done),
        ("max_tokens", Why::Length),
        ("model_context_window_exceeded", Why::Length),
        ("pause_turn", Why::Paused),
        ("refusal", Why::Refused),
        ("reason_of_tomorrow", Why::Done),
    ] {
        let text = answer([start(0, json!({ "type": "text", "text": "" })), said(0, "Hm."), stop(0)], reason);
        let expected = vec![Event::Text("Hm.".to_owned()), usage(), Event::End(why)];
        assert_eq!(events(&text).await, expected, "{reason}");
    }
}

#[tokio::test]
async fn answer_that_breaks_off_at_any_event_is_an_error() {
    let text = whole();
    let ends: Vec<usize> = text.match_indices("\n\n").map(|(at, _)| at + 2).collect();
    let (_, cuts) = ends.split_last().unwrap();
    for at in [0].iter().chain(cuts) {
        let heard = heard(Reply::events(&text).broken_at(*at)).await;
        let (last, before) = heard.split_last().unwrap();
        assert_eq!(last.as_ref().unwrap_err().breach, Breach::Broken, "{at}");
        let before: Vec<&Event> = before.iter().map(|it| it.as_ref().unwrap()).collect();
        let expected = whole_events();
        assert_eq!(before, expected.iter().take(before.len()).collect::<Vec<_>>(), "{at}");
    }
    // Cut between events, before the end; all but the last event, which adds nothing.
    let last = ends.len() - 2;
    for (index, at) in ends.iter().enumerate().take(last) {
        let heard = heard(Reply::events(&text[..*at])).await;
        assert_eq!(heard.last().unwrap().as_ref().unwrap_err().breach, Breach::Broken, "{index}");
    }
    assert_eq!(events(&text[..ends[last]]).await, whole_events());
}

#[tokio::test]
async fn invalid_events_are_malformed() {
    for bad in [
        "{\"type\": \"content_block_delta\", \"index\": 0",
        "not json",
        "[]",
        "{}",
        r#"{"type": "content_block_start", "content_block": {"type": "text"}}"#,
        r#"{"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": "x"}}"#,
        r#"{"type": "content_block_stop", "index": 9}"#,
    ] {
        let text = format!("{}data: {bad}\n\n{}", stream_of(&[begin()]), stream_of(&end("end_turn")));
        let heard = heard(Reply::events(&text)).await;
        assert_eq!(heard.last().unwrap().as_ref().unwrap_err().breach, Breach::Malformed, "{bad}");
    }
}

#[tokio::test]
async fn error_within_an_answer_has_its_kind() {
    for (kind, message, breach) in [
        ("overloaded_error", "Overloaded", Breach::Busy),
        ("api_error", "Internal", Breach::Busy),
        ("authentication_error", "bad sk-ant-key", Breach::Auth),
        ("invalid_request_error", "prompt is too long: 9 > 8", Breach::TooLong),
        ("invalid_request_error", "tools.0: wrong", Breach::Refused),
        ("error_of_tomorrow", "hm", Breach::Busy),
    ] {
        let error = json!({ "type": "error", "error": { "type": kind, "message": message } });
        let heard = heard(Reply::events(&stream_of(&[begin(), error]))).await;
        let error = heard.last().unwrap().as_ref().unwrap_err();
        assert_eq!(error.breach, breach, "{kind}");
        assert!(error.what.contains(kind) && !error.what.contains("sk-ant-key"), "{error}");
    }
}

#[tokio::test]
async fn overloaded_provider_is_retried() {
    let busy = |status: u16, kind: &str| {
        Reply::json(status, &json!({ "type": "error", "error": { "type": kind, "message": "later" } }))
    };
    let replies = [
        busy(429, "rate_limit_error").header("retry-after", "0"),
        busy(529, "overloaded_error"),
        Reply::events(&whole()),
    ];
    let loopback = Loopback::serve(replies).await;
    let model = Anthropic::new(served(&loopback.url));
    let events: Vec<Event> =
        model.stream(request(vec![Item::person("Go.")])).map(Result::unwrap).collect().await;
    let (waits, rest) = events.split_at(2);
    assert!(waits.iter().all(|it| matches!(it, Event::Waiting { .. })), "{waits:?}");
    assert_eq!(rest, whole_events());
}

fn tool(name: &str, origin: Origin) -> Spec {
    Spec {
        name: name.to_owned(),
        description: format!("It does {name}."),
        schema: json!({ "type": "object", "properties": { "path": { "type": "string" } } }),
        mode: Mode::Direct,
        at_most: Kinds::ALL,
        output: None,
        origin,
    }
}

fn picture(data: Option<&[u8]>) -> Piece {
    Piece::Image { mime: "image/png".to_owned(), handle: "out_1".to_owned(), data: data.map(Arc::from) }
}

fn model_said(said: Vec<MessagePart>) -> Item {
    Item::Model { said }
}

fn called(id: &str, tool: &str, arguments: &str) -> MessagePart {
    MessagePart::Call { id: id.to_owned(), tool: tool.to_owned(), arguments: arguments.to_owned() }
}

fn text(text: &str) -> MessagePart {
    MessagePart::Text { text: text.to_owned() }
}

fn result(id: &str, ok: bool, pieces: Vec<Piece>) -> ResultOf {
    ResultOf { id: id.to_owned(), tool: "read".to_owned(), ok, pieces }
}

fn messages(items: Vec<Item>) -> Value {
    let mut body = request::body(&served("http://127.0.0.1"), &request(items), Thinking::Kept);
    for message in body["messages"].as_array_mut().unwrap() {
        for block in message["content"].as_array_mut().unwrap() {
            block.as_object_mut().unwrap().shift_remove("cache_control");
        }
    }
    body["messages"].take()
}

#[tokio::test]
async fn request_has_the_form_of_the_api() {
    let loopback = Loopback::serve([Reply::events(&whole())]).await;
    let model = Anthropic::new(served(&loopback.url));
    let thinking = json!({ "type": "thinking", "thinking": "Hm.", "signature": "EqQB" });
    let items = vec![
        Item::person("Look at it."),
        model_said(vec![
            opaque(thinking.clone()),
            MessagePart::Opaque { wire: "responses".to_owned(), value: json!({ "type": "reasoning" }) },
            text("I look."),
            called("toolu_1", "read", r#"{"path": "a"}"#),
            called("call:2|x", "read", "{\"path\": "),
        ]),
        Item::Results {
            results: vec![
                result("toolu_1", true, vec![Piece::text("what it says"), picture(Some(b"\x89PNG"))]),
                result("call:2|x", false, vec![Piece::text("no such file")]),
            ],
        },
        Item::Person { pieces: vec![Piece::text("And this?"), Piece::text("  "), picture(None)] },
    ];
    let tools: Arc<[Spec]> = Arc::new([
        tool("read", Origin::Program),
        tool("image_gen", Origin::Provider),
        tool("web_search", Origin::Provider),
    ]);
    let asked = Request { tools, longest: Some(1000), ..request(items) };
    model.stream(asked).collect::<Vec<_>>().await;
    let asked = loopback.asked().remove(0);
    assert_eq!(asked.line, "POST /v1/messages");
    assert_eq!(asked.header("x-api-key"), Some("sk-ant-key"));
    assert_eq!(asked.header("anthropic-version"), Some("2023-06-01"));
    let mark = json!({ "type": "ephemeral" });
    let expected = json!({
        "model": "claude-sonnet-4-5",
        "max_tokens": 1000,
        "stream": true,
        "tools": [
            { "name": "read", "description": "It does read.",
              "input_schema": { "type": "object", "properties": { "path": { "type": "string" } } } },
            { "type": "web_search_20250305", "name": "web_search", "max_uses": 5, "cache_control": mark },
        ],
        "system": [{ "type": "text", "text": "Be brief.", "cache_control": mark }],
        "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "Look at it.", "cache_control": mark }] },
            { "role": "assistant", "content": [
                thinking,
                { "type": "text", "text": "I look." },
                { "type": "tool_use", "id": "toolu_1", "name": "read", "input": { "path": "a" } },
                { "type": "tool_use", "id": "call_2_x", "name": "read", "input": { "_unparsed": "{\"path\": " } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "toolu_1", "content": [
                    { "type": "text", "text": "what it says" },
                    { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "iVBORw==" } },
                ] },
                { "type": "tool_result", "tool_use_id": "call_2_x", "is_error": true,
                  "content": [{ "type": "text", "text": "no such file" }] },
                { "type": "text", "text": "And this?" },
                { "type": "text", "text": "[picture out_1: image/png]", "cache_control": mark },
            ] },
        ],
    });
    assert_eq!(asked.body, expected, "{:#}", asked.body);
}

#[test]
fn content_that_the_api_refuses_is_not_sent() {
    let broken = json!({ "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {} });
    let items = vec![
        model_said(vec![text("I begin.")]),
        Item::person(" \n"),
        model_said(vec![
            text(""),
            opaque(broken.clone()),
            opaque(json!({ "type": "thinking", "thinking": "x" })),
        ]),
        Item::person("a"),
        Item::Person { pieces: vec![] },
        Item::person("b"),
        model_said(vec![called("", "a tool/ünd", ""), called("1", "x", "[1]"), called("1", "x", "null")]),
        Item::Results {
            results: vec![result("", true, vec![]), result("nobody's", true, vec![Piece::text("lost")])],
        },
    ];
    let one = |text: &str| json!({ "type": "text", "text": text });
    let call = |id: &str, name: &str, input: Value| json!({ "type": "tool_use", "id": id, "name": name, "input": input });
    let expected = json!([
        { "role": "user", "content": [one("Go on.")] },
        { "role": "assistant", "content": [one("I begin.")] },
        { "role": "user", "content": [one("a"), one("b")] },
        { "role": "assistant", "content": [
            call("call", "a_tool__nd", json!({})),
            call("1", "x", json!({ "_unparsed": "[1]" })),
            call("1_2", "x", json!({ "_unparsed": "null" })),
        ] },
        { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "call" }, one("lost")] },
    ]);
    assert_eq!(messages(items), expected);
    // A search that the provider paused is to be continued.
    let paused = messages(vec![Item::person("a"), model_said(vec![opaque(broken.clone())])]);
    assert_eq!(paused[1]["content"], json!([broken]));
}

#[test]
fn cache_breakpoints_stay_within_the_limit() {
    let items = (0..9).flat_map(|_| [Item::person("a"), model_said(vec![text("b")])]).collect();
    let request = Request { tools: Arc::new([tool("read", Origin::Program)]), ..request(items) };
    let body = request::body(&served("http://127.0.0.1"), &request, Thinking::Kept).to_string();
    assert_eq!(body.matches("cache_control").count(), 4);
}

#[test]
fn schema_is_sent_as_structured_output_beside_the_effort() {
    let mut served = served("http://127.0.0.1");
    (served.model, served.effort) = ("claude-opus-4-6".to_owned(), Some("low".to_owned()));
    let schema = json!({"type": "object", "properties": {"count": {"type": "integer", "minimum": 0}}});
    let request = Request { format: Some(Arc::new(schema)), ..request(vec![Item::person("a")]) };
    let body = request::body(&served, &request, Thinking::Kept);
    let enforced = json!({"type": "object", "properties": {"count": {"type": "integer"}}, "additionalProperties": false});
    let format = json!({"type": "json_schema", "schema": enforced});
    assert_eq!(body["output_config"], json!({"effort": "low", "format": format}));
}

#[test]
fn effort_is_sent_in_the_form_of_each_model() {
    let body = |model: &str, effort: &str, longest: u64| {
        let mut served = served("http://127.0.0.1");
        let effort = Some(effort.to_owned()).filter(|it| !it.is_empty());
        (served.model, served.effort, served.abilities.longest) = (model.to_owned(), effort, longest);
        let body = request::body(&served, &request(vec![Item::person("a")]), Thinking::Kept);
        (body["thinking"].clone(), body["output_config"].clone())
    };
    let budget = |tokens: u64| (json!({ "type": "enabled", "budget_tokens": tokens }), Value::Null);
    let adaptive =
        |effort: &str| (json!({ "type": "adaptive", "display": "summarized" }), json!({ "effort": effort }));
    assert_eq!(body("claude-sonnet-4-5-20250929", "low", 64_000), budget(4_000));
    assert_eq!(body("claude-3-7-sonnet-20250219", "high", 64_000), budget(24_000));
    assert_eq!(body("claude-opus-4-20250514", "high", 16_000), budget(12_000));
    assert_eq!(body("claude-haiku-4-5", "12000", 64_000), budget(12_000));
    assert_eq!(body("some-other", "medium", 64_000), budget(10_000));
    assert_eq!(body("claude-haiku-4-5", "high", 1_200), (Value::Null, Value::Null));
    assert_eq!(body("claude-opus-4-6", "max", 64_000), adaptive("max"));
    assert_eq!(body("anthropic/claude-sonnet-4.6", "low", 64_000), adaptive("low"));
    assert_eq!(body("claude-opus-5", "xhigh", 64_000), adaptive("xhigh"));
    assert_eq!(body("claude-fable-5-1", "high", 64_000), adaptive("high"));
    assert_eq!(body("claude-opus-5", "minimal", 64_000), adaptive("low"));
    assert_eq!(body("claude-opus-5-5", "", 64_000), (adaptive("").0, Value::Null));
    assert_eq!(body("claude-opus-4-6", "", 64_000), (Value::Null, Value::Null));
    assert_eq!(body("claude-opus-5", "none", 64_000), (json!({ "type": "disabled" }), Value::Null));
}

#[tokio::test]
async fn refused_thinking_is_left_out() {
    let refused = json!({ "type": "error", "error": {
        "type": "invalid_request_error",
        "message": "messages.1.content.0: `thinking` or `redacted_thinking` blocks cannot be modified",
    } });
    let replies = [Reply::json(400, &refused), Reply::events(&whole()), Reply::json(400, &refused)];
    let loopback = Loopback::serve(replies).await;
    let mut served = served(&loopback.url);
    served.effort = Some("low".to_owned());
    let model = Anthropic::new(served);
    let items = |by: &str| {
        let block = json!({ "type": "thinking", "thinking": "Hm.", "signature": "EqQB" });
        let value = json!({ "model": by, "block": block });
        let thought = MessagePart::Opaque { wire: "anthropic".to_owned(), value };
        vec![Item::person("a"), model_said(vec![thought, text("b")]), Item::person("c")]
    };
    let asked = model.stream(request(items("claude-sonnet-4-5"))).map(Result::unwrap);
    assert_eq!(asked.collect::<Vec<_>>().await, whole_events());
    let bodies: Vec<String> = loopback.asked().iter().map(|it| it.body.to_string()).collect();
    assert!(bodies[0].contains("Hm.") && bodies[0].contains("budget_tokens"), "{}", bodies[0]);
    assert!(!bodies[1].contains("Hm.") && !bodies[1].contains("budget_tokens"), "{}", bodies[1]);
    // Thinking of another model is not sent at all, and a refusal without any thinking is an error.
    let mut plain = super::tests::served(&loopback.url);
    plain.effort = None;
    let heard: Vec<_> = Anthropic::new(plain).stream(request(items("claude-opus-5"))).collect().await;
    assert_eq!(heard.last().unwrap().as_ref().unwrap_err().breach, Breach::Refused);
    assert!(!loopback.asked()[2].body.to_string().contains("Hm."));
    assert_eq!(loopback.asked().len(), 3);
}

mod in_the_loop {
    use std::path::Path;

    use runtime::{Runtime, Settings, Unattended};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{Agent, Bounds, Ended, Silent};

    fn session(dir: &Path) -> runtime::Session {
        std::fs::create_dir(dir.join("ws")).unwrap();
        std::fs::write(dir.join("ws/notes.txt"), "the kettle is blue\n").unwrap();
        let settings = Settings {
            network: Default::default(),
            tool_files: Default::default(),
            workspace: dir.join("ws"),
            roots: Vec::new(),
            state: dir.join("state"),
            config: dir.join("config"),
            policy: Default::default(),
            other_names: kit::files::OtherNames::Refuse,
            allowed: None,
            deadline: Duration::from_secs(60),
            secrets: Default::default(),
            commands: Default::default(),
        };
        Runtime::open(settings, tools::all()).unwrap().session(None, "test", Arc::new(Unattended))
    }

    #[tokio::test]
    async fn tool_result_is_sent_back_with_the_reasoning() {
        let signed = json!({ "type": "thinking", "thinking": "Look.", "signature": "EqQB" });
        let first = answer(
            [
                start(0, signed.clone()),
                stop(0),
                call(1, "toolu_1", "read"),
                written(1, r#"{"path": "no"#),
                written(1, r#"tes.txt"}"#),
                stop(1),
            ],
            "tool_use",
        );
        let second =
            answer([start(0, json!({ "type": "text", "text": "" })), said(0, "Blue."), stop(0)], "end_turn");
        let loopback = Loopback::serve([Reply::events(&first).in_parts_of(7), Reply::events(&second)]).await;
        let dir = tempfile::tempdir().unwrap();
        let session = session(dir.path());
        let model = Arc::new(Anthropic::new(served(&loopback.url)));
        let mut agent = Agent::open(crate::Settings {
            session,
            model,
            system: "Be brief.".into(),
            bounds: Bounds::default(),
            visible: Default::default(),
            host: Arc::new(Silent),
        })
        .unwrap();
        let said = Some("Which colour has the kettle?".to_owned());
        let outcome = agent.turn(said, &CancellationToken::new()).await.unwrap();
        assert_eq!((outcome.ended, outcome.steps, outcome.text.as_str()), (Ended::Done, 2, "Blue."));
        assert_eq!(outcome.usage.cached, 2000);
        let asked = loopback.asked();
        let names = |body: &Value| body["tools"].as_array().unwrap().iter().any(|it| it["name"] == "read");
        assert!(asked.iter().all(|it| names(&it.body)));
        let messages = &asked[1].body["messages"];
        assert_eq!(messages[1]["content"][0], signed);
        assert_eq!(messages[1]["content"][1]["input"], json!({ "path": "notes.txt" }));
        assert_eq!(messages[2]["content"][0]["tool_use_id"], "toolu_1");
        let read = messages[2]["content"][0].to_string();
        assert!(read.contains("the kettle is blue"), "{read}");
    }
}
