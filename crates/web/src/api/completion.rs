//! Chat completions as they are sent: whole, or in chunks.

use std::time::Duration;

use agent::model::Usage;
use kit::Fault;
use serde_json::{Value, json};

use crate::access::now_ms;

/// The end of a stream.
pub(super) const DONE: &str = "data: [DONE]\n\n";

/// Time for the last event of a stream when the server ends.
pub(super) const LAST_EVENT: Duration = Duration::from_millis(200);

/// A completion before its text.
pub(super) struct Completion {
    id: String,
    model: String,
    created: u64,
    /// Whether the last chunk says the tokens.
    with_usage: bool,
}

impl Completion {
    pub(super) fn new(id: String, model: &str, with_usage: bool) -> Self {
        Self { id, model: model.to_owned(), created: now_ms() / 1000, with_usage }
    }

    /// Returns the completion with its text.
    pub(super) fn whole(&self, text: &str, reason: &str, usage: &Usage) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": reason,
            }],
            "usage": tokens(usage),
        })
    }

    /// Returns the chunk before all text.
    pub(super) fn first(&self) -> String {
        self.delta(&json!({"role": "assistant", "content": ""}), &Value::Null)
    }

    /// Returns a chunk of text.
    pub(super) fn text(&self, text: &str) -> String {
        self.delta(&json!({"content": text}), &Value::Null)
    }

    /// Returns the chunks after all text.
    pub(super) fn last(&self, reason: &str, usage: &Usage) -> String {
        let end = self.delta(&json!({}), &reason.into());
        if self.with_usage { end + &self.chunk(&json!([]), &tokens(usage)) } else { end }
    }

    fn delta(&self, delta: &Value, reason: &Value) -> String {
        self.chunk(&json!([{"index": 0, "delta": delta, "finish_reason": reason}]), &Value::Null)
    }

    fn chunk(&self, choices: &Value, usage: &Value) -> String {
        let mut value = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        });
        if let (true, Some(fields)) = (self.with_usage, value.as_object_mut()) {
            fields.insert("usage".to_owned(), usage.clone());
        }
        format!("data: {value}\n\n")
    }
}

/// Returns the event of an error, and the end of the stream.
pub(super) fn error(fault: &Fault) -> String {
    let value = json!({"error": {"message": fault.as_text(), "type": "server_error", "code": fault.kind}});
    format!("data: {value}\n\n{DONE}")
}

fn tokens(usage: &Usage) -> Value {
    let (input, output) = (usage.request(), usage.output);
    json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output})
}
