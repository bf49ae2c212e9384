//! Answers of the Messages API: parses their events.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::WIRE;
use crate::model::{Breach, Event, MessagePart, ModelError, Usage, Why, http};

/// A block that is sent back unchanged.
pub(super) struct KeptBlock {
    /// The model that wrote it.
    pub(super) model: String,
    /// The block.
    pub(super) block: Value,
}

impl KeptBlock {
    /// Returns the block that was stored in this form.
    pub(super) fn of(value: &Value) -> Option<Self> {
        let model = value.get("model")?.as_str()?.to_owned();
        Some(Self { model, block: value.get("block")?.clone() })
    }

    fn said(self) -> MessagePart {
        MessagePart::Opaque {
            wire: WIRE.to_owned(),
            value: json!({ "model": self.model, "block": self.block }),
        }
    }
}

/// An answer while it streams.
pub(super) struct Answer {
    /// The model's name in the request.
    model: String,
    /// The open blocks.
    blocks: BTreeMap<u64, Block>,
    /// Calls whose block is closed, but which may have been cut off: see [`Answer::close`].
    doubtful: Vec<Event>,
    /// The number of calls that have begun.
    calls: usize,
    usage: Usage,
    why: Option<Why>,
    over: bool,
}

/// A block of an answer while it streams.
enum Block {
    Text,
    /// A block that is sent back unchanged once it is complete.
    Kept {
        block: Map<String, Value>,
        /// Its input so far.
        written: String,
    },
    Call {
        index: usize,
        id: String,
        tool: String,
        written: String,
        /// The input with which it began; empty, unless a server does not stream it.
        given: Value,
    },
    /// A block of an unknown kind.
    Unknown,
}

impl Answer {
    /// Creates the answer of this model, without any events.
    pub(super) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            blocks: BTreeMap::new(),
            doubtful: Vec::new(),
            calls: 0,
            usage: Usage::default(),
            why: None,
            over: false,
        }
    }

    /// Returns whether the end event has arrived.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Parses the data of one event.
    ///
    /// # Errors
    /// When the event is an error or malformed.
    pub(super) fn receive(&mut self, data: &str) -> Result<Vec<Event>, ModelError> {
        let value: Value = serde_json::from_str(data).map_err(|error| malformed(&error.to_string(), data))?;
        match text(&value, "type") {
            "message_start" => {
                self.count(value.pointer("/message/usage"));
                Ok(Vec::new())
            }
            "content_block_start" => {
                self.start(&value).ok_or_else(|| malformed("no block begins here", data))
            }
            "content_block_delta" => {
                self.grow(&value).ok_or_else(|| malformed("no such block is open", data))
            }
            "content_block_stop" => self.stop(&value).ok_or_else(|| malformed("no such block is open", data)),
            "message_delta" => Ok(self.message(&value)),
            "message_stop" => {
                self.over = true;
                Ok(self.end().unwrap_or_default())
            }
            "error" => Err(failed(&value)),
            "" if value.get("error").is_some() => Err(failed(&value)),
            "" => Err(malformed("it has no type", data)),
            // `ping`, and future events: the format says that unknown events are to be ignored.
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the last events, if the answer is complete.
    pub(super) fn end(&mut self) -> Option<Vec<Event>> {
        let why = match self.why {
            Some(why) => why,
            None if !self.over => return None,
            None if self.calls > 0 => Why::Calls,
            None => Why::Done,
        };
        let mut events = self.settle(why);
        events.push(Event::Used(self.usage));
        events.push(Event::End(why));
        Some(events)
    }

    fn start(&mut self, value: &Value) -> Option<Vec<Event>> {
        let at = value.get("index")?.as_u64()?;
        let given = value.get("content_block")?.as_object()?;
        // An answer that was cut off has no further block.
        let mut events = std::mem::take(&mut self.doubtful);
        let of = |key: &str| given.get(key).and_then(Value::as_str).unwrap_or_default();
        let block = match of("type") {
            "text" => {
                if !of("text").is_empty() {
                    events.push(Event::Text(of("text").to_owned()));
                }
                Block::Text
            }
            "tool_use" => {
                let (index, tool) = (self.calls, of("name").to_owned());
                self.calls += 1;
                events.push(Event::CallBegan { index, tool: tool.clone() });
                let given = given.get("input").cloned().unwrap_or_default();
                Block::Call { index, id: of("id").to_owned(), tool, written: String::new(), given }
            }
            "thinking" => {
                if !of("thinking").is_empty() {
                    events.push(Event::Reasoning(of("thinking").to_owned()));
                }
                Block::Kept { block: given.clone(), written: String::new() }
            }
            kind if is_kept(kind) => Block::Kept { block: given.clone(), written: String::new() },
            _ => Block::Unknown,
        };
        self.blocks.insert(at, block);
        Some(events)
    }

    fn grow(&mut self, value: &Value) -> Option<Vec<Event>> {
        let block = self.blocks.get_mut(&value.get("index")?.as_u64()?)?;
        let delta = value.get("delta")?;
        let events = match (text(delta, "type"), block) {
            ("text_delta", Block::Text) => vec![Event::Text(text(delta, "text").to_owned())],
            ("input_json_delta", Block::Call { index, written, .. }) => {
                let more = text(delta, "partial_json");
                written.push_str(more);
                vec![Event::CallGrew { index: *index, bytes: more.len() }]
            }
            ("input_json_delta", Block::Kept { written, .. }) => {
                written.push_str(text(delta, "partial_json"));
                Vec::new()
            }
            ("thinking_delta", Block::Kept { block, .. }) => {
                append(block, "thinking", text(delta, "thinking"));
                vec![Event::Reasoning(text(delta, "thinking").to_owned())]
            }
            ("signature_delta", Block::Kept { block, .. }) => {
                append(block, "signature", text(delta, "signature"));
                Vec::new()
            }
            // Citations, and future kinds.
            _ => Vec::new(),
        };
        Some(events.into_iter().filter(|it| !is_empty(it)).collect())
    }

    fn stop(&mut self, value: &Value) -> Option<Vec<Event>> {
        let block = self.blocks.remove(&value.get("index")?.as_u64()?)?;
        Some(match block {
            Block::Text | Block::Unknown => Vec::new(),
            Block::Kept { mut block, written } => {
                if let Ok(input) = serde_json::from_str(&written) {
                    block.insert("input".to_owned(), input);
                }
                let kept = KeptBlock { model: self.model.clone(), block: Value::Object(block) };
                vec![Event::Opaque(kept.said())]
            }
            Block::Call { index, id, tool, written, given } => self.close(index, id, tool, written, &given),
        })
    }

    /// Closes the block of a call, and begins the call at once if its arguments are complete. The block of a
    /// call is also closed when the answer reaches its length limit in the middle of the call: a call whose
    /// arguments are missing or not JSON waits for the next event, which tells whether that happened.
    fn close(
        &mut self,
        index: usize,
        id: String,
        tool: String,
        written: String,
        given: &Value,
    ) -> Vec<Event> {
        let whole = serde_json::from_str::<serde::de::IgnoredAny>(&written).is_ok();
        let is_given = given.as_object().is_some_and(|it| !it.is_empty());
        let arguments = match (written.trim().is_empty(), is_given) {
            (true, true) => given.to_string(),
            (true, false) => "{}".to_owned(),
            (false, _) => written,
        };
        let closed = Event::CallClosed { index, id, tool, arguments };
        if whole || is_given {
            return vec![closed];
        }
        self.doubtful.push(closed);
        Vec::new()
    }

    /// Returns the calls that waited, unless they were cut off.
    fn settle(&mut self, why: Why) -> Vec<Event> {
        let doubtful = std::mem::take(&mut self.doubtful);
        if why == Why::Length { Vec::new() } else { doubtful }
    }

    fn message(&mut self, value: &Value) -> Vec<Event> {
        self.count(value.get("usage"));
        let Some(reason) = value.pointer("/delta/stop_reason").and_then(Value::as_str) else {
            return Vec::new();
        };
        let why = match reason {
            "tool_use" => Why::Calls,
            "max_tokens" | "model_context_window_exceeded" => Why::Length,
            "pause_turn" => Why::Paused,
            "refusal" => Why::Refused,
            _ if self.calls > 0 => Why::Calls,
            _ => Why::Done,
        };
        self.why = Some(why);
        self.settle(why)
    }

    /// Sets the counts; each usage object counts the whole answer.
    fn count(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        let set = |count: &mut u64, key: &str| {
            if let Some(number) = usage.pointer(key).and_then(Value::as_u64) {
                *count = number;
            }
        };
        set(&mut self.usage.input, "/input_tokens");
        set(&mut self.usage.cached, "/cache_read_input_tokens");
        set(&mut self.usage.kept, "/cache_creation_input_tokens");
        set(&mut self.usage.output, "/output_tokens");
        set(&mut self.usage.reasoning, "/output_tokens_details/thinking_tokens");
    }
}

/// Returns whether a block of this kind is sent back unchanged.
fn is_kept(kind: &str) -> bool {
    matches!(kind, "thinking" | "redacted_thinking" | "server_tool_use") || kind.ends_with("_tool_result")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn append(block: &mut Map<String, Value>, key: &str, more: &str) {
    match block.get_mut(key) {
        Some(Value::String(before)) => before.push_str(more),
        _ => {
            block.insert(key.to_owned(), Value::String(more.to_owned()));
        }
    }
}

fn is_empty(event: &Event) -> bool {
    match event {
        Event::Text(text) | Event::Reasoning(text) => text.is_empty(),
        Event::CallGrew { bytes, .. } => *bytes == 0,
        _ => false,
    }
}

fn malformed(why: &str, data: &str) -> ModelError {
    // `Secrets::covered` truncates it.
    ModelError::new(Breach::Malformed, format!("an event of the answer makes no sense: {why}: {data}"))
}

/// Returns the error of an error event.
fn failed(value: &Value) -> ModelError {
    let kind = value.pointer("/error/type").and_then(Value::as_str).unwrap_or_default();
    let said = http::message(&value.to_string()).unwrap_or_default();
    let breach = match kind {
        "authentication_error" | "permission_error" => Breach::Auth,
        "request_too_large" => Breach::TooLong,
        _ if http::is_too_long(&said) => Breach::TooLong,
        "invalid_request_error" | "not_found_error" | "billing_error" => Breach::Refused,
        // `overloaded_error`, `rate_limit_error`, `api_error`, `timeout_error`, and future kinds.
        _ => Breach::Busy,
    };
    ModelError::new(breach, format!("the provider broke the answer off: {kind}: {said}"))
}
