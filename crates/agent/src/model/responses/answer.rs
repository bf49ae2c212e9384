//! Answers of Responses: parses their events.

use std::collections::BTreeMap;

use kit::base64;
use serde_json::{Value, json};

use super::WIRE;
use crate::model::{
    Breach, Event, MessagePart, ModelError, OwnTool, Usage, Why,
    openai::{Answer, Stands, failed, parsed},
};

/// Parser of the events of one answer.
pub(super) struct Parts {
    model: String,
    /// The parts of the answer by their place in it.
    parts: BTreeMap<u64, Part>,
    calls: usize,
    /// The item and the part whose text came last, if nothing came after it.
    writing: Option<(u64, u64)>,
    refused: bool,
    usage: Usage,
    why: Option<Why>,
}

/// A part of the answer.
#[derive(Default)]
struct Part {
    id: String,
    call: Option<Call>,
    /// Whether some of its text or reasoning arrived in pieces.
    in_pieces: bool,
    done: bool,
}

struct Call {
    index: usize,
    id: String,
    tool: String,
    arguments: String,
    closed: bool,
}

impl Parts {
    pub(super) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            parts: BTreeMap::new(),
            calls: 0,
            writing: None,
            refused: false,
            usage: Usage::default(),
            why: None,
        }
    }

    /// Returns the place of the part that an event is about.
    fn place(&self, event: &Value) -> u64 {
        if let Some(place) = event.get("output_index").and_then(Value::as_u64) {
            return place;
        }
        let id = text(event, "item_id").or_else(|| text(event.get("item")?, "id"));
        let named = id.and_then(|id| self.parts.iter().find(|(_, it)| !id.is_empty() && it.id == id));
        named.map_or(self.parts.len() as u64, |(place, _)| *place)
    }

    fn part(&mut self, place: u64) -> &mut Part {
        self.parts.entry(place).or_default()
    }

    fn added(&mut self, place: u64, item: &Value, events: &mut Vec<Event>) {
        let part = self.parts.entry(place).or_default();
        text(item, "id").unwrap_or_default().clone_into(&mut part.id);
        if text(item, "type") != Some("function_call") || part.call.is_some() {
            return;
        }
        let tool = text(item, "name").unwrap_or_default().to_owned();
        let index = self.calls;
        self.calls += 1;
        events.push(Event::CallBegan { index, tool: tool.clone() });
        let id = text(item, "call_id").unwrap_or_default().to_owned();
        part.call = Some(Call { index, id, tool, arguments: String::new(), closed: false });
    }

    fn grew(&mut self, place: u64, more: &str, events: &mut Vec<Event>) {
        let Some(call) = &mut self.part(place).call else { return };
        if !call.closed && !more.is_empty() {
            call.arguments.push_str(more);
            events.push(Event::CallGrew { index: call.index, bytes: more.len() });
        }
    }

    /// Closes a call. The server reports its end twice, and the second report is ignored.
    fn close(&mut self, place: u64, whole: Option<&str>, events: &mut Vec<Event>) {
        let Some(call) = &mut self.part(place).call else { return };
        if call.closed {
            return;
        }
        call.closed = true;
        // Some servers send empty arguments here, and the real ones only in pieces.
        let written = whole.filter(|it| !it.is_empty()).unwrap_or(&call.arguments);
        let arguments = if written.trim().is_empty() { "{}" } else { written }.to_owned();
        let (index, id, tool) = (call.index, call.id.clone(), call.tool.clone());
        events.push(Event::CallClosed { index, id, tool, arguments });
    }

    fn text(&mut self, place: u64, event: &Value, more: &str, events: &mut Vec<Event>) {
        if more.is_empty() {
            return;
        }
        self.part(place).in_pieces = true;
        let here = (place, event.get("content_index").and_then(Value::as_u64).unwrap_or(0));
        // Two messages in a row are two paragraphs.
        let before = self.writing.replace(here);
        let text = if before.is_some_and(|it| it != here) { format!("\n\n{more}") } else { more.to_owned() };
        events.push(Event::Text(text));
    }

    fn done(&mut self, place: u64, item: &Value, events: &mut Vec<Event>) -> Result<(), ModelError> {
        if self.part(place).done {
            return Ok(());
        }
        self.part(place).done = true;
        match text(item, "type") {
            Some("function_call") => {
                self.added(place, item, events);
                self.close(place, text(item, "arguments"), events);
            }
            Some("message") if !self.part(place).in_pieces => self.whole_message(place, item, events),
            Some("reasoning") => self.thought(place, item, events),
            Some("image_generation_call") => self.picture(item, events)?,
            Some("web_search_call") => {
                let action = item.get("action");
                let about = action.and_then(|it| text(it, "query").or_else(|| text(it, "url")));
                let about = about.map(|it| format!(": {it}")).unwrap_or_default();
                events.push(Event::Reasoning(format!("\n[web_search{about}]\n")));
                events.push(self.own_tool(item));
            }
            _ => {}
        }
        Ok(())
    }

    fn whole_message(&mut self, place: u64, item: &Value, events: &mut Vec<Event>) {
        let parts = item.get("content").and_then(Value::as_array);
        for (number, part) in parts.into_iter().flatten().enumerate() {
            let event = json!({ "content_index": number });
            self.refused |= text(part, "refusal").is_some();
            if let Some(said) = text(part, "text").or_else(|| text(part, "refusal")) {
                self.text(place, &event, said, events);
            }
        }
    }

    fn thought(&mut self, place: u64, item: &Value, events: &mut Vec<Event>) {
        let summary = item.get("summary").cloned().unwrap_or_else(|| json!([]));
        if !self.part(place).in_pieces {
            let parts = summary.as_array().into_iter().flatten();
            events.extend(parts.filter_map(|it| Some(Event::Reasoning(text(it, "text")?.to_owned()))));
        }
        // Without it, the server would look up the item by its id, but nothing is stored.
        let Some(encrypted) = text(item, "encrypted_content").filter(|it| !it.is_empty()) else { return };
        let item = json!({"type": "reasoning", "summary": summary, "encrypted_content": encrypted});
        let value = json!({"model": self.model, "item": item});
        events.push(Event::Opaque(MessagePart::Opaque { wire: WIRE.to_owned(), value }));
    }

    fn picture(&mut self, item: &Value, events: &mut Vec<Event>) -> Result<(), ModelError> {
        // The status may still be `generating` when the picture is there.
        if let Some(result) = text(item, "result").filter(|it| !it.is_empty()) {
            let Some(data) = base64::decoded(result) else {
                return Err(ModelError::new(
                    Breach::Malformed,
                    "a picture that the provider made is not base64",
                ));
            };
            let mime = format!("image/{}", text(item, "output_format").unwrap_or("png"));
            events.push(Event::Picture { tool: OwnTool::ImageGen, mime, data: data.into() });
        }
        events.push(self.own_tool(item));
        Ok(())
    }

    /// Returns the record of a provider-native tool's work, without the picture, which is stored elsewhere.
    fn own_tool(&self, item: &Value) -> Event {
        let mut item = item.clone();
        if let Some(item) = item.as_object_mut() {
            item.remove("result");
        }
        let value = json!({"model": self.model, "item": item});
        Event::Opaque(MessagePart::Opaque { wire: WIRE.to_owned(), value })
    }

    fn over(
        &mut self,
        response: &Value,
        cut: Option<Why>,
        events: &mut Vec<Event>,
    ) -> Result<(), ModelError> {
        if let Some(usage) = response.get("usage").filter(|it| it.is_object()) {
            self.usage = used(usage);
        }
        // Some servers send the parts only here.
        if self.parts.is_empty() {
            let output = response.get("output").and_then(Value::as_array);
            for (place, item) in output.into_iter().flatten().enumerate() {
                self.done(place as u64, item, events)?;
            }
        }
        let open = self.parts.iter().filter(|(_, it)| it.call.as_ref().is_some_and(|it| !it.closed));
        let open: Vec<u64> = open.map(|(place, _)| *place).collect();
        if cut.is_none() {
            open.into_iter().for_each(|it| self.close(it, None, events));
        }
        let called = self.parts.values().any(|it| it.call.as_ref().is_some_and(|it| it.closed));
        self.why = Some(match (cut, self.refused, called) {
            (Some(why), ..) => why,
            (None, true, _) => Why::Refused,
            (None, false, true) => Why::Calls,
            (None, false, false) => Why::Done,
        });
        Ok(())
    }
}

impl Answer for Parts {
    fn receive(&mut self, data: &str, events: &mut Vec<Event>) -> Result<(), ModelError> {
        if data.trim() == "[DONE]" {
            return Ok(());
        }
        let event = parsed(data)?;
        let null = Value::Null;
        let inner = |key: &str| event.get(key).unwrap_or(&null);
        let (place, delta) = (self.place(&event), text(&event, "delta").unwrap_or_default());
        match text(&event, "type").unwrap_or_default() {
            "response.output_item.added" => self.added(place, inner("item"), events),
            "response.output_item.done" => self.done(place, inner("item"), events)?,
            "response.function_call_arguments.delta" => self.grew(place, delta, events),
            "response.function_call_arguments.done" => self.close(place, text(&event, "arguments"), events),
            "response.output_text.delta" => self.text(place, &event, delta, events),
            "response.refusal.delta" => {
                self.refused = true;
                self.text(place, &event, delta, events);
            }
            "response.reasoning_summary_part.added"
                if event.get("summary_index").and_then(Value::as_u64).is_some_and(|it| it > 0) =>
            {
                events.push(Event::Reasoning("\n\n".to_owned()));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.part(place).in_pieces = true;
                events.push(Event::Reasoning(delta.to_owned()));
            }
            "response.completed" | "response.done" => self.over(inner("response"), None, events)?,
            "response.incomplete" => {
                let why = inner("response").get("incomplete_details").and_then(|it| text(it, "reason"));
                let why = if why == Some("content_filter") { Why::Refused } else { Why::Length };
                self.over(inner("response"), Some(why), events)?;
            }
            "response.failed" | "response.cancelled" => {
                return Err(failed(inner("response").get("error").unwrap_or(&null)));
            }
            "error" => return Err(failed(event.get("error").filter(|it| it.is_object()).unwrap_or(&event))),
            // Some servers send errors in the shape of Chat Completions.
            "" if inner("error").is_object() => return Err(failed(inner("error"))),
            _ => {}
        }
        if events.iter().any(|it| matches!(it, Event::Opaque(_) | Event::CallBegan { .. })) {
            self.writing = None;
        }
        Ok(())
    }

    fn stands(&self) -> Stands {
        if self.why.is_some() { Stands::Over } else { Stands::Going }
    }

    fn end(&mut self, events: &mut Vec<Event>) {
        events.push(Event::Used(self.usage));
        events.push(Event::End(self.why.unwrap_or(Why::Done)));
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

/// Returns the tokens used. `cached_tokens` are a part of `input_tokens` in this format.
fn used(usage: &Value) -> Usage {
    let number = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or(0);
    let detail = |group: &str, key: &str| number(usage.get(group).and_then(|it| it.get(key)));
    let request = number(usage.get("input_tokens"));
    let cached = detail("input_tokens_details", "cached_tokens").min(request);
    Usage {
        input: request - cached,
        cached,
        kept: 0,
        output: number(usage.get("output_tokens")),
        reasoning: detail("output_tokens_details", "reasoning_tokens"),
    }
}
