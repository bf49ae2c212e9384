//! Sampling: a client's model as the model of an agent.

use std::sync::Arc;

use agent::{
    Choose,
    dialect::{Dialect, Spoken},
    model::{
        Abilities, Breach, Event, Events, Item, MessagePart, Model, ModelError, Piece, Request, ResultOf,
        Usage, Why,
    },
};
use futures_util::{StreamExt as _, stream};
use kit::{Fault, Kind, Origin, Spec};
use serde_json::{Map, Value, json};

use super::ClientSlots;

/// The maximum length of an answer, in tokens, unless the request sets a lower one.
const LONGEST: u64 = 8 * 1024;

/// The assumed context window, in tokens: a client does not report it.
const WINDOW: u64 = 128 * 1024;

/// The dialect for a client that can't pass on tool calls.
const DIALECT: Dialect = Dialect::Hermes;

/// A model that is found by its name.
pub(super) struct Named {
    pub(super) find: Choose,
    pub(super) name: String,
}

/// The model of a client that lends it; else another.
pub(super) struct Borrowed {
    slots: Arc<ClientSlots>,
    hint: Option<String>,
    otherwise: Option<Named>,
    max_calls: Option<usize>,
    abilities: Abilities,
}

impl Borrowed {
    /// Uses the model of a connected client, preferably the one of this name. In a dialect, at most `max_calls` calls
    /// of one answer run.
    pub(super) fn new(
        slots: Arc<ClientSlots>,
        hint: Option<String>,
        otherwise: Option<Named>,
        max_calls: Option<usize>,
    ) -> Self {
        Self { slots, hint, otherwise, max_calls, abilities: abilities() }
    }

    /// Returns the model that answers now.
    fn now(&self, tools: &[Spec]) -> Result<Arc<dyn Model>, Fault> {
        let offers = match (self.slots.lends(), &self.otherwise) {
            (Some(offers), _) => offers,
            (None, Some(Named { find, name })) => return find(name),
            (None, None) => self
                .slots
                .has_lent()
                .ok_or_else(|| Fault::new(Kind::Unavailable, "no client offers its model (sampling)"))?,
        };
        let lent = Lent { slots: self.slots.clone(), hint: self.hint.clone(), abilities: abilities() };
        Ok(if tools.is_empty() || offers.model_with_tools {
            Arc::new(lent)
        } else {
            Arc::new(Spoken::new(Arc::new(lent), DIALECT).max_calls(self.max_calls))
        })
    }
}

impl Model for Borrowed {
    fn name(&self) -> &str {
        self.hint.as_deref().unwrap_or("the client's model")
    }

    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    fn system_prompt(&self, system: &Arc<str>, tools: &[Spec]) -> Arc<str> {
        self.now(tools).map_or_else(|_| system.clone(), |model| model.system_prompt(system, tools))
    }

    fn stream(&self, request: Request) -> Events {
        match self.now(&request.tools) {
            Ok(model) => model.stream(request),
            Err(fault) => Box::pin(stream::iter([Err(error(&fault))])),
        }
    }
}

/// A client's model, requested with `sampling/createMessage`.
struct Lent {
    slots: Arc<ClientSlots>,
    hint: Option<String>,
    abilities: Abilities,
}

impl Model for Lent {
    fn name(&self) -> &str {
        self.hint.as_deref().unwrap_or("the client's model")
    }

    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    fn stream(&self, request: Request) -> Events {
        let (slots, params) = (self.slots.clone(), params(&request, self.hint.as_deref()));
        let with_tools = params.get("tools").is_some();
        let answered = async move {
            let asked = slots.through_next(
                |offers| if with_tools { offers.model_with_tools } else { offers.model },
                |client| {
                    let params = params.clone();
                    async move { client.model(params).await }
                },
            );
            match asked.await {
                Ok(answer) => events(&answer),
                Err(fault) => vec![Err(error(&fault))],
            }
        };
        Box::pin(stream::once(answered).flat_map(stream::iter))
    }
}

fn abilities() -> Abilities {
    // Clients do not report whether their model can view pictures.
    Abilities {
        calls: true,
        images: false,
        window: WINDOW,
        longest: LONGEST,
        own_tools: Vec::new(),
        price: None,
    }
}

/// Returns the parameters of the MCP request.
fn params(request: &Request, hint: Option<&str>) -> Value {
    let mut params = Map::new();
    let mut put = |name: &str, value: Value| drop(params.insert(name.to_owned(), value));
    put("messages", request.items.iter().flat_map(message).collect());
    put("maxTokens", json!(request.longest.unwrap_or(LONGEST).min(u64::from(u32::MAX))));
    if !request.system.is_empty() {
        put("systemPrompt", json!(&*request.system));
    }
    if let Some(hint) = hint {
        // A client with only that provider names `anthropic:claude-haiku-4-5` `claude-haiku-4-5`.
        let name = hint.split_once(':').map_or(hint, |(_, name)| name);
        put("modelPreferences", json!({"hints": [{"name": name}]}));
    }
    let tools: Vec<Value> =
        request.tools.iter().filter(|it| it.origin != Origin::Provider).map(tool).collect();
    if !tools.is_empty() {
        put("tools", Value::Array(tools));
    }
    Value::Object(params)
}

fn tool(spec: &Spec) -> Value {
    json!({"name": spec.name, "description": spec.description, "inputSchema": spec.schema})
}

fn message(item: &Item) -> Option<Value> {
    let (role, mut blocks) = match item {
        Item::Person { pieces } => ("user", vec![text(&Piece::lines(pieces))]),
        Item::Model { said } => ("assistant", said.iter().filter_map(block).collect()),
        Item::Results { results } => ("user", results.iter().map(result).collect::<Vec<_>>()),
    };
    // Revisions of MCP without tools have no lists here.
    let content = if blocks.len() == 1 { blocks.pop()? } else { Value::Array(blocks) };
    (content != json!([])).then(|| json!({"role": role, "content": content}))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn block(said: &MessagePart) -> Option<Value> {
    Some(match said {
        MessagePart::Text { text: said } => text(said),
        MessagePart::Call { id, tool, arguments } => {
            let input: Value = serde_json::from_str(arguments).unwrap_or_default();
            // Arguments that are not an object were refused; the result says what they were.
            let input = if input.is_object() { input } else { json!({}) };
            json!({"type": "tool_use", "id": id, "name": tool, "input": input})
        }
        MessagePart::Opaque { .. } => return None,
    })
}

fn result(result: &ResultOf) -> Value {
    json!({
        "type": "tool_result", "toolUseId": result.id, "isError": !result.ok,
        "content": [text(&Piece::lines(&result.pieces))],
    })
}

/// Returns the parts of the model's answer as events.
fn events(answer: &Value) -> Vec<Result<Event, ModelError>> {
    let blocks = match answer.get("content") {
        Some(Value::Array(blocks)) => blocks.as_slice(),
        Some(block) => std::slice::from_ref(block),
        None => &[],
    };
    let mut events = Vec::new();
    let mut calls = 0;
    for block in blocks {
        let field = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        match block.get("type").and_then(Value::as_str) {
            Some("text") => events.push(Ok(Event::Text(field("text")))),
            Some("tool_use") => {
                let (index, tool) = (calls, field("name"));
                calls += 1;
                events.push(Ok(Event::CallBegan { index, tool: tool.clone() }));
                let arguments = block.get("input").map(Value::to_string).unwrap_or_default();
                events.push(Ok(Event::CallClosed { index, id: field("id"), tool, arguments }));
            }
            _ => {}
        }
    }
    // A client does not report token counts.
    events.push(Ok(Event::Used(Usage::default())));
    let why = match answer.get("stopReason").and_then(Value::as_str) {
        _ if calls > 0 => Why::Calls,
        Some("maxTokens") => Why::Length,
        _ => Why::Done,
    };
    events.push(Ok(Event::End(why)));
    events
}

fn error(fault: &Fault) -> ModelError {
    let breach = if fault.kind == Kind::Failed { Breach::Refused } else { Breach::Unreachable };
    // The client's person decided once; haft does not retry.
    let error = ModelError::new(breach, fault.what.clone()).tried();
    match &fault.next {
        Some(next) => error.next(next.clone()),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_worded_as_mcp_has_it() {
        let call = MessagePart::Call {
            id: "1".to_owned(),
            tool: "read".to_owned(),
            arguments: "{\"path\":\"x\"}".to_owned(),
        };
        let result = ResultOf {
            id: "1".to_owned(),
            tool: "read".to_owned(),
            ok: false,
            pieces: vec![Piece::text("no file")],
        };
        let request = Request {
            system: "Be brief.".into(),
            items: vec![
                Item::person("Look."),
                Item::Model { said: vec![MessagePart::Text { text: "I do.".to_owned() }, call] },
                Item::Results { results: vec![result] },
            ],
            tools: Arc::new([]),
            step: 1,
            longest: Some(100),
            format: None,
        };
        assert_eq!(
            params(&request, Some("anthropic:claude-haiku-4-5")),
            json!({
                "systemPrompt": "Be brief.", "maxTokens": 100,
                "modelPreferences": {"hints": [{"name": "claude-haiku-4-5"}]},
                "messages": [
                    {"role": "user", "content": {"type": "text", "text": "Look."}},
                    {"role": "assistant", "content": [{"type": "text", "text": "I do."},
                        {"type": "tool_use", "id": "1", "name": "read", "input": {"path": "x"}}]},
                    {"role": "user", "content": {"type": "tool_result", "toolUseId": "1", "isError": true,
                        "content": [{"type": "text", "text": "no file"}]}},
                ],
            })
        );
    }

    #[test]
    fn an_answer_is_text_and_calls_and_why_it_ended() {
        let events = |answer: Value| events(&answer).into_iter().filter_map(Result::ok).collect::<Vec<_>>();
        let used = || Event::Used(Usage::default());
        assert_eq!(
            events(json!({"content": {"type": "text", "text": "cut"}, "stopReason": "maxTokens"})),
            [Event::Text("cut".to_owned()), used(), Event::End(Why::Length)]
        );
        let tool = || "read".to_owned();
        assert_eq!(
            events(
                json!({"content": [{"type": "tool_use", "id": "7", "name": "read", "input": {"path": "x"}}]})
            ),
            [
                Event::CallBegan { index: 0, tool: tool() },
                Event::CallClosed {
                    index: 0,
                    id: "7".to_owned(),
                    tool: tool(),
                    arguments: "{\"path\":\"x\"}".to_owned()
                },
                used(),
                Event::End(Why::Calls)
            ]
        );
    }
}
