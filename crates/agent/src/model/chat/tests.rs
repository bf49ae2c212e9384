//! Tests of Chat Completions: chunks become events, and conversations become requests.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![expect(clippy::needless_pass_by_value, reason = "`json!` gives values")]

use std::sync::Arc;

use futures_util::StreamExt;
use kit::{Kinds, Mode, Origin, Spec};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Chat, answer::Chunks};
use crate::model::{
    Abilities, Breach, Event, Item, MessagePart, Model, ModelError, Piece, Request, ResultOf, Usage, Why,
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
        own_tools: Vec::new(),
        price: None,
    };
    Served { name: "openai:m".to_owned(), model: "m".to_owned(), endpoint, abilities, effort: None }
}

fn request(items: Vec<Item>) -> Request {
    Request { system: "Be brief.".into(), items, tools: Arc::default(), step: 3, longest: None, format: None }
}

async fn ask(reply: Reply) -> Vec<Result<Event, ModelError>> {
    let server = Loopback::serve([reply]).await;
    Chat::new(served(&server.url)).stream(request(Vec::new())).collect().await
}

/// Parses these chunks without a server.
fn receive(chunks: &[Value]) -> (Vec<Event>, Result<(), ModelError>) {
    let (mut answer, mut events) = (Chunks::new("m", &request(Vec::new())), Vec::new());
    for chunk in chunks {
        if let Err(error) = answer.receive(&chunk.to_string(), &mut events) {
            return (events, Err(error));
        }
    }
    answer.end(&mut events);
    (events, Ok(()))
}

fn said(deltas: &[Value], finish: &str) -> Vec<Event> {
    let mut chunks: Vec<Value> =
        deltas.iter().map(|it| json!({"choices": [{"index": 0, "delta": it}]})).collect();
    chunks.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}));
    let (events, result) = receive(&chunks);
    result.unwrap();
    events
}

fn call(piece: Value) -> Value {
    json!({ "tool_calls": [piece] })
}

/// Returns id, tool and arguments of the calls, in the order in which they were closed.
fn closed(events: &[Event]) -> Vec<(String, String, String)> {
    let closed = events.iter().filter_map(|it| match it {
        Event::CallClosed { id, tool, arguments, .. } => Some((id.clone(), tool.clone(), arguments.clone())),
        _ => None,
    });
    closed.collect()
}

fn triples(all: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
    all.iter()
        .map(|(id, tool, arguments)| (id.to_string(), tool.to_string(), arguments.to_string()))
        .collect()
}

fn text(events: &[Event]) -> String {
    events
        .iter()
        .filter_map(|it| if let Event::Text(text) = it { Some(text.as_str()) } else { None })
        .collect()
}

fn why(events: &[Event]) -> Why {
    let Some(Event::End(why)) = events.last() else { panic!("no end: {events:?}") };
    *why
}

/// An answer of OpenAI with two calls.
const RECORDED: &str = concat!(
    "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},\"finish_reason\":null}],\"usage\":null}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Grüße \\ud83d\\ude00 \"},\"finish_reason\":null}],\"usage\":null}\n\n",
    ": keep-alive\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_a\",\"type\":\"function\",\"function\":{\"name\":\"read\",\"arguments\":\"\"}}]},\"finish_reason\":null}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"path\\\"\"}}]}}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\":\\\"ä\\\"}\"}}]}}]}\n\n",
    "data:{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"call_b\",\"type\":\"function\",\"function\":{\"name\":\"grep\",\"arguments\":\"{\\\"pattern\\\":\\\"x\\\"}\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}],\"usage\":null}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":20,\"total_tokens\":120,\"prompt_tokens_details\":{\"cached_tokens\":64},\"completion_tokens_details\":{\"reasoning_tokens\":5}}}\n\n",
    "data: [DONE]\n\n",
);

fn recorded() -> Vec<Event> {
    let closed = |index, id: &str, tool: &str, arguments: &str| Event::CallClosed {
        index,
        id: id.to_owned(),
        tool: tool.to_owned(),
        arguments: arguments.to_owned(),
    };
    vec![
        Event::Text("Grüße 😀 ".to_owned()),
        Event::CallBegan { index: 0, tool: "read".to_owned() },
        Event::CallGrew { index: 0, bytes: 7 },
        Event::CallGrew { index: 0, bytes: 6 },
        closed(0, "call_a", "read", r#"{"path":"ä"}"#),
        Event::CallBegan { index: 1, tool: "grep".to_owned() },
        Event::CallGrew { index: 1, bytes: 15 },
        closed(1, "call_b", "grep", r#"{"pattern":"x"}"#),
        Event::Used(Usage { input: 36, cached: 64, kept: 0, output: 20, reasoning: 5 }),
        Event::End(Why::Calls),
    ]
}

#[tokio::test]
async fn an_answer_is_the_same_wherever_its_bytes_are_cut() {
    let whole: Vec<_> = recorded().into_iter().map(Ok).collect();
    for at in 0..=RECORDED.len() {
        assert_eq!(ask(Reply::events(RECORDED).split_at(at)).await, whole, "cut at byte {at}");
    }
    assert_eq!(ask(Reply::events(RECORDED).in_parts_of(1)).await, whole);
    assert_eq!(ask(Reply::events(&RECORDED.replace("\r\n", "\n").replace('\n', "\r\n"))).await, whole);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error_unless_all_of_it_was_there() {
    let whole = recorded();
    let ends: Vec<usize> =
        RECORDED.match_indices("data:").map(|(at, _)| at).chain([RECORDED.len()]).collect();
    let complete = RECORDED.find("data: {\"choices\":[],").unwrap();
    for at in ends {
        for reply in [Reply::events(&RECORDED[..at]), Reply::events(RECORDED).broken_at(at)] {
            let mut events = ask(reply).await;
            if at >= complete {
                assert_eq!(events.pop(), Some(Ok(Event::End(Why::Calls))), "cut at byte {at}");
                events.pop();
            } else {
                assert_eq!(events.pop().unwrap().unwrap_err().breach, Breach::Broken, "cut at byte {at}");
            }
            let events: Vec<Event> = events.into_iter().map(Result::unwrap).collect();
            assert!(whole.starts_with(&events), "cut at byte {at}: {events:?}");
        }
    }
}

#[tokio::test]
async fn end_of_the_connection_is_not_awaited_after_the_end_mark() {
    let events = ask(Reply::events(RECORDED).never_ending()).await;
    assert_eq!(events.last(), Some(&Ok(Event::End(Why::Calls))));
}

#[tokio::test]
async fn invalid_json_is_an_error_without_the_key() {
    let events = ask(Reply::events("data: {\"choices\": sk-secret-key\n\n")).await;
    let [Err(error)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(error.breach, Breach::Malformed);
    assert!(error.what.contains("***") && !error.what.contains("secret-key"), "{error}");
}

#[test]
fn call_in_many_chunks_is_whole() {
    let arguments = json!({"text": "grüße ".repeat(60)}).to_string();
    let letters: Vec<char> = arguments.chars().collect();
    let mut deltas = vec![call(json!({"index": 0, "id": "a", "function": {"name": "write"}}))];
    for piece in letters.chunks(letters.len().div_ceil(100)) {
        let piece: String = piece.iter().collect();
        deltas.push(call(json!({"index": 0, "function": {"arguments": piece}})));
    }
    assert!(deltas.len() > 90, "{}", deltas.len());
    let events = said(&deltas, "tool_calls");
    assert_eq!(closed(&events), triples(&[("a", "write", &arguments)]));
    let grew: usize =
        events.iter().map(|it| if let Event::CallGrew { bytes, .. } = it { *bytes } else { 0 }).sum();
    assert_eq!(grew, arguments.len());
}

#[test]
fn interleaved_calls_close_when_they_are_complete() {
    let part =
        |index: u64, arguments: &str| call(json!({"index": index, "function": {"arguments": arguments}}));
    let events = said(
        &[
            call(json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": "{\"pa"}})),
            call(json!({"index": 1, "id": "b", "function": {"name": "grep", "arguments": "{\"pattern\":"}})),
            part(0, "th\":{\"x\":1}"),
            part(1, "\"}\""),
            part(0, "}"),
            part(1, "}"),
        ],
        "tool_calls",
    );
    assert_eq!(
        closed(&events),
        triples(&[("a", "read", "{\"path\":{\"x\":1}}"), ("b", "grep", "{\"pattern\":\"}\"}")])
    );
    let first = events.iter().position(|it| matches!(it, Event::CallClosed { index: 0, .. })).unwrap();
    assert_eq!(events[first + 1], Event::CallGrew { index: 1, bytes: 1 }, "closed as soon as it can be");
}

#[test]
fn a_call_closes_with_the_last_letter_of_its_arguments() {
    let chunk = |delta: Value| json!({"choices": [{"delta": delta}]});
    let part = |index: u64, id: &str, arguments: &str| {
        call(json!({"index": index, "id": id, "function": {"name": "read", "arguments": arguments}}))
    };
    let (events, _) = receive(&[chunk(part(0, "a", "{\"path\":")), chunk(part(0, "a", "\"x\"}"))]);
    assert_eq!(closed(&events), triples(&[("a", "read", "{\"path\":\"x\"}")]), "nothing has followed it");
    // Later chunks change nothing.
    for next in [part(1, "b", "{"), part(0, "a", "}"), part(0, "", " \n"), json!({"content": "And then"})] {
        let (events, _) = receive(&[chunk(part(0, "a", "{\"path\":\"x\"}")), chunk(next.clone())]);
        assert_eq!(closed(&events), triples(&[("a", "read", "{\"path\":\"x\"}")]), "{next}");
    }
    let (events, _) = receive(&[chunk(part(0, "a", "{}"))]);
    assert!(closed(&events).is_empty(), "an empty object may be a placeholder");
}

#[test]
fn a_call_whose_name_comes_last_is_not_lost() {
    let arguments = json!({"index": 0, "id": "a", "function": {"arguments": "{\"path\":\"x\"}"}});
    let events = said(&[call(arguments), call(json!({"index": 0, "function": {"name": "read"}}))], "stop");
    assert_eq!(closed(&events), triples(&[("a", "read", "{\"path\":\"x\"}")]));
}

#[test]
fn call_repeated_under_a_used_id_is_made_once() {
    let said_before =
        MessagePart::Call { id: "a".to_owned(), tool: "read".to_owned(), arguments: "{}".to_owned() };
    let whole =
        call(json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": "{\"path\":\"x\"}"}}));
    let mut calls = Chunks::new("m", &request(vec![Item::Model { said: vec![said_before] }]));
    let mut events = Vec::new();
    for _ in 0..2 {
        calls.receive(&json!({"choices": [{"delta": whole}]}).to_string(), &mut events).unwrap();
    }
    assert_eq!(closed(&events), triples(&[("call_3_0", "read", "{\"path\":\"x\"}")]));
}

#[test]
fn an_empty_object_may_be_a_placeholder() {
    let events = said(
        &[
            call(json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": "{}"}})),
            call(json!({"index": 1, "id": "b", "function": {"name": "jobs", "arguments": "{}"}})),
            call(json!({"index": 0, "function": {"arguments": "{\"path\":"}})),
            call(json!({"index": 0, "function": {"arguments": "\"x\"}"}})),
        ],
        "tool_calls",
    );
    assert_eq!(closed(&events), triples(&[("a", "read", "{\"path\":\"x\"}"), ("b", "jobs", "{}")]));
}

#[test]
fn calls_without_numbers_are_not_lost() {
    let a = json!({"name": "read", "arguments": "{\"path\":\"a\"}"});
    let b = json!({"name": "read", "arguments": "{\"path\":\"b\"}"});
    let two = |ids: [&str; 2]| {
        triples(&[(ids[0], "read", "{\"path\":\"a\"}"), (ids[1], "read", "{\"path\":\"b\"}")])
    };
    let (made, given) = (two(["call_3_0", "call_3_1"]), two(["a", "b"]));
    // As calls in several deltas, and in a single one.
    for (what, first, second, expected) in [
        ("no index", json!({"id": "a", "function": a}), json!({"id": "b", "function": b}), &given),
        (
            "always 0",
            json!({"index": 0, "id": "a", "function": a}),
            json!({"index": 0, "id": "b", "function": b}),
            &given,
        ),
        ("no id", json!({"index": 0, "function": a}), json!({"index": 1, "function": b}), &made),
        ("empty id", json!({"index": 0, "id": "", "function": a}), json!({"id": "", "function": b}), &made),
        ("neither", json!({"function": a}), json!({"function": b}), &made),
        ("always 0, no id", json!({"index": 0, "function": a}), json!({"index": 0, "function": b}), &made),
    ] {
        let apart = said(&[call(first.clone()), call(second.clone())], "stop");
        assert_eq!(&closed(&apart), expected, "{what}");
        assert_eq!(why(&apart), Why::Calls, "{what}");
        let together = said(&[json!({ "tool_calls": [first, second] })], "stop");
        assert_eq!(&closed(&together), expected, "{what}, in one delta");
    }
}

#[test]
fn piece_without_a_number_continues_the_last_call() {
    let events = said(
        &[
            call(json!({"id": "a", "function": {"name": "read", "arguments": ""}})),
            call(json!({"function": {"arguments": "{\"path\":"}})),
            call(json!({"index": 0, "function": {"arguments": "\"x\"}"}})),
        ],
        "tool_calls",
    );
    assert_eq!(closed(&events), triples(&[("a", "read", "{\"path\":\"x\"}")]));
}

#[test]
fn a_name_in_each_delta_and_an_id_in_each_delta_are_one_call() {
    for (what, id, name) in [("both", "a", "read"), ("name", "", "read"), ("new ids, no name", "z", "")] {
        let piece = |arguments: &str| {
            call(json!({"index": 0, "id": id, "function": {"name": name, "arguments": arguments}}))
        };
        let events = said(
            &[
                call(json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": "{\"path\""}})),
                piece(":\"x\""),
                piece("}"),
                piece(""),
            ],
            "tool_calls",
        );
        assert_eq!(closed(&events), triples(&[("a", "read", "{\"path\":\"x\"}")]), "{what}");
        let began = events.iter().filter(|it| matches!(it, Event::CallBegan { .. })).count();
        assert_eq!(began, 1, "{what}");
    }
}

#[test]
fn repeated_call_is_made_once() {
    let whole = json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": "{\"path\":\"x\"}"}});
    for between in [json!({}), json!({"content": "so"})] {
        let events = said(&[call(whole.clone()), between, call(whole.clone())], "tool_calls");
        assert_eq!(closed(&events), triples(&[("a", "read", "{\"path\":\"x\"}")]));
    }
}

#[test]
fn arguments_may_be_an_object_or_nothing() {
    let events = said(
        &[
            call(json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": {"path": "x"}}})),
            call(json!({"index": 1, "id": "b", "function": {"name": "jobs", "arguments": null}})),
            call(json!({"index": 2, "id": "c", "function": {"name": "jobs"}})),
        ],
        "tool_calls",
    );
    let expected = [("a", "read", "{\"path\":\"x\"}"), ("b", "jobs", "{}"), ("c", "jobs", "{}")];
    assert_eq!(closed(&events), triples(&expected));
}

#[test]
fn invalid_json_arguments_are_passed_on_unchanged() {
    let events = said(
        &[
            call(json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": "{\"path\": x"}})),
            call(
                json!({"index": 1, "id": "b", "function": {"name": "grep", "arguments": "{\"pattern\":1}"}}),
            ),
        ],
        "tool_calls",
    );
    let mut all = closed(&events);
    all.sort();
    assert_eq!(all, triples(&[("a", "read", "{\"path\": x"), ("b", "grep", "{\"pattern\":1}")]));
}

#[test]
fn a_call_without_a_name_is_an_error() {
    let delta = call(json!({"index": 0, "id": "a", "function": {"arguments": "{\"x\":1}"}}));
    let (_, result) = receive(&[json!({"choices": [{"delta": delta, "finish_reason": "tool_calls"}]})]);
    assert_eq!(result.unwrap_err().breach, Breach::Malformed);
}

#[test]
fn used_call_ids_are_replaced() {
    let before = Item::Model {
        said: vec![MessagePart::Call {
            id: "call_0".to_owned(),
            tool: "read".to_owned(),
            arguments: "{}".to_owned(),
        }],
    };
    let (mut answer, mut events) = (Chunks::new("m", &request(vec![before])), Vec::new());
    let piece = |index: u64| json!({"index": index, "id": "call_0", "function": {"name": "jobs"}});
    let chunk =
        json!({"choices": [{"delta": {"tool_calls": [piece(0), piece(1)]}, "finish_reason": "stop"}]});
    answer.receive(&chunk.to_string(), &mut events).unwrap();
    assert_eq!(closed(&events), triples(&[("call_3_0", "jobs", "{}"), ("call_3_1", "jobs", "{}")]));
}

#[test]
fn answer_that_is_cut_off_makes_only_complete_calls() {
    let deltas = [
        call(json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": "{\"path\":\"x\"}"}})),
        call(json!({"index": 1, "id": "b", "function": {"name": "write", "arguments": "{\"path\":\"y"}})),
    ];
    for (finish, end) in [("length", Why::Length), ("content_filter", Why::Refused)] {
        let events = said(&deltas, finish);
        assert_eq!(closed(&events), triples(&[("a", "read", "{\"path\":\"x\"}")]), "{finish}");
        assert_eq!(why(&events), end);
    }
}

#[test]
fn end_reason_follows_finish_reason() {
    let content = [json!({"content": "Done."})];
    for (finish, end) in [("stop", Why::Done), ("eos", Why::Done), ("length", Why::Length)] {
        assert_eq!(why(&said(&content, finish)), end);
    }
    let refusal =
        said(&[json!({"content": null, "refusal": "I can't "}), json!({"refusal": "do that."})], "stop");
    assert_eq!((text(&refusal).as_str(), why(&refusal)), ("I can't do that.", Why::Refused));
    let (events, result) = receive(&[json!({"choices": [{"delta": {}, "finish_reason":
        "function_call_filter: MALFORMED_FUNCTION_CALL"}]})]);
    assert!(events.is_empty());
    assert!(result.unwrap_err().may_pass());
}

#[test]
fn content_may_come_in_parts_and_whole() {
    let parts = json!({"content": [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "one "},
        {"type": "text", "text": "two"},
    ]});
    let events = said(&[parts], "stop");
    assert_eq!(events[0], Event::Reasoning("hm".to_owned()));
    assert_eq!(text(&events), "one two");
    let message =
        json!({"choices": [{"message": {"role": "assistant", "content": "whole"}, "finish_reason": "stop"}]});
    assert_eq!(text(&receive(&[message]).0), "whole");
}

#[test]
fn other_choices_are_ignored() {
    let other = json!({"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}]});
    assert_eq!(text(&receive(&[other]).0), "");
}

#[test]
fn error_in_the_middle_ends_the_answer_after_its_parts() {
    let begin = json!({"choices": [{"delta": {"content": "Hel"}}]});
    for error in [
        json!({"error": {"message": "no room", "code": 503}}),
        json!({"choices": [{"index": 0, "error": {"message": "no room", "code": 503}, "delta": {}}]}),
    ] {
        let (events, result) = receive(&[begin.clone(), error]);
        assert_eq!(text(&events), "Hel");
        let error = result.unwrap_err();
        assert_eq!(error.breach, Breach::Busy);
        assert!(error.what.contains("no room"));
    }
}

#[test]
fn usage_is_parsed_in_the_form_of_each_server() {
    let used = |usage: Value| {
        let (events, _) = receive(&[json!({"choices": [], "usage": usage})]);
        let Event::Used(usage) = events[0] else { panic!("{events:?}") };
        usage
    };
    let deepseek = json!({"prompt_tokens": 10, "completion_tokens": 2, "prompt_cache_hit_tokens": 8});
    assert_eq!(used(deepseek), Usage { input: 2, cached: 8, output: 2, ..Usage::default() });
    let gemini = json!({"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 20});
    assert_eq!(used(gemini), Usage { input: 10, output: 10, reasoning: 8, ..Usage::default() });
    let router = json!({"prompt_tokens": 10, "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 5}});
    assert_eq!(used(router), Usage { input: 1, cached: 4, kept: 5, output: 1, reasoning: 0 });
    let (events, _) = receive(&[json!({"choices": [], "x_groq": {"usage": {"prompt_tokens": 7}}})]);
    assert_eq!(events[0], Event::Used(Usage { input: 7, ..Usage::default() }));
}

/// Returns the parts that the transcript keeps of these events.
fn kept(events: &[Event]) -> Vec<MessagePart> {
    let said = events.iter().filter_map(|it| match it {
        Event::Opaque(said) => Some(said.clone()),
        Event::Text(text) => Some(MessagePart::Text { text: text.clone() }),
        Event::CallClosed { id, tool, arguments, .. } => {
            Some(MessagePart::Call { id: id.clone(), tool: tool.clone(), arguments: arguments.clone() })
        }
        _ => None,
    });
    said.collect()
}

fn body_of(served: &Served, request: &Request) -> Value {
    super::request::body(served, request)
}

fn result(id: &str, text: &str, ok: bool) -> ResultOf {
    ResultOf { id: id.to_owned(), tool: "read".to_owned(), ok, pieces: vec![Piece::text(text)] }
}

#[test]
fn reasoning_is_sent_back_with_the_calls() {
    let thinking = |key: &str| {
        said(
            &[
                json!({key: "I must "}),
                json!({key: "read."}),
                call(
                    json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": "{\"path\":\"x\"}"}}),
                ),
            ],
            "tool_calls",
        )
    };
    for key in ["reasoning_content", "reasoning"] {
        let events = thinking(key);
        assert_eq!(events[1], Event::Reasoning("read.".to_owned()));
        let items = vec![
            Item::Model { said: kept(&events) },
            Item::Results { results: vec![result("a", "text", true)] },
        ];
        let sent = body_of(&served("http://x"), &request(items.clone()));
        assert_eq!(sent["messages"][1][key], "I must read.");
        let mut other = served("http://x");
        other.model = "n".to_owned();
        assert_eq!(body_of(&other, &request(items))["messages"][1].get(key), None, "it is not the other's");
    }
    let answer = said(&[json!({"reasoning": "hm"}), json!({"content": "Done."})], "stop");
    assert!(!answer.iter().any(|it| matches!(it, Event::Opaque(_))), "no call came of it");
}

#[test]
fn reasoning_details_are_merged_and_sent_back() {
    let detail = |more: Value| {
        let mut detail = json!({"type": "reasoning.text", "index": 0, "format": "f"});
        detail.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"reasoning": "x", "reasoning_details": [detail]})
    };
    let events = said(
        &[
            detail(json!({"text": "I must "})),
            detail(json!({"text": "read."})),
            detail(json!({"text": "", "signature": "s"})),
            json!({"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "zzz"}]}),
            call(json!({"index": 0, "id": "a", "function": {"name": "read"}})),
        ],
        "tool_calls",
    );
    let items = vec![Item::Model { said: kept(&events) }];
    let message = &body_of(&served("http://x"), &request(items))["messages"][1];
    let whole = json!({"type": "reasoning.text", "index": 0, "format": "f", "text": "I must read.", "signature": "s"});
    let encrypted = json!({"type": "reasoning.encrypted", "index": 1, "data": "zzz"});
    assert_eq!(message["reasoning_details"], json!([whole, encrypted]));
    assert_eq!(message.get("reasoning"), None);
}

#[test]
fn signature_is_sent_back_with_its_call() {
    let signed = |id: &str, signature: &str| {
        call(json!({"id": id, "function": {"name": "read", "arguments": "{\"path\":\"x\"}"},
            "extra_content": {"google": {"thought_signature": signature}}}))
    };
    let plain = call(json!({"id": "", "function": {"name": "grep", "arguments": "{\"pattern\":\"x\"}"}}));
    let events = said(&[signed("", "S"), plain], "stop");
    let message =
        &body_of(&served("http://x"), &request(vec![Item::Model { said: kept(&events) }]))["messages"][1];
    assert_eq!(message["tool_calls"][0]["extra_content"], json!({"google": {"thought_signature": "S"}}));
    assert_eq!(message["tool_calls"][0]["id"], "call_3_0");
    assert_eq!(message["tool_calls"][1].get("extra_content"), None);
}

#[test]
fn late_signature_is_sent_back_with_its_call() {
    let arguments = json!({"name": "read", "arguments": "{\"path\":\"x\"}"});
    let thought = |data: &str| json!({"type": "reasoning.encrypted", "index": 0, "data": data});
    let events = said(
        &[
            call(json!({"index": 0, "id": "a", "function": arguments})),
            call(json!({"index": 0, "extra_content": {"google": {"thought_signature": "S"}}})),
            json!({"reasoning_details": [thought("zzz")]}),
        ],
        "tool_calls",
    );
    assert_eq!(closed(&events), triples(&[("a", "read", "{\"path\":\"x\"}")]));
    let message =
        &body_of(&served("http://x"), &request(vec![Item::Model { said: kept(&events) }]))["messages"][1];
    assert_eq!(message["tool_calls"][0]["extra_content"], json!({"google": {"thought_signature": "S"}}));
    assert_eq!(message["reasoning_details"], json!([thought("zzz")]));
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
    let seen = Piece::Image { mime: "image/png".to_owned(), handle: "out_0".to_owned(), data: None };
    let mut with_picture = result("b", "a picture:", true);
    with_picture.pieces.push(picture.clone());
    let call = |id: &str, arguments: &str| MessagePart::Call {
        id: id.to_owned(),
        tool: "read".to_owned(),
        arguments: arguments.to_owned(),
    };
    let opaque = MessagePart::Opaque { wire: "anthropic".to_owned(), value: json!({"type": "thinking"}) };
    let items = vec![
        Item::person("Look."),
        Item::Person { pieces: vec![Piece::text("And at this:"), picture, seen] },
        Item::Model {
            said: vec![
                opaque.clone(),
                MessagePart::Text { text: "I look.".to_owned() },
                call("a", "{\"path\":"),
                call("b", "{\"path\":\"x\"}"),
            ],
        },
        Item::Results { results: vec![result("a", "no such file", false), with_picture] },
        Item::person("Well?"),
        Item::Model { said: vec![opaque] },
        Item::Model { said: vec![call("c", "")] },
        Item::Results { results: vec![result("c", "ok", true)] },
    ];
    let mut request = request(items);
    request.tools = [spec("read", Origin::Program), spec("web_search", Origin::Provider)].into();
    request.longest = Some(100_000);
    let server = Loopback::serve([Reply::events(RECORDED)]).await;
    let mut served = served(&server.url);
    served.effort = Some("low".to_owned());
    let _: Vec<_> = Chat::new(served).stream(request).collect().await;
    let asked = server.asked().remove(0);
    assert_eq!(asked.line, "POST /v1/chat/completions");
    assert_eq!(asked.header("authorization"), Some("Bearer sk-secret-key"));
    let url = "data:image/png;base64,AQID";
    let function = |arguments: &str| json!({"name": "read", "arguments": arguments});
    assert_eq!(
        asked.body,
        json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [
                    {"type": "text", "text": "Look."},
                    {"type": "text", "text": "And at this:"},
                    {"type": "image_url", "image_url": {"url": url}},
                    {"type": "text", "text": "[picture out_0: image/png]"},
                ]},
                {"role": "assistant", "content": "I look.", "tool_calls": [
                    {"id": "a", "type": "function", "function": function("{\"not_an_object\":\"{\\\"path\\\":\"}")},
                    {"id": "b", "type": "function", "function": function("{\"path\":\"x\"}")},
                ]},
                {"role": "tool", "tool_call_id": "a", "content": "Error: no such file"},
                {"role": "tool", "tool_call_id": "b", "content": "a picture:\n[picture out_1: image/png]"},
                {"role": "user", "content": [
                    {"type": "text", "text": "[picture out_1: image/png] of `read`:"},
                    {"type": "image_url", "image_url": {"url": url}},
                    {"type": "text", "text": "Well?"},
                ]},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c", "type": "function", "function": function("{}")},
                ]},
                {"role": "tool", "tool_call_id": "c", "content": "ok"},
            ],
            "stream": true,
            "stream_options": {"include_usage": true},
            "tools": [{"type": "function", "function": {"name": "read", "description": "Reads.",
                "parameters": {"type": "object", "properties": {}}}}],
            "max_tokens": 8_000,
            "reasoning_effort": "low",
        })
    );
}

#[test]
fn schema_is_sent_as_structured_output_to_openai_only() {
    let mut request = request(Vec::new());
    request.format = Some(Arc::new(json!({
        "type": "object",
        "properties": {"count": {"type": "integer", "minimum": 0}},
        "required": ["count"],
    })));
    let body = body_of(&served("https://api.openai.com/v1"), &request);
    let enforced = json!({"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"],
        "additionalProperties": false});
    let format = json!({"name": "answer", "schema": enforced, "strict": true});
    assert_eq!(body["response_format"], json!({"type": "json_schema", "json_schema": format}));
    assert_eq!(body_of(&served("http://127.0.0.1:11434/v1"), &request).get("response_format"), None);
}

#[test]
fn model_without_pictures_gets_lines_instead() {
    let mut served = served("https://api.openai.com/v1");
    served.abilities.images = false;
    let picture = Piece::Image {
        mime: "image/png".to_owned(),
        handle: "out_1".to_owned(),
        data: Some(Arc::from([1].as_slice())),
    };
    let results = vec![ResultOf { pieces: vec![picture.clone()], ..result("a", "", true) }];
    let mut request = request(vec![Item::Person { pieces: vec![picture] }, Item::Results { results }]);
    request.longest = Some(10);
    let body = body_of(&served, &request);
    assert_eq!(body["messages"][1]["content"], "[picture out_1: image/png]");
    assert_eq!(body["messages"][2]["content"], "[picture out_1: image/png]");
    assert_eq!(body["messages"].as_array().unwrap().len(), 3);
    assert_eq!((body.get("max_tokens"), &body["max_completion_tokens"]), (None, &json!(10)));
    assert_eq!(body.get("tools"), None);
}

proptest! {
    /// However calls are cut into pieces, and however the pieces are interleaved, each call is complete.
    #[test]
    fn interleaved_pieces_lose_nothing(
        texts in prop::collection::vec("[a-z{}\"\\\\ ü]{0,12}", 1..5),
        cuts in prop::collection::vec(1_usize..7, 1..20),
        turns in prop::collection::vec(0_usize..5, 0..60),
    ) {
        let written: Vec<String> = texts.iter().map(|it| json!({"text": it, "more": {"a": [it]}}).to_string()).collect();
        let mut rest: Vec<Vec<char>> = written.iter().map(|it| it.chars().collect()).collect();
        let mut began = vec![false; rest.len()];
        let mut deltas = Vec::new();
        let count = rest.len();
        let all = turns.into_iter().chain((0..count).flat_map(|it| vec![it; 200]));
        for (number, turn) in all.enumerate() {
            let at = turn % count;
            let take = cuts[number % cuts.len()].min(rest[at].len());
            if take == 0 && began[at] {
                continue;
            }
            let piece: String = rest[at].drain(..take).collect();
            let mut delta = json!({"index": at, "function": {"arguments": piece}});
            if !began[at] {
                began[at] = true;
                delta["id"] = json!(format!("id{at}"));
                delta["function"]["name"] = json!("write");
            }
            deltas.push(call(delta));
        }
        let mut all = closed(&said(&deltas, "tool_calls"));
        all.sort();
        let expected: Vec<_> = written.iter().enumerate()
            .map(|(at, it)| (format!("id{at}"), "write".to_owned(), it.clone())).collect();
        prop_assert_eq!(all, expected);
    }
}
