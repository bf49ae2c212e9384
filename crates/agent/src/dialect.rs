//! Dialects: calls written as text, for models without calls in their wire format.
//!
//! In a dialect, haft describes the tools in words, the model writes calls into its text, and the results are
//! text again. [`Spoken`] wraps any model and is itself a model with calls, so the rest of haft does not
//! depend on dialects.

mod fence;
mod parse;
mod python;
mod schema;
mod syntax;
mod tagged;
#[cfg(test)]
mod tests;
mod wrapped;

use std::{collections::HashMap, str::FromStr, sync::Arc, time::Duration};

use async_stream::stream;
use futures_util::StreamExt;
use kit::{Fault, Origin, Spec};
use runtime::config::{CALLS, DialectSection};

use crate::model::{Abilities, Event, Events, Item, MessagePart, Model, Piece, Request, ResultOf, Why};
use parse::Parser;
use syntax::{Manner, Syntax};
use tagged::Tagged;
pub use tagged::{ArgStyle, Format};

/// The form in which a model writes a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dialect {
    /// `<json>{"tool_name": …, "tool_input": {…}}</json>`, the form of HyperAgents.
    Json,
    /// `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, the form of the Hermes models.
    Hermes,
    /// `<tool_use>{'tool_name': …, 'tool_input': {…}}</tool_use>`, the form of DGM.
    ToolUse,
    /// A block whose tags are the tool's name: `bracket`, `xml`, and custom formats.
    Tagged(Format),
}

impl Dialect {
    /// Returns the dialect's name; `custom` for a custom format.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Hermes => "hermes",
            Self::ToolUse => "tool_use",
            Self::Tagged(format) if *format == Format::bracket() => "bracket",
            Self::Tagged(format) if *format == Format::xml() => "xml",
            Self::Tagged(_) => "custom",
        }
    }
}

impl FromStr for Dialect {
    type Err = Fault;

    /// Parses `json`, `bracket`, `xml`, `hermes`, `tool_use`, or a [`Format`] as JSON.
    fn from_str(text: &str) -> Result<Self, Fault> {
        let next = "Use `json`, `bracket`, `xml`, `hermes` or `tool_use`; or a format such as \
                    {\"start_char\": \"{\", \"end_char\": \"}\", \"slash_means_open\": true, \"arg_style\": \"line\", \
                    \"arg_prefix\": \"@@\", \"arg_kv_sep\": \"=\"}.";
        match text.trim() {
            "json" => Ok(Self::Json),
            "bracket" => Ok(Self::Tagged(Format::bracket())),
            "xml" => Ok(Self::Tagged(Format::xml())),
            "hermes" => Ok(Self::Hermes),
            "tool_use" => Ok(Self::ToolUse),
            own if own.starts_with('{') => {
                let format: DialectSection = serde_json::from_str(own).map_err(|error| {
                    Fault::bad_args(format!("the dialect `{own}` is not a format: {error}")).next(next)
                })?;
                let format = Format::from(format);
                match format.flaw() {
                    Some(flaw) => {
                        Err(Fault::bad_args(format!("the dialect `{own}` can't be read: {flaw}")).next(next))
                    }
                    None => Ok(Self::Tagged(format)),
                }
            }
            other => Err(Fault::bad_args(format!("there is no dialect `{other}`")).next(next)),
        }
    }
}

impl Dialect {
    fn manner(&self) -> Manner {
        match self {
            Self::Json => Manner::Wrapped(wrapped::JSON),
            Self::Hermes => Manner::Wrapped(wrapped::HERMES),
            Self::ToolUse => Manner::Wrapped(wrapped::TOOL_USE),
            Self::Tagged(format) => Manner::Tagged(Tagged { format: format.clone() }),
        }
    }
}

/// A model that uses a dialect.
pub struct Spoken {
    inner: Arc<dyn Model>,
    dialect: Dialect,
    abilities: Abilities,
    most: usize,
}

impl Spoken {
    /// Wraps `inner`, which then uses `dialect`.
    pub fn new(inner: Arc<dyn Model>, dialect: Dialect) -> Self {
        let abilities = Abilities { calls: true, ..inner.abilities().clone() };
        Self { inner, dialect, abilities, most: CALLS }
    }

    /// Sets the limit of calls taken from one answer; 0 means no limit, and `None` changes nothing. Blocks
    /// beyond the limit are text, and haft notifies the model that they were not run. HyperAgents takes one
    /// by default.
    #[must_use]
    pub fn max_calls(mut self, most: Option<usize>) -> Self {
        self.most = match most {
            None => self.most,
            Some(0) => usize::MAX,
            Some(most) => most,
        };
        self
    }

    /// Returns the instructions on calls that follow the system prompt, for these tools.
    pub fn words(&self, tools: &[Spec]) -> String {
        syntax::of(self.dialect.manner(), tools).words(self.most)
    }
}

impl Model for Spoken {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    fn tool_format(&self) -> &'static str {
        self.dialect.name()
    }

    fn idle_limit(&self) -> Option<Duration> {
        self.inner.idle_limit()
    }

    fn system_prompt(&self, system: &Arc<str>, tools: &[Spec]) -> Arc<str> {
        with_words(system, &syntax::of(self.dialect.manner(), tools), self.most)
    }

    fn stream(&self, request: Request) -> Events {
        let syntax = syntax::of(self.dialect.manner(), &request.tools);
        let inner = self.inner.stream(in_words(request, &syntax, self.most));
        with_parsed_calls(inner, Parser::new(syntax, self.most), self.most)
    }
}

/// Returns the system prompt, followed by the instructions on calls.
fn with_words(system: &Arc<str>, syntax: &Syntax, most: usize) -> Arc<str> {
    match (syntax.tools.is_empty(), system.is_empty()) {
        (true, _) => system.clone(),
        (false, true) => syntax.words(most).into(),
        (false, false) => format!("{system}\n\n{}", syntax.words(most)).into(),
    }
}

/// Returns the request without native calls. Tools that the provider runs are still declared natively, in any
/// dialect.
fn in_words(request: Request, syntax: &Syntax, most: usize) -> Request {
    let system = with_words(&request.system, syntax, most);
    let own: Vec<Spec> = request.tools.iter().filter(|it| it.origin == Origin::Provider).cloned().collect();
    // Structured output would constrain the whole text, and the calls are text.
    Request { system, items: spoken(request.items, syntax), tools: own.into(), format: None, ..request }
}

/// Returns the conversation with its calls and results as text.
fn spoken(items: Vec<Item>, syntax: &Syntax) -> Vec<Item> {
    let mut arguments_of: HashMap<String, String> = HashMap::new();
    let mut spoken: Vec<Item> = Vec::with_capacity(items.len());
    for item in items {
        let more = match item {
            Item::Model { said } => {
                spoken.push(Item::Model { said: written(said, syntax, &mut arguments_of) });
                continue;
            }
            Item::Results { results } => results_as_text(&results, syntax, &arguments_of),
            Item::Person { pieces } => pieces,
        };
        // Results and the person's next message are one message: providers require alternating roles.
        match spoken.last_mut() {
            Some(Item::Person { pieces }) => pieces.extend(more),
            _ => spoken.push(Item::Person { pieces: more }),
        }
    }
    spoken
}

/// Returns the model's parts, with its calls written out as text in place.
fn written(
    said: Vec<MessagePart>,
    syntax: &Syntax,
    arguments_of: &mut HashMap<String, String>,
) -> Vec<MessagePart> {
    let mut written: Vec<MessagePart> = Vec::new();
    for part in said {
        let (more, is_call) = match part {
            MessagePart::Text { text } => (text, false),
            MessagePart::Call { id, tool, arguments } => {
                let block = syntax.write(&tool, &arguments);
                arguments_of.insert(id, arguments);
                (block, true)
            }
            MessagePart::Opaque { .. } => {
                written.push(part);
                continue;
            }
        };
        match written.last_mut() {
            Some(MessagePart::Text { text }) => {
                if is_call && !text.is_empty() && !text.ends_with('\n') {
                    text.push('\n');
                }
                text.push_str(&more);
            }
            _ => written.push(MessagePart::Text { text: more }),
        }
    }
    written
}

/// Returns the results as text of the person's role, each followed by its pictures.
fn results_as_text(
    results: &[ResultOf],
    syntax: &Syntax,
    arguments_of: &HashMap<String, String>,
) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for result in results {
        let arguments = arguments_of.get(&result.id).map_or("{}", String::as_str);
        let block = syntax.result(result, arguments);
        match pieces.last_mut() {
            Some(Piece::Text { text }) => {
                text.push_str("\n\n");
                text.push_str(&block);
            }
            _ => pieces.push(Piece::Text { text: block }),
        }
        let shown = |it: &&Piece| matches!(it, Piece::Image { data: Some(_), .. });
        pieces.extend(result.pieces.iter().filter(shown).cloned());
    }
    pieces
}

/// Returns the events of the answer, with the calls parsed out of its text.
fn with_parsed_calls(mut inner: Events, mut parser: Parser, most: usize) -> Events {
    Box::pin(stream! {
        let last = loop {
            match inner.next().await {
                Some(Ok(Event::Text(text))) => {
                    for event in parser.feed(&text) {
                        yield Ok(event);
                    }
                }
                Some(Ok(event)) if !matches!(event, Event::End(_)) => yield Ok(event),
                last => break last,
            }
        };
        // Held-back text comes before the end, also where the answer broke off.
        let rest = parser.finish();
        for event in rest.events {
            yield Ok(event);
        }
        if rest.left > 0 {
            yield Ok(Event::NotRun { calls: rest.left, most });
        }
        match last {
            Some(Ok(Event::End(Why::Done))) => yield Ok(Event::End(ended(rest.calls, rest.cut))),
            Some(other) => yield other,
            None => {}
        }
    })
}

/// Returns the end reason of an answer that ended by itself. An unclosed call counts as cut off by the length
/// limit, so that the model is asked to continue.
fn ended(calls: usize, cut: bool) -> Why {
    match (calls, cut) {
        (0, true) => Why::Length,
        (0, false) => Why::Done,
        _ => Why::Calls,
    }
}
