//! Requests of Chat Completions: converts a conversation.

use kit::{Origin, Spec};
use serde_json::{Map, Value, json};

use super::WIRE;
use crate::model::{
    Item, MessagePart, Piece, Request, ResultOf,
    endpoint::Served,
    openai::{arguments, picture, result_text},
    structured::{Enforced, enforced},
};

/// The servers that support `max_completion_tokens`, and whose newer models require it. All others support
/// `max_tokens`.
const OPENAI: [&str; 2] = ["api.openai.com", ".openai.azure.com"];

/// Returns the body of a request.
pub(super) fn body(served: &Served, request: &Request) -> Value {
    let mut body = json!({
        "model": served.model,
        "messages": messages(served, request),
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    let Some(object) = body.as_object_mut() else { return body };
    let tools: Vec<Value> =
        request.tools.iter().filter(|it| it.origin != Origin::Provider).map(tool).collect();
    if !tools.is_empty() {
        object.insert("tools".to_owned(), Value::Array(tools));
    }
    let own = OPENAI.iter().any(|it| served.endpoint.url.contains(it));
    // Many other servers refuse it together with tools, or apply it to calls too.
    if let Some(Enforced { schema, all_required }) =
        request.format.as_deref().filter(|_| own).and_then(enforced)
    {
        let format = json!({"name": "answer", "schema": schema, "strict": all_required});
        object.insert("response_format".to_owned(), json!({"type": "json_schema", "json_schema": format}));
    }
    if let Some(longest) = request.longest {
        let key = if own { "max_completion_tokens" } else { "max_tokens" };
        object.insert(key.to_owned(), longest.min(served.abilities.longest).into());
    }
    if let Some(effort) = &served.effort {
        object.insert("reasoning_effort".to_owned(), effort.as_str().into());
    }
    body
}

fn tool(spec: &Spec) -> Value {
    json!({
        "type": "function",
        "function": {"name": spec.name, "description": spec.description, "parameters": spec.schema},
    })
}

fn messages(served: &Served, request: &Request) -> Vec<Value> {
    let mut messages = Messages { served, list: Vec::new(), person: Vec::new() };
    if !request.system.is_empty() {
        // `system`, which OpenAI treats as `developer` where a model has that, and which is the only one that
        // others know.
        messages.list.push(json!({"role": "system", "content": &*request.system}));
    }
    for item in &request.items {
        match item {
            Item::Person { pieces } => messages.person.extend_from_slice(pieces),
            Item::Model { said } => messages.model(said),
            Item::Results { results } => messages.results(results),
        }
    }
    messages.flush();
    messages.list
}

struct Messages<'a> {
    served: &'a Served,
    list: Vec<Value>,
    /// The pieces of the person's next message: many servers refuse two in a row.
    person: Vec<Piece>,
}

impl Messages<'_> {
    fn flush(&mut self) {
        let pieces = std::mem::take(&mut self.person);
        if pieces.is_empty() {
            return;
        }
        let sees = self.served.abilities.images;
        let content = if sees && pieces.iter().any(|it| picture(it).is_some()) {
            Value::Array(pieces.iter().map(part).collect())
        } else {
            pieces.iter().map(Piece::line).collect::<Vec<_>>().join("\n\n").into()
        };
        self.list.push(json!({"role": "user", "content": content}));
    }

    fn model(&mut self, said: &[MessagePart]) {
        self.flush();
        let texts = said
            .iter()
            .filter_map(|it| if let MessagePart::Text { text } = it { Some(&**text) } else { None });
        let text = texts.collect::<Vec<_>>().join("\n\n");
        let kept: Vec<&Value> = said.iter().filter_map(|it| self.kept(it)).collect();
        let calls: Vec<Value> = said.iter().filter_map(|it| call(it, &kept)).collect();
        if text.is_empty() && calls.is_empty() {
            return;
        }
        let content = if text.is_empty() { Value::Null } else { text.into() };
        let mut message =
            Map::from_iter([("role".to_owned(), "assistant".into()), ("content".to_owned(), content)]);
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), Value::Array(calls));
            kept.iter().for_each(|it| add_thought(&mut message, it));
        }
        self.list.push(Value::Object(message));
    }

    /// Returns the part to send back, if it came from the same model.
    fn kept<'a>(&self, said: &'a MessagePart) -> Option<&'a Value> {
        let MessagePart::Opaque { wire, value } = said else { return None };
        let model = value.get("model").and_then(Value::as_str);
        (wire == WIRE && model == Some(&self.served.model)).then_some(value)
    }

    fn results(&mut self, results: &[ResultOf]) {
        // The results follow the calls directly; the person's messages come after them.
        for result in results {
            let text = result_text(result);
            self.list.push(json!({"role": "tool", "tool_call_id": result.id, "content": text}));
        }
        if !self.served.abilities.images {
            return;
        }
        // Results are text in this format.
        for result in results {
            for piece in result.pieces.iter().filter(|it| picture(it).is_some()) {
                self.person.push(Piece::text(format!("{} of `{}`:", piece.line(), result.tool)));
                self.person.push(piece.clone());
            }
        }
    }
}

fn part(piece: &Piece) -> Value {
    match picture(piece) {
        Some(url) => json!({"type": "image_url", "image_url": {"url": url}}),
        None => json!({"type": "text", "text": piece.line()}),
    }
}

fn call(said: &MessagePart, kept: &[&Value]) -> Option<Value> {
    let MessagePart::Call { id, tool, arguments: written } = said else { return None };
    let function = json!({"name": tool, "arguments": arguments(written)});
    let mut call = json!({"id": id, "type": "function", "function": function});
    // The last one counts: a server may send more about a call after it has begun.
    let extra = kept.iter().rev().find(|it| it.get("call").and_then(Value::as_str) == Some(id));
    if let (Some(extra), Some(call)) = (extra.and_then(|it| it.get("extra_content")), call.as_object_mut()) {
        call.insert("extra_content".to_owned(), extra.clone());
    }
    Some(call)
}

/// Adds reasoning under the field that the server uses for it, with its pieces merged.
fn add_thought(message: &mut Map<String, Value>, kept: &Value) {
    for key in ["reasoning_content", "reasoning", "reasoning_details"] {
        match (message.get_mut(key), kept.get(key)) {
            (Some(Value::String(before)), Some(Value::String(more))) => before.push_str(more),
            (Some(Value::Array(before)), Some(Value::Array(more))) => before.extend_from_slice(more),
            (None, Some(value)) => {
                message.insert(key.to_owned(), value.clone());
            }
            _ => {}
        }
    }
}
