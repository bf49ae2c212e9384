//! Requests of the Messages API: converts a conversation.

use std::collections::{HashMap, HashSet};

use kit::{Origin, base64};
use serde_json::{Map, Value, json};

use super::{WIRE, answer::KeptBlock};
use crate::model::{
    Item, MessagePart, OwnTool, Piece, Request, ResultOf, endpoint::Served, structured::enforced,
};

/// The media types of pictures in this format.
const PICTURES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
/// Number of the person's last messages with a cache breakpoint. With those of the system prompt and the
/// tools, they are the four that the provider allows.
const CACHE_BREAKPOINTS: usize = 2;
/// Minimum budget of thinking, in tokens.
const LEAST_BUDGET: u64 = 1024;

/// Whether the model's thinking is sent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thinking {
    /// The thinking of this conversation is sent back.
    Kept,
    /// The thinking is left out, because the provider refused it.
    Left,
}

/// Returns the body of a request.
pub(super) fn body(served: &Served, request: &Request, thinking: Thinking) -> Value {
    let longest = request.longest.unwrap_or(u64::MAX).min(served.abilities.longest);
    let mut body = json!({ "model": served.model, "max_tokens": longest, "stream": true });
    let Some(fields) = body.as_object_mut() else { return body };
    think(fields, served, longest);
    if thinking == Thinking::Left
        && fields.get("thinking").is_some_and(|it| it.get("budget_tokens").is_some())
    {
        // With a budget, the thinking before an answer's calls is required.
        fields.remove("thinking");
    }
    if let Some(enforced) = request.format.as_deref().and_then(enforced) {
        let config = fields.entry("output_config").or_insert_with(|| json!({}));
        if let Some(config) = config.as_object_mut() {
            config.insert("format".to_owned(), json!({"type": "json_schema", "schema": enforced.schema}));
        }
    }
    let tools = tools(served, request);
    if !tools.is_empty() {
        fields.insert("tools".to_owned(), Value::Array(tools));
    }
    if !request.system.trim().is_empty() {
        let mut block = json!({ "type": "text", "text": &*request.system });
        mark(&mut block);
        fields.insert("system".to_owned(), Value::Array(vec![block]));
    }
    fields.insert("messages".to_owned(), Value::Array(messages(served, &request.items, thinking)));
    body
}

fn mark(block: &mut Value) {
    if let Some(block) = block.as_object_mut() {
        block.insert("cache_control".to_owned(), json!({ "type": "ephemeral" }));
    }
}

/// Sets how hard the model thinks. Models up to 4.5 get a number of tokens; those from 4.6 on decide
/// themselves, guided by a word, and the newest of them refuse the number. Those from 5 on always think, and
/// show their thinking only on request.
fn think(fields: &mut Map<String, Value>, served: &Served, longest: u64) {
    let version = version(&served.model);
    let adaptive = json!({ "type": "adaptive", "display": "summarized" });
    let Some(effort) = served.effort.as_deref() else {
        if version.is_some_and(|it| it >= (5, 0)) {
            fields.insert("thinking".to_owned(), adaptive);
        }
        return;
    };
    let number = effort.parse::<u64>().ok();
    if matches!(effort, "none" | "off") || number == Some(0) {
        fields.insert("thinking".to_owned(), json!({ "type": "disabled" }));
        return;
    }
    if number.is_none() && version.is_some_and(|it| it >= (4, 6)) {
        let effort = if effort == "minimal" { "low" } else { effort };
        fields.insert("thinking".to_owned(), adaptive);
        fields.insert("output_config".to_owned(), json!({ "effort": effort }));
        return;
    }
    let budget = number.unwrap_or(match effort {
        "minimal" => LEAST_BUDGET,
        "low" => 4_000,
        "medium" => 10_000,
        _ => 24_000,
    });
    // Thinking is part of the answer, so a quarter is left for the rest of it.
    let budget = budget.min(longest / 4 * 3);
    if budget >= LEAST_BUDGET {
        fields.insert("thinking".to_owned(), json!({ "type": "enabled", "budget_tokens": budget }));
    }
}

/// Returns the version of a Claude model: `claude-opus-4-6` and `anthropic/claude-sonnet-4.6` are 4 and 6.
fn version(model: &str) -> Option<(u32, u32)> {
    let (_, after) = model.split_once("claude")?;
    let mut parts = after.split(|it: char| !it.is_ascii_alphanumeric()).filter(|it| !it.is_empty());
    // A date has eight digits.
    let number = |it: &str| if it.len() <= 2 { it.parse::<u32>().ok() } else { None };
    let major = parts.by_ref().find_map(number)?;
    Some((major, parts.next().and_then(number).unwrap_or(0)))
}

fn tools(served: &Served, request: &Request) -> Vec<Value> {
    let mut tools: Vec<Value> = request
        .tools
        .iter()
        .filter_map(|spec| match spec.origin {
            Origin::Provider => {
                let own = served.abilities.own_tools.iter().any(|it| it.name() == spec.name);
                let searches = own && spec.name == OwnTool::WebSearch.name();
                searches.then(|| json!({ "type": "web_search_20250305", "name": "web_search", "max_uses": 5 }))
            }
            Origin::Program | Origin::File(_) | Origin::Server(_) => {
                Some(json!({ "name": spec.name, "description": spec.description, "input_schema": schema(&spec.schema) }))
            }
        })
        .collect();
    if let Some(last) = tools.last_mut() {
        mark(last);
    }
    tools
}

/// Returns the schema as the format requires it: an object, without a choice between schemas at the top.
fn schema(given: &Value) -> Value {
    let mut schema = given.as_object().cloned().unwrap_or_default();
    for key in ["oneOf", "anyOf", "allOf"] {
        schema.remove(key);
    }
    schema.insert("type".to_owned(), json!("object"));
    Value::Object(schema)
}

/// A message under construction.
struct Message {
    role: &'static str,
    content: Vec<Value>,
}

fn messages(served: &Served, items: &[Item], thinking: Thinking) -> Vec<Value> {
    let searched = searched(items);
    let mut ids = Ids::default();
    let mut messages: Vec<Message> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let (role, content): (_, Vec<Value>) = match item {
            Item::Person { pieces } => ("user", blocks(served, pieces)),
            Item::Results { results } => {
                ("user", results.iter().flat_map(|it| result(served, it, &ids)).collect())
            }
            Item::Model { said } => {
                let last = at + 1 == items.len();
                // Thinking belongs to its model: another model refuses it, or has no use for it.
                let keep = |kept: &KeptBlock| {
                    let own = thinking == Thinking::Kept && kept.model == served.model;
                    if is_thinking(&kept.block) { own } else { last || is_answered(&kept.block, &searched) }
                };
                ("assistant", said.iter().filter_map(|it| part(it, &mut ids, keep)).collect())
            }
        };
        match messages.last_mut() {
            Some(message) if message.role == role => message.content.extend(content),
            _ => messages.push(Message { role, content }),
        }
    }
    finish(messages)
}

/// Returns messages that the provider accepts: none is empty, none of the model's ends with thinking, roles
/// alternate, and the first one is the person's.
fn finish(messages: Vec<Message>) -> Vec<Value> {
    let mut kept: Vec<Message> = Vec::new();
    for mut message in messages {
        while message.role == "assistant" && message.content.last().is_some_and(is_thinking) {
            message.content.pop();
        }
        match kept.last_mut() {
            _ if message.content.is_empty() => {}
            Some(before) if before.role == message.role => before.content.append(&mut message.content),
            _ => kept.push(message),
        }
    }
    if kept.first().is_none_or(|it| it.role == "assistant") {
        kept.insert(0, Message { role: "user", content: vec![json!({ "type": "text", "text": "Go on." })] });
    }
    let persons = kept.iter_mut().rev().filter(|it| it.role == "user");
    for block in persons.take(CACHE_BREAKPOINTS).filter_map(|it| it.content.last_mut()) {
        mark(block);
    }
    kept.into_iter().map(|it| json!({ "role": it.role, "content": it.content })).collect()
}

fn is_thinking(block: &Value) -> bool {
    block.get("type").and_then(Value::as_str).is_some_and(|it| it.ends_with("thinking"))
}

/// Returns the ids of the calls of the provider's own tools that have their result.
fn searched(items: &[Item]) -> HashSet<&str> {
    let said = items.iter().filter_map(|it| if let Item::Model { said } = it { Some(said) } else { None });
    said.flatten()
        .filter_map(|it| {
            if let MessagePart::Opaque { value, .. } = it {
                value.pointer("/block/tool_use_id")?.as_str()
            } else {
                None
            }
        })
        .collect()
}

/// Returns whether a block can be sent back: the provider refuses a call of its own tool that broke off
/// before its result.
fn is_answered(value: &Value, searched: &HashSet<&str>) -> bool {
    let of = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    of("type") != "server_tool_use" || searched.contains(of("id"))
}

fn part(said: &MessagePart, ids: &mut Ids, keep: impl Fn(&KeptBlock) -> bool) -> Option<Value> {
    match said {
        MessagePart::Text { text } => text_block(text),
        MessagePart::Call { id, tool, arguments } => Some(
            json!({ "type": "tool_use", "id": ids.call(id), "name": name(tool), "input": input(arguments) }),
        ),
        MessagePart::Opaque { wire, value } if wire == WIRE => {
            KeptBlock::of(value).filter(|it| keep(it)).map(|it| it.block)
        }
        MessagePart::Opaque { .. } => None,
    }
}

/// Returns a call's input. The format requires an object, even if the model wrote none.
fn input(arguments: &str) -> Value {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(input)) => Value::Object(input),
        _ if arguments.trim().is_empty() => json!({}),
        _ => json!({ "_unparsed": arguments }),
    }
}

/// Returns a tool's name that the format accepts. One invalid name, invented by a model, would make the
/// provider refuse the whole conversation.
fn name(tool: &str) -> String {
    let clean = clean(tool);
    if clean.is_empty() { "unknown".to_owned() } else { clean.chars().take(64).collect() }
}

fn clean(text: &str) -> String {
    text.chars().map(|it| if it.is_ascii_alphanumeric() || "_-".contains(it) { it } else { '_' }).collect()
}

/// Maps call ids to the form that the format requires: few kinds of characters, and each id only once in a
/// conversation.
#[derive(Default)]
struct Ids {
    used: HashSet<String>,
    /// The new ids for the results of the current calls.
    now: HashMap<String, String>,
}

impl Ids {
    fn call(&mut self, id: &str) -> String {
        let clean = if id.is_empty() { "call".to_owned() } else { clean(id) };
        let mut own = clean.clone();
        let mut count = 1;
        while !self.used.insert(own.clone()) {
            count += 1;
            own = format!("{clean}_{count}");
        }
        self.now.insert(id.to_owned(), own.clone());
        own
    }
}

fn result(served: &Served, result: &ResultOf, ids: &Ids) -> Vec<Value> {
    let content = blocks(served, &result.pieces);
    let Some(id) = ids.now.get(&result.id) else { return content };
    let mut block = json!({ "type": "tool_result", "tool_use_id": id });
    if let Some(fields) = block.as_object_mut() {
        if !content.is_empty() {
            fields.insert("content".to_owned(), Value::Array(content));
        }
        if !result.ok {
            fields.insert("is_error".to_owned(), json!(true));
        }
    }
    vec![block]
}

fn blocks(served: &Served, pieces: &[Piece]) -> Vec<Value> {
    pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Image { mime, data: Some(data), .. }
                if served.abilities.images && PICTURES.contains(&mime.as_str()) =>
            {
                let source = json!({ "type": "base64", "media_type": mime, "data": base64::encoded(data) });
                Some(json!({ "type": "image", "source": source }))
            }
            _ => text_block(&piece.line()),
        })
        .collect()
}

/// Returns a text block; `None` for blank text, which the format refuses.
fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({ "type": "text", "text": text }))
}
