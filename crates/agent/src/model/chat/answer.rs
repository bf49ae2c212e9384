//! Answers of Chat Completions: parses their chunks.

use serde_json::{Value, json};

use super::{
    WIRE,
    calls::{Calls, Piece},
};
use crate::model::{
    Breach, Event, MessagePart, ModelError, Request, Usage, Why,
    openai::{Answer, Stands, failed, parsed},
};

/// Parser of the chunks of one answer.
pub(super) struct Chunks {
    model: String,
    calls: Calls,
    thought: Thought,
    usage: Usage,
    refused: bool,
    why: Option<Why>,
    stands: Stands,
}

/// Reasoning, which some servers require together with the calls that follow it.
#[derive(Default)]
struct Thought {
    /// The server's name of the field, which it also expects in requests.
    key: &'static str,
    text: String,
    details: Vec<Value>,
}

impl Chunks {
    pub(super) fn new(model: &str, request: &Request) -> Self {
        Self {
            model: model.to_owned(),
            calls: Calls::new(model, request),
            thought: Thought::default(),
            usage: Usage::default(),
            refused: false,
            why: None,
            stands: Stands::Going,
        }
    }

    fn choice(&mut self, choice: &Value, events: &mut Vec<Event>) -> Result<(), ModelError> {
        // Some servers send the whole message instead of pieces.
        let delta = choice.get("delta").filter(|it| it.is_object()).or_else(|| choice.get("message"));
        if let Some(delta) = delta {
            self.delta(delta, events)?;
        }
        let Some(reason) = choice.get("finish_reason").and_then(Value::as_str).filter(|it| !it.is_empty())
        else {
            return Ok(());
        };
        self.finish(reason, events)
    }

    fn delta(&mut self, delta: &Value, events: &mut Vec<Event>) -> Result<(), ModelError> {
        self.think(delta, events);
        match delta.get("content") {
            Some(Value::Array(parts)) => parts.iter().for_each(|it| self.part(it, events)),
            Some(Value::String(text)) => self.text(text, events),
            _ => {}
        }
        if let Some(text) = delta.get("refusal").and_then(Value::as_str).filter(|it| !it.is_empty()) {
            self.refused = true;
            self.text(text, events);
        }
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let piece = piece(call)?;
            self.closing(events, |calls, events| calls.take(piece, events))?;
        }
        Ok(())
    }

    fn part(&mut self, part: &Value, events: &mut Vec<Event>) {
        match (part.get("text"), part.get("refusal"), part.get("thinking")) {
            (Some(Value::String(text)), ..) => self.text(text, events),
            (_, Some(Value::String(text)), _) => {
                self.refused = true;
                self.text(text, events);
            }
            (.., Some(Value::String(text))) => events.push(Event::Reasoning(text.clone())),
            (.., Some(Value::Array(parts))) => {
                let texts = parts.iter().filter_map(|it| it.get("text")?.as_str());
                events.extend(texts.map(|it| Event::Reasoning(it.to_owned())));
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str, events: &mut Vec<Event>) {
        if text.is_empty() {
            return;
        }
        events.push(Event::Text(text.to_owned()));
    }

    fn think(&mut self, delta: &Value, events: &mut Vec<Event>) {
        for detail in delta.get("reasoning_details").and_then(Value::as_array).into_iter().flatten() {
            self.thought.detail(detail);
        }
        for key in ["reasoning_content", "reasoning"] {
            let Some(text) = delta.get(key).and_then(Value::as_str).filter(|it| !it.is_empty()) else {
                continue;
            };
            self.thought.key = key;
            self.thought.text.push_str(text);
            events.push(Event::Reasoning(text.to_owned()));
            // Servers that send both fields send the same text in them.
            return;
        }
    }

    /// Runs `does`, which may close calls, and puts the reasoning before the calls that it closes.
    fn closing(
        &mut self,
        events: &mut Vec<Event>,
        does: impl FnOnce(&mut Calls, &mut Vec<Event>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        let mut new = Vec::new();
        let done = does(&mut self.calls, &mut new);
        if new.iter().any(|it| matches!(it, Event::CallClosed { .. })) {
            events.extend(self.thought.kept(&self.model));
        }
        events.append(&mut new);
        done
    }

    fn finish(&mut self, reason: &str, events: &mut Vec<Event>) -> Result<(), ModelError> {
        if self.why.is_some() {
            return Ok(());
        }
        let lower = reason.to_ascii_lowercase();
        if lower.contains("malformed_function_call") || lower == "error" {
            let what = format!("the provider broke the answer off: `{reason}`");
            return Err(ModelError::new(Breach::Malformed, what));
        }
        let (cut, why) = match lower.as_str() {
            "length" | "max_tokens" | "model_length" => (true, Some(Why::Length)),
            "content_filter" | "safety" | "refusal" => (true, Some(Why::Refused)),
            // `stop` and all others: the calls themselves tell whether there are any.
            _ => (false, None),
        };
        self.closing(events, |calls, events| calls.end(cut, events))?;
        if self.calls.any() {
            // Some servers send the reasoning, or its signature, after the call that follows from it.
            events.extend(self.thought.kept(&self.model));
        }
        let plain = match (self.refused, self.calls.any()) {
            (true, _) => Why::Refused,
            (false, true) => Why::Calls,
            (false, false) => Why::Done,
        };
        self.why = Some(why.unwrap_or(plain));
        self.stands = Stands::Complete;
        Ok(())
    }
}

impl Answer for Chunks {
    fn receive(&mut self, data: &str, events: &mut Vec<Event>) -> Result<(), ModelError> {
        if data.trim() == "[DONE]" {
            self.finish("stop", events)?;
            self.stands = Stands::Over;
            return Ok(());
        }
        let chunk = parsed(data)?;
        if let Some(error) = chunk.get("error").filter(|it| !it.is_null()) {
            return Err(failed(error));
        }
        let groq = chunk.get("x_groq").and_then(|it| it.get("usage"));
        if let Some(usage) = chunk.get("usage").filter(|it| it.is_object()).or(groq) {
            self.usage = used(usage);
        }
        let choices = chunk.get("choices").and_then(Value::as_array).into_iter().flatten();
        let first = |it: &&Value| it.get("index").and_then(Value::as_u64).unwrap_or(0) == 0;
        for choice in choices.filter(first) {
            if let Some(error) = choice.get("error").filter(|it| !it.is_null()) {
                return Err(failed(error));
            }
            self.choice(choice, events)?;
        }
        Ok(())
    }

    fn stands(&self) -> Stands {
        self.stands
    }

    fn end(&mut self, events: &mut Vec<Event>) {
        events.push(Event::Used(self.usage));
        events.push(Event::End(self.why.unwrap_or(Why::Done)));
    }
}

impl Thought {
    /// Merges a piece of OpenRouter's reasoning details, which it expects back as if they had arrived whole.
    fn detail(&mut self, detail: &Value) {
        let same = |it: &&mut Value| {
            ["type", "index", "format"].iter().all(|key| it.get(key) == detail.get(key))
                && detail.get("index").is_some()
        };
        let (Some(before), Some(more)) = (self.details.last_mut().filter(same), detail.as_object()) else {
            self.details.push(detail.clone());
            return;
        };
        for (key, value) in more {
            match (before.get_mut(key), value) {
                (Some(Value::String(text)), Value::String(more))
                    if matches!(key.as_str(), "text" | "summary" | "data") =>
                {
                    text.push_str(more);
                }
                (_, Value::Null) => {}
                _ => {
                    if let Some(before) = before.as_object_mut() {
                        before.insert(key.clone(), value.clone());
                    }
                }
            }
        }
    }

    /// Takes the reasoning since the last use, in the form in which it is stored.
    fn kept(&mut self, model: &str) -> Option<Event> {
        let thought = std::mem::take(self);
        let mut value = json!({ "model": model });
        let object = value.as_object_mut()?;
        if !thought.details.is_empty() {
            object.insert("reasoning_details".to_owned(), Value::Array(thought.details));
        } else if !thought.text.is_empty() {
            object.insert(thought.key.to_owned(), Value::String(thought.text));
        } else {
            return None;
        }
        Some(Event::Opaque(MessagePart::Opaque { wire: WIRE.to_owned(), value }))
    }
}

fn piece(call: &Value) -> Result<Piece, ModelError> {
    let function = call.get("function").unwrap_or(call);
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let arguments = match function.get("arguments") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(object @ Value::Object(_)) => object.to_string(),
        Some(other) => {
            let what = format!("the arguments of a call are neither text nor an object: {other}");
            return Err(ModelError::new(Breach::Malformed, what));
        }
    };
    Ok(Piece {
        index: call.get("index").and_then(Value::as_u64),
        id: text(call.get("id")),
        tool: text(function.get("name")),
        arguments,
        extra: call.get("extra_content").filter(|it| !it.is_null()).cloned(),
    })
}

/// Returns the tokens used. `cached` and `kept` are parts of `prompt_tokens` in this format.
fn used(usage: &Value) -> Usage {
    let number = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or(0);
    let of = |key: &str| number(usage.get(key));
    let detail = |group: &str, key: &str| number(usage.get(group).and_then(|it| it.get(key)));
    let request = of("prompt_tokens");
    let cached =
        detail("prompt_tokens_details", "cached_tokens").max(of("prompt_cache_hit_tokens")).min(request);
    let kept = detail("prompt_tokens_details", "cache_write_tokens").min(request - cached);
    // Gemini counts reasoning in the total, but not in `completion_tokens`.
    let output = of("completion_tokens").max(of("total_tokens").saturating_sub(request));
    let reasoning = detail("completion_tokens_details", "reasoning_tokens")
        .max(output.saturating_sub(of("completion_tokens")));
    Usage { input: request - cached - kept, cached, kept, output, reasoning }
}
