//! Requests of Responses: converts a conversation.

use kit::{Origin, Spec};
use serde_json::{Value, json};

use super::WIRE;
use crate::model::{
    Item, MessagePart, OwnTool, Piece, Request, ResultOf,
    endpoint::Served,
    openai::{arguments, picture, result_text},
    structured::{Enforced, enforced},
};

/// Models without reasoning, which refuse a request for it.
const NO_REASONING: [&str; 4] = ["gpt-3.5", "gpt-4", "chatgpt-4o", "gpt-5-chat"];

/// Minimum length of an answer that the provider accepts in a request, in tokens.
const SHORTEST: u64 = 16;

/// Returns the body of a request.
pub(super) fn body(served: &Served, request: &Request) -> Value {
    let mut body = json!({
        "model": served.model,
        "instructions": &*request.system,
        "input": input(served, request),
        "stream": true,
        "store": false,
        "prompt_cache_key": cache_key(request),
    });
    let Some(object) = body.as_object_mut() else { return body };
    let tools: Vec<Value> = request.tools.iter().filter_map(tool).collect();
    if !tools.is_empty() {
        object.insert("tools".to_owned(), Value::Array(tools));
    }
    if !NO_REASONING.iter().any(|it| served.model.starts_with(it)) {
        object.insert("include".to_owned(), json!(["reasoning.encrypted_content"]));
        if let Some(effort) = &served.effort {
            object.insert("reasoning".to_owned(), json!({"effort": effort, "summary": "auto"}));
        }
    }
    if let Some(Enforced { schema, all_required }) = request.format.as_deref().and_then(enforced) {
        let format =
            json!({"type": "json_schema", "name": "answer", "schema": schema, "strict": all_required});
        object.insert("text".to_owned(), json!({"format": format}));
    }
    if let Some(longest) = request.longest {
        let longest = longest.min(served.abilities.longest).max(SHORTEST);
        object.insert("max_output_tokens".to_owned(), longest.into());
    }
    body
}

/// Returns a cache key: requests of one conversation begin alike, so they go to the server that has cached
/// the beginning.
fn cache_key(request: &Request) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(request.system.as_bytes());
    for tool in request.tools.iter() {
        hasher.update(tool.name.as_bytes());
    }
    if let Some(first) = request.items.first() {
        hasher.update(serde_json::to_string(first).unwrap_or_default().as_bytes());
    }
    hasher.finalize().to_hex().chars().take(32).collect()
}

fn tool(spec: &Spec) -> Option<Value> {
    if spec.origin != Origin::Provider {
        return Some(json!({
            "type": "function",
            "name": spec.name,
            "description": spec.description,
            "parameters": spec.schema,
            // Otherwise every argument would be required in each call.
            "strict": false,
        }));
    }
    let own = [OwnTool::ImageGen, OwnTool::WebSearch].into_iter().find(|it| it.name() == spec.name)?;
    Some(match own {
        OwnTool::ImageGen => json!({"type": "image_generation", "output_format": "png"}),
        OwnTool::WebSearch => json!({"type": "web_search"}),
    })
}

fn input(served: &Served, request: &Request) -> Vec<Value> {
    let mut input = Vec::new();
    for item in &request.items {
        match item {
            Item::Person { pieces } => {
                let content: Vec<Value> = pieces.iter().map(|it| part(served, it)).collect();
                if !content.is_empty() {
                    input.push(json!({"type": "message", "role": "user", "content": content}));
                }
            }
            Item::Model { said } => add_model(served, said, &mut input),
            Item::Results { results } => input.extend(results.iter().map(|it| result(served, it))),
        }
    }
    input
}

fn add_model(served: &Served, said: &[MessagePart], input: &mut Vec<Value>) {
    // Reasoning belongs to the part after it; if that part is not sent, the reasoning isn't either.
    let mut thoughts: Vec<Value> = Vec::new();
    for said in said {
        let next = match said {
            MessagePart::Text { text } if text.trim().is_empty() => continue,
            MessagePart::Text { text } => json!({
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": text}],
            }),
            MessagePart::Call { id, tool, arguments: written } => json!({
                "type": "function_call",
                "call_id": id,
                "name": tool,
                "arguments": arguments(written),
            }),
            MessagePart::Opaque { wire, value } => {
                match value.get("item").filter(|_| wire == WIRE && is_own(served, value)) {
                    Some(item) if item.get("type").and_then(Value::as_str) == Some("reasoning") => {
                        thoughts.push(item.clone());
                    }
                    Some(_) => thoughts.clear(),
                    None => {}
                }
                continue;
            }
        };
        input.append(&mut thoughts);
        input.push(next);
    }
}

/// Returns whether the same model wrote this reasoning: only that model can read it.
fn is_own(served: &Served, value: &Value) -> bool {
    value.get("model").and_then(Value::as_str) == Some(&served.model)
}

fn result(served: &Served, result: &ResultOf) -> Value {
    let text = result_text(result);
    let sees = served.abilities.images && result.pieces.iter().any(|it| picture(it).is_some());
    let output = if sees {
        let mut parts = vec![json!({"type": "input_text", "text": text})];
        parts.extend(result.pieces.iter().filter(|it| picture(it).is_some()).map(|it| part(served, it)));
        Value::Array(parts)
    } else {
        text.into()
    };
    json!({"type": "function_call_output", "call_id": result.id, "output": output})
}

fn part(served: &Served, piece: &Piece) -> Value {
    match picture(piece).filter(|_| served.abilities.images) {
        Some(url) => json!({"type": "input_image", "image_url": url, "detail": "auto"}),
        None => json!({"type": "input_text", "text": piece.line()}),
    }
}
