//! Tests of dialects: calls are found however a text is split, and everything else is kept.

#![expect(clippy::unwrap_used, reason = "tests")]

mod conversation;
mod rows;
mod splits;

use std::sync::LazyLock;

use kit::{Kinds, Mode, Origin, Spec};
use serde_json::{Value, json};

use super::*;

/// A part of the parsed answer; adjacent texts are one part.
#[derive(Debug, Clone, PartialEq)]
enum Found {
    Text(String),
    Began(usize, String),
    Grew(usize, usize),
    Call(String, Value),
}

fn call(tool: &str, arguments: Value) -> Found {
    Found::Call(tool.to_owned(), arguments)
}

fn text(text: &str) -> Found {
    Found::Text(text.to_owned())
}

fn spec(name: &str, schema: Value) -> Spec {
    Spec {
        name: name.to_owned(),
        description: format!("Does {name}."),
        schema,
        mode: Mode::Direct,
        at_most: Kinds::NONE,
        output: None,
        origin: Origin::Program,
    }
}

/// The built-in tools, and tools that only other programs have.
static SPECS: LazyLock<Vec<Spec>> = LazyLock::new(|| {
    let mut specs: Vec<Spec> = tools::all().iter().map(|it| it.spec().clone()).collect();
    let one =
        |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    specs.push(spec("subagent", one("task")));
    specs.push(spec("send_message", one("message")));
    specs.push(spec(
        "note",
        json!({"type": "object", "properties": {
            "content": {"type": "string"}, "urgent": {"type": "boolean"}, "ratio": {"type": "number"},
            "tags": {"type": "array", "items": {"type": "string"}}, "any": {}
        }, "required": ["content"]}),
    ));
    specs
});

fn specs() -> Vec<Spec> {
    SPECS.clone()
}

fn dialect(words: &str) -> Dialect {
    words.parse().unwrap()
}

fn syntax_of(words: &str) -> Arc<Syntax> {
    syntax::of(dialect(words).manner(), &SPECS)
}

/// Parses a text that arrives in these pieces, and returns whether a call was cut off.
fn found<'a>(words: &str, pieces: impl IntoIterator<Item = &'a str>) -> (Vec<Found>, bool) {
    let mut parser = Parser::new(syntax_of(words), CALLS);
    let mut events: Vec<Event> = pieces.into_iter().flat_map(|it| parser.feed(it)).collect();
    let rest = parser.finish();
    events.extend(rest.events);
    (merged(events), rest.cut)
}

fn merged(events: Vec<Event>) -> Vec<Found> {
    let mut all: Vec<Found> = Vec::new();
    for event in events {
        match (event, all.last_mut()) {
            (Event::Text(more), Some(Found::Text(text))) => text.push_str(&more),
            (Event::Text(text), _) => all.push(Found::Text(text)),
            (Event::CallBegan { index, tool }, _) => all.push(Found::Began(index, tool)),
            (Event::CallGrew { index, bytes }, Some(Found::Grew(same, sum))) if *same == index => {
                *sum += bytes;
            }
            (Event::CallGrew { index, bytes }, _) => all.push(Found::Grew(index, bytes)),
            (Event::CallClosed { tool, arguments, .. }, _) => {
                let arguments = serde_json::from_str(&arguments).unwrap_or(Value::String(arguments));
                all.push(Found::Call(tool, arguments));
            }
            (other, _) => unreachable!("{other:?}"),
        }
    }
    all
}

/// Parses a whole text.
fn said(words: &str, text: &str) -> Vec<Found> {
    let (found, _) = found(words, [text]);
    let mut all: Vec<Found> = Vec::new();
    for part in found {
        match (part, all.last_mut()) {
            // A block that is not a call is one text with its surroundings.
            (Found::Text(more), Some(Found::Text(text))) => text.push_str(&more),
            (Found::Began(..) | Found::Grew(..), _) => {}
            (other, _) => all.push(other),
        }
    }
    all
}

/// Asserts that all of it is text.
#[track_caller]
fn is_text(words: &str, whole: &str) {
    assert_eq!(said(words, whole), [text(whole)], "{words}");
}

/// Asserts that it is this one call.
#[track_caller]
fn is_call(words: &str, whole: &str, tool: &str, arguments: Value) {
    assert_eq!(said(words, whole), [call(tool, arguments)], "{words}: {whole}");
}
