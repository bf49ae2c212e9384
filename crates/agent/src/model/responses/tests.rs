//! Tests of Responses: server events become events, and conversations become requests.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![expect(clippy::needless_pass_by_value, reason = "`json!` gives values")]

use std::sync::Arc;

use futures_util::StreamExt;
use kit::{Kinds, Mode, Origin, Spec, base64};
use serde_json::{Value, json};

use super::{Responses, answer::Parts};
use crate::model::{
    Abilities, Breach, Event, Item, MessagePart, Model, ModelError, OwnTool, Piece, Request, ResultOf, Usage,
    Why,
    endpoint::{Endpoint, Key, Secret, Served},
    loopback::{Loopback, Reply},
    openai::Answer,
};

fn served(url: &str) -> Served {
    let mut endpoint = Endpoint::new(url).with(Some(Key::Bearer(Secret::new("sk-secret-key"))));
    endpoint.retry_policy.tries = 1;
    let abilities = Abilities {
        calls: true,
        images: true,
        window: 100_000,
        longest: 8_000,
        own_tools: vec![OwnTool::ImageGen, OwnTool::WebSearch],
        price: None,
    };
    let effort = Some("low".to_owned());
    Served { name: "openai:gpt-5".to_owned(), model: "gpt-5".to_owned(), endpoint, abilities, effort }
}

fn request(items: Vec<Item>) -> Request {
    Request { system: "Be brief.".into(), items, tools: Arc::default(), step: 0, longest: None, format: None }
}

async fn ask(reply: Reply) -> Vec<Result<Event, ModelError>> {
    let server = Loopback::serve([reply]).await;
    Responses::new(served(&server.url)).stream(request(Vec::new())).collect().await
}

/// Parses these events without a server.
fn receive(told: &[Value]) -> (Vec<Event>, Result<(), ModelError>) {
    let (mut answer, mut events) = (Parts::new("gpt-5"), Vec::new());
    for told in told {
        if let Err(error) = answer.receive(&told.to_string(), &mut events) {
            return (events, Err(error));
        }
    }
    answer.end(&mut events);
    (events, Ok(()))
}

fn completed() -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "usage": null, "output": []}})
}

/// Returns the server-sent events of these, as OpenAI writes them.
fn stream(told: &[Value]) -> String {
    told.iter().map(|it| format!("event: {}\ndata: {it}\n\n", it["type"].as_str().unwrap())).collect()
}

fn added(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn done(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn delta(kind: &str, index: u64, text: &str) -> Value {
    json!({"type": format!("response.{kind}.delta"), "output_index": index, "item_id": "i", "content_index": 0, "delta": text})
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"id": format!("fc_{id}"), "type": "function_call", "status": "in_progress", "call_id": id, "name": "read", "arguments": arguments})
}

fn arguments_done(index: u64, arguments: &str) -> Value {
    json!({"type": "response.function_call_arguments.done", "output_index": index, "item_id": "i", "arguments": arguments})
}

fn closed(index: usize, id: &str, arguments: &str) -> Event {
    let (tool, arguments) = ("read".to_owned(), arguments.to_owned());
    Event::CallClosed { index, id: id.to_owned(), tool, arguments }
}

fn reasoning(encrypted: Value) -> Value {
    json!({"id": "rs_1", "type": "reasoning", "status": "completed", "encrypted_content": encrypted,
        "summary": [{"type": "summary_text", "text": "I must read."}]})
}

fn kept_reasoning() -> MessagePart {
    let item = json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "I must read."}],
        "encrypted_content": "gAAA"});
    MessagePart::Opaque { wire: "responses".to_owned(), value: json!({"model": "gpt-5", "item": item}) }
}

/// Returns an answer with reasoning, text and two calls, whose arguments are interleaved.
fn recorded() -> Vec<Value> {
    vec![
        json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}}),
        json!({"type": "response.in_progress", "response": {"id": "resp_1", "status": "in_progress"}}),
        added(0, json!({"id": "rs_1", "type": "reasoning", "summary": []})),
        json!({"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0}),
        delta("reasoning_summary_text", 0, "I must read."),
        done(0, reasoning(json!("gAAA"))),
        added(1, json!({"id": "msg_1", "type": "message", "role": "assistant", "content": []})),
        json!({"type": "response.content_part.added", "output_index": 1, "content_index": 0,
            "part": {"type": "output_text", "text": ""}}),
        delta("output_text", 1, "Grüße "),
        delta("output_text", 1, "😀"),
        json!({"type": "response.output_text.done", "output_index": 1, "text": "Grüße 😀"}),
        done(
            1,
            json!({"id": "msg_1", "type": "message", "content": [{"type": "output_text", "text": "Grüße 😀"}]}),
        ),
        added(2, call("a", "")),
        added(3, call("b", "")),
        delta("function_call_arguments", 2, "{\"path\":"),
        delta("function_call_arguments", 3, "{\"path\":\"b\"}"),
        arguments_done(3, "{\"path\":\"b\"}"),
        delta("function_call_arguments", 2, "\"ä\"}"),
        done(2, call("a", "{\"path\":\"ä\"}")),
        arguments_done(2, "{\"path\":\"ä\"}"),
        done(3, call("b", "{\"path\":\"b\"}")),
        json!({"type": "response.completed", "response": {"status": "completed", "output": [],
            "usage": {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 64}, "output_tokens": 20,
                "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 120}}}),
    ]
}

fn expected() -> Vec<Event> {
    vec![
        Event::Reasoning("I must read.".to_owned()),
        Event::Opaque(kept_reasoning()),
        Event::Text("Grüße ".to_owned()),
        Event::Text("😀".to_owned()),
        Event::CallBegan { index: 0, tool: "read".to_owned() },
        Event::CallBegan { index: 1, tool: "read".to_owned() },
        Event::CallGrew { index: 0, bytes: 8 },
        Event::CallGrew { index: 1, bytes: 12 },
        closed(1, "b", "{\"path\":\"b\"}"),
        Event::CallGrew { index: 0, bytes: 5 },
        closed(0, "a", "{\"path\":\"ä\"}"),
        Event::Used(Usage { input: 36, cached: 64, kept: 0, output: 20, reasoning: 5 }),
        Event::End(Why::Calls),
    ]
}

#[tokio::test]
async fn an_answer_is_the_same_wherever_its_bytes_are_cut() {
    let (text, whole) = (stream(&recorded()), expected().into_iter().map(Ok).collect::<Vec<_>>());
    for at in 0..=text.len() {
        assert_eq!(ask(Reply::events(&text).split_at(at)).await, whole, "cut at byte {at}");
    }
    assert_eq!(ask(Reply::events(&text).in_parts_of(1)).await, whole);
    let crlf = format!(": hello\r\n\r\n{}", text.replace('\n', "\r\n"));
    assert_eq!(ask(Reply::events(&crlf)).await, whole);
    assert_eq!(ask(Reply::events(&text).never_ending()).await, whole);
}

#[tokio::test]
async fn an_answer_that_breaks_off_anywhere_is_an_error_after_what_was_there() {
    let (told, whole) = (recorded(), expected());
    let text = stream(&told);
    for count in 0..told.len() {
        let until = stream(&told[..count]);
        for reply in [Reply::events(&until), Reply::events(&text).broken_at(until.len())] {
            let mut events = ask(reply).await;
            assert_eq!(events.pop().unwrap().unwrap_err().breach, Breach::Broken, "after {count}");
            let events: Vec<Event> = events.into_iter().map(Result::unwrap).collect();
            assert!(whole.starts_with(&events), "after {count}: {events:?}");
        }
    }
}

#[test]
fn call_in_many_pieces_is_whole_even_if_its_end_is_empty() {
    let arguments = json!({"text": "grüße ".repeat(60)}).to_string();
    let letters: Vec<char> = arguments.chars().collect();
    let pieces = letters.chunks(letters.len().div_ceil(100)).map(String::from_iter);
    let mut told = vec![added(0, call("a", ""))];
    told.extend(pieces.map(|it| delta("function_call_arguments", 0, &it)));
    assert!(told.len() > 90);
    for end in [arguments_done(0, &arguments), arguments_done(0, ""), done(0, call("a", ""))] {
        let all = [told.clone(), vec![end, completed()]].concat();
        assert!(receive(&all).0.contains(&closed(0, "a", &arguments)));
    }
}

#[test]
fn parts_without_a_place_are_found_by_id() {
    let strip = |mut it: Value, id: &str| {
        it.as_object_mut().unwrap().remove("output_index");
        it["item_id"] = json!(id);
        it
    };
    let told = [
        strip(added(0, call("a", "")), "fc_a"),
        strip(added(0, call("b", "")), "fc_b"),
        strip(delta("function_call_arguments", 0, "{\"path\":1}"), "fc_a"),
        strip(delta("function_call_arguments", 0, "{\"path\":2}"), "fc_b"),
        completed(),
    ];
    let (events, _) = receive(&told);
    assert!(events.contains(&closed(0, "a", "{\"path\":1}")), "{events:?}");
    assert!(events.contains(&closed(1, "b", "{\"path\":2}")), "{events:?}");
}

#[test]
fn answer_without_pieces_is_parsed() {
    let output = json!([
        reasoning(json!("gAAA")),
        {"type": "message", "content": [{"type": "output_text", "text": "Hello."}]},
        call("a", "{\"path\":1}"),
    ]);
    let (events, _) = receive(&[json!({"type": "response.completed", "response": {"output": output}})]);
    let whole = [
        Event::Reasoning("I must read.".to_owned()),
        Event::Opaque(kept_reasoning()),
        Event::Text("Hello.".to_owned()),
        Event::CallBegan { index: 0, tool: "read".to_owned() },
        closed(0, "a", "{\"path\":1}"),
        Event::Used(Usage::default()),
        Event::End(Why::Calls),
    ];
    assert_eq!(events, whole);
}

#[test]
fn reasoning_without_encrypted_content_is_dropped() {
    for encrypted in [Value::Null, json!("")] {
        let (events, _) = receive(&[done(0, reasoning(encrypted)), completed()]);
        assert!(!events.iter().any(|it| matches!(it, Event::Opaque(_))));
    }
}

#[test]
fn two_messages_are_two_paragraphs() {
    let told = [
        delta("output_text", 0, "One"),
        delta("output_text", 0, "."),
        delta("output_text", 1, "Two."),
        completed(),
    ];
    let (events, _) = receive(&told);
    assert_eq!(events[2], Event::Text("\n\nTwo.".to_owned()));
    let told = [
        delta("output_text", 0, "One."),
        done(1, reasoning(json!("x"))),
        delta("output_text", 2, "Two."),
        completed(),
    ];
    assert!(receive(&told).0.contains(&Event::Text("Two.".to_owned())), "they are apart already");
}

#[test]
fn end_reason_follows_the_status() {
    let incomplete = |reason: &str| json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": reason}}});
    for (told, end) in [
        (vec![delta("output_text", 0, "Hi."), completed()], Why::Done),
        (vec![delta("refusal", 0, "No."), completed()], Why::Refused),
        (vec![incomplete("max_output_tokens")], Why::Length),
        (vec![incomplete("content_filter")], Why::Refused),
    ] {
        assert_eq!(receive(&told).0.last(), Some(&Event::End(end)));
    }
    let cut = [
        added(0, call("a", "")),
        delta("function_call_arguments", 0, "{\"pa"),
        incomplete("max_output_tokens"),
    ];
    assert!(!receive(&cut).0.iter().any(|it| matches!(it, Event::CallClosed { .. })), "it is not complete");
}

#[test]
fn failure_has_its_kind() {
    let error = json!({"code": "rate_limit_exceeded", "message": "Slow down."});
    for told in [
        json!({"type": "response.failed", "response": {"status": "failed", "error": error}}),
        json!({"type": "error", "code": "rate_limit_exceeded", "message": "Slow down.", "param": null}),
        json!({"type": "error", "error": error}),
        json!({"error": error}),
    ] {
        let (events, result) = receive(&[delta("output_text", 0, "Hel"), told]);
        assert_eq!(events, [Event::Text("Hel".to_owned())]);
        let error = result.unwrap_err();
        assert_eq!((error.breach, error.what.contains("Slow down.")), (Breach::Busy, true), "{error}");
    }
    let (mut answer, mut events) = (Parts::new("m"), Vec::new());
    assert_eq!(answer.receive("{\"type\":", &mut events).unwrap_err().breach, Breach::Malformed);
}

#[test]
fn picture_event_has_bytes_and_the_record_does_not() {
    let picture = json!({"id": "ig_1", "type": "image_generation_call", "status": "generating",
        "output_format": "webp", "result": base64::encoded(b"picture"), "revised_prompt": "a cat"});
    let told = [
        added(0, json!({"id": "ig_1", "type": "image_generation_call", "status": "in_progress"})),
        json!({"type": "response.image_generation_call.generating", "output_index": 0}),
        done(0, picture),
        completed(),
    ];
    let (events, _) = receive(&told);
    let [
        Event::Picture { tool, mime, data },
        Event::Opaque(MessagePart::Opaque { wire, value }),
        _,
        Event::End(why),
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(
        (*tool, mime.as_str(), &data[..], *why),
        (OwnTool::ImageGen, "image/webp", &b"picture"[..], Why::Done)
    );
    assert_eq!((wire.as_str(), &value["item"]["revised_prompt"]), ("responses", &json!("a cat")));
    assert_eq!(value["item"].get("result"), None);
    let (_, result) = receive(&[done(0, json!({"type": "image_generation_call", "result": "?!"}))]);
    assert_eq!(result.unwrap_err().breach, Breach::Malformed);
}

#[test]
fn search_is_shown_to_the_person() {
    let search = json!({"id": "ws_1", "type": "web_search_call", "status": "completed",
        "action": {"type": "search", "query": "rust 2027"}});
    let (events, _) = receive(&[done(0, search), completed()]);
    assert_eq!(events[0], Event::Reasoning("\n[web_search: rust 2027]\n".to_owned()));
}

fn spec(name: &str, origin: Origin) -> Spec {
    Spec {
        name: name.to_owned(),
        description: "Reads.".to_owned(),
        schema: json!({"type": "object", "properties": {}}),
        mode: Mode::Direct,
        at_most: Kinds::NONE,
        output: None,
        origin,
    }
}

#[tokio::test]
async fn request_contains_the_conversation() {
    let picture = Piece::Image {
        mime: "image/png".to_owned(),
        handle: "out_1".to_owned(),
        data: Some(Arc::from([1, 2, 3].as_slice())),
    };
    let result = |id: &str, ok: bool, pieces: Vec<Piece>| ResultOf {
        id: id.to_owned(),
        tool: "read".to_owned(),
        ok,
        pieces,
    };
    let said_call = |id: &str, arguments: &str| MessagePart::Call {
        id: id.to_owned(),
        tool: "read".to_owned(),
        arguments: arguments.to_owned(),
    };
    let (drew, _) = receive(&[
        done(0, json!({"id": "ig_1", "type": "image_generation_call", "result": "AQID"})),
        completed(),
    ]);
    let Event::Opaque(drew) = drew[1].clone() else { panic!("{drew:?}") };
    let mut of_another = kept_reasoning();
    if let MessagePart::Opaque { value, .. } = &mut of_another {
        value["model"] = json!("gpt-6");
    }
    let items = vec![
        Item::Person { pieces: vec![Piece::text("Look."), picture.clone()] },
        Item::Model {
            said: vec![
                kept_reasoning(),
                MessagePart::Text { text: "I look.".to_owned() },
                of_another,
                kept_reasoning(),
                said_call("a", "{\"path\":"),
                said_call("b", "{}"),
            ],
        },
        Item::Results {
            results: vec![
                result("a", false, vec![Piece::text("no such file")]),
                result("b", true, vec![Piece::text("a picture:"), picture]),
            ],
        },
        // Reasoning before a picture is sent like the picture.
        Item::Model {
            said: vec![
                kept_reasoning(),
                drew,
                MessagePart::Text { text: "There.".to_owned() },
                kept_reasoning(),
            ],
        },
    ];
    let mut request = request(items);
    request.tools = [
        spec("read", Origin::Program),
        spec("image_gen", Origin::Provider),
        spec("web_search", Origin::Provider),
        spec("other", Origin::Provider),
    ]
    .into();
    request.longest = Some(2);
    let server =
        Loopback::serve([Reply::events(&stream(&[completed()])), Reply::events(&stream(&[completed()]))])
            .await;
    let model = Responses::new(served(&server.url));
    let _: Vec<_> = model.stream(request.clone()).collect().await;
    request.items.push(Item::person("Go on."));
    let _: Vec<_> = model.stream(request).collect().await;
    let mut asked = server.asked();
    let (next, mut asked) = (asked.remove(1), asked.remove(0));
    assert_eq!(asked.line, "POST /v1/responses");
    assert_eq!(asked.header("authorization"), Some("Bearer sk-secret-key"));
    let key = asked.body["prompt_cache_key"].take();
    assert!(key.as_str().is_some_and(|it| it.len() == 32) && next.body["prompt_cache_key"] == key);
    let thought = json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "I must read."}],
        "encrypted_content": "gAAA"});
    let wrote = |text: &str| json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]});
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,AQID", "detail": "auto"});
    let called = |id: &str, arguments: &str| json!({"type": "function_call", "call_id": id, "name": "read", "arguments": arguments});
    assert_eq!(
        asked.body,
        json!({
            "model": "gpt-5",
            "instructions": "Be brief.",
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look."}, image]},
                thought,
                wrote("I look."),
                thought,
                called("a", "{\"not_an_object\":\"{\\\"path\\\":\"}"),
                called("b", "{}"),
                {"type": "function_call_output", "call_id": "a", "output": "Error: no such file"},
                {"type": "function_call_output", "call_id": "b", "output": [
                    {"type": "input_text", "text": "a picture:\n[picture out_1: image/png]"}, image]},
                wrote("There."),
            ],
            "stream": true,
            "store": false,
            "prompt_cache_key": null,
            "tools": [
                {"type": "function", "name": "read", "description": "Reads.",
                    "parameters": {"type": "object", "properties": {}}, "strict": false},
                {"type": "image_generation", "output_format": "png"},
                {"type": "web_search"},
            ],
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": "low", "summary": "auto"},
            "max_output_tokens": 16,
        })
    );
}

#[test]
fn schema_is_sent_as_structured_output() {
    let mut request = request(Vec::new());
    assert_eq!(super::request::body(&served("http://x"), &request).get("text"), None);
    request.format = Some(Arc::new(json!({
        "type": "object",
        "properties": {"count": {"type": "integer", "minimum": 0}},
        "required": ["count"],
    })));
    let body = super::request::body(&served("http://x"), &request);
    let enforced = json!({"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"],
        "additionalProperties": false});
    let format = json!({"type": "json_schema", "name": "answer", "schema": enforced, "strict": true});
    assert_eq!(body["text"], json!({"format": format}));
}

#[test]
fn reasoning_and_pictures_are_only_sent_to_models_that_support_them() {
    let mut served = served("http://x");
    served.model = "gpt-4.1".to_owned();
    served.abilities.images = false;
    let picture = Piece::Image {
        mime: "image/png".to_owned(),
        handle: "out_1".to_owned(),
        data: Some(Arc::from([1].as_slice())),
    };
    let results =
        vec![ResultOf { id: "a".to_owned(), tool: "t".to_owned(), ok: true, pieces: vec![picture.clone()] }];
    let items = vec![Item::Person { pieces: vec![picture] }, Item::Results { results }];
    let body = super::request::body(&served, &request(items));
    for key in ["include", "reasoning", "tools", "max_output_tokens"] {
        assert_eq!(body.get(key), None, "{key}");
    }
    assert_eq!(
        body["input"][0]["content"],
        json!([{"type": "input_text", "text": "[picture out_1: image/png]"}])
    );
    assert_eq!(body["input"][1]["output"], "[picture out_1: image/png]");
}
