//! Models: the interface the agent loop uses, and the providers behind it.

mod anthropic;
mod chat;
mod choose;
mod endpoint;
mod error;
mod http;
mod item;
mod keys;
mod known;
mod list;
#[cfg(test)]
mod loopback;
mod openai;
mod provider;
mod resolve;
mod responses;
pub mod script;
mod sse;
mod structured;

use std::{pin::Pin, sync::Arc, task::Poll, time::Duration};

use futures_util::{Stream, StreamExt as _, stream};
use kit::{Spec, spans};
use serde::{Deserialize, Serialize};

pub use choose::{choose, doubt, example, usual};
pub use error::{Breach, ModelError};
pub use item::{Item, MessagePart, Piece, ResultOf};
pub use keys::{Keys, origin};
pub use known::{AS_OF, Known, Model as KnownModel, listed, models};
pub use list::{Offered, Source, source, source_to_log_in, sources};
pub use resolve::{Choices, KeyFrom};

/// A model that continues a conversation: a provider's, or a scripted one.
pub trait Model: Send + Sync {
    /// Returns the name by which a person chose it: `anthropic:claude-sonnet-5-5`, `script:demo.jsonl`.
    fn name(&self) -> &str;

    /// Returns the model's abilities.
    fn abilities(&self) -> &Abilities;

    /// Returns the form in which it writes calls: `native`, or the name of its dialect.
    fn tool_format(&self) -> &'static str {
        "native"
    }

    /// Returns the idle timeout of a request, where there is one.
    fn idle_limit(&self) -> Option<Duration> {
        None
    }

    /// Returns the system prompt as the model gets it with these tools. It begins with `system`; a model that
    /// uses a dialect also gets the instructions on calls.
    fn system_prompt(&self, system: &Arc<str>, _tools: &[Spec]) -> Arc<str> {
        system.clone()
    }

    /// Sends a request, and streams the answer. Nothing is sent before the stream is polled; dropping the
    /// stream ends the request.
    ///
    /// The model itself retries a request without an answer, as far as that makes sense. A stream that breaks
    /// after its first part ends with an error, and the caller decides.
    fn stream(&self, request: Request) -> Events;
}

/// The answer of a model, as a stream of parts.
pub type Events = Pin<Box<dyn Stream<Item = Result<Event, ModelError>> + Send>>;

/// Sends a request, in a tracing span that ends with the last part of the answer.
pub fn ask(model: &dyn Model, request: Request) -> Events {
    let request_span = spans::Request::begin(model.name());
    let mut answer = model.stream(request);
    Box::pin(stream::poll_fn(move |cx| {
        let part = request_span.span().in_scope(|| answer.poll_next_unpin(cx));
        match &part {
            Poll::Ready(Some(Ok(Event::Used(usage)))) => request_span.used(usage.request(), usage.output),
            Poll::Ready(Some(Ok(Event::End(why)))) => request_span.ended(why.name()),
            Poll::Ready(Some(Err(error))) => request_span.ended(error.breach.name()),
            _ => {}
        }
        part
    }))
}

/// The abilities and limits of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Abilities {
    /// Whether tool calls are part of its wire format. Models without them use a [dialect](crate::dialect).
    pub calls: bool,
    /// Whether it accepts pictures.
    pub images: bool,
    /// Context window: maximum number of tokens of request and answer together.
    pub window: u64,
    /// Maximum number of tokens of an answer.
    pub longest: u64,
    /// The tools that the provider runs itself.
    pub own_tools: Vec<OwnTool>,
    /// Its prices, where they are known.
    pub price: Option<Price>,
}

/// A tool that a provider runs itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnTool {
    /// Draws pictures.
    ImageGen,
    /// Searches the web.
    WebSearch,
}

impl OwnTool {
    /// Returns the name under which the tool is registered and allowed.
    pub fn name(self) -> &'static str {
        match self {
            Self::ImageGen => "image_gen",
            Self::WebSearch => "web_search",
        }
    }
}

/// Prices in dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Tokens of a request.
    pub input: f64,
    /// Tokens of a request that the provider read from its cache.
    #[serde(default)]
    pub cached: f64,
    /// Tokens of a request that the provider writes to its cache.
    #[serde(default)]
    pub kept: f64,
    /// Tokens of an answer.
    pub output: f64,
}

/// A request: a conversation for a model to continue.
#[derive(Debug, Clone)]
pub struct Request {
    /// The system prompt. It stays the same from step to step, so that providers can cache it.
    pub system: Arc<str>,
    /// The conversation.
    pub items: Vec<Item>,
    /// The tools it may call, in a stable order; those that the provider runs itself have
    /// [`Origin::Provider`](kit::Origin::Provider).
    pub tools: Arc<[Spec]>,
    /// The number of answers in this conversation so far, including those that were summarized.
    pub step: usize,
    /// Maximum number of tokens of the answer, where it is lower than the model's limit.
    pub longest: Option<u64>,
    /// The JSON Schema for the text of an answer without calls. A wire format with structured output passes
    /// it to the provider, and others ignore it: the caller repeats it in words and checks the answer.
    pub format: Option<Arc<serde_json::Value>>,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The request failed, and the model retries it after this many seconds.
    Waiting {
        /// The reason.
        why: String,
        /// The pause.
        seconds: f32,
    },
    /// More of the text.
    Text(String),
    /// More of the reasoning, for the person.
    Reasoning(String),
    /// The model begins to write a call.
    CallBegan {
        /// The index of the call in this answer: calls may be interleaved.
        index: usize,
        /// The tool's name.
        tool: String,
    },
    /// The model has written more of a call's arguments.
    CallGrew {
        /// The index of the call.
        index: usize,
        /// The number of new bytes.
        bytes: usize,
    },
    /// A call is complete. It can begin while the model still writes.
    CallClosed {
        /// The index of the call.
        index: usize,
        /// The id for its result.
        id: String,
        /// The tool's name.
        tool: String,
        /// The arguments as the model wrote them: JSON, unless the model made a mistake.
        arguments: String,
    },
    /// Some calls of the answer are not made, because it has more than the limit.
    NotRun {
        /// The number of calls that are not made.
        calls: usize,
        /// The number of calls that are made.
        most: usize,
    },
    /// A part that is sent back unchanged: signed reasoning, or the work of a provider's own tool.
    Opaque(MessagePart),
    /// A picture that a provider's own tool made.
    Picture {
        /// The tool.
        tool: OwnTool,
        /// Its media type.
        mime: String,
        /// Its bytes.
        data: Arc<[u8]>,
    },
    /// The tokens used. Sent once for each answer, before the end; an unknown count is zero.
    Used(Usage),
    /// The answer has ended. Nothing follows.
    End(Why),
}

/// The reason why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The answer is complete.
    Done,
    /// The model waits for the results of its calls.
    Calls,
    /// The answer reached the length limit; a call that was not closed is lost.
    Length,
    /// The provider stopped the answer.
    Refused,
    /// The provider paused the answer while its own tools work: the request is to be repeated as it is.
    Paused,
}

/// The number of tokens used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the request, without those read from or written to the provider's cache.
    pub input: u64,
    /// Tokens of the request that the provider read from its cache.
    pub cached: u64,
    /// Tokens of the request that the provider wrote to its cache.
    pub kept: u64,
    /// Tokens of the answer, with its reasoning.
    pub output: u64,
    /// Tokens of the answer's reasoning.
    pub reasoning: u64,
}

impl Why {
    /// Returns the reason's name in traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Calls => "calls",
            Self::Length => "length",
            Self::Paused => "paused",
            Self::Refused => "refused",
        }
    }
}

impl Usage {
    /// Returns all tokens of the request.
    pub fn request(&self) -> u64 {
        self.input.saturating_add(self.cached).saturating_add(self.kept)
    }

    /// Returns all tokens, of request and answer.
    pub fn all(&self) -> u64 {
        self.request().saturating_add(self.output)
    }

    /// Returns the cost in dollars.
    pub fn cost(&self, price: &Price) -> f64 {
        let of = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
        of(self.input, price.input)
            + of(self.cached, price.cached)
            + of(self.kept, price.kept)
            + of(self.output, price.output)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        // A provider may report any number.
        let add = |count: &mut u64, more: u64| *count = count.saturating_add(more);
        add(&mut self.input, other.input);
        add(&mut self.cached, other.cached);
        add(&mut self.kept, other.kept);
        add(&mut self.output, other.output);
        add(&mut self.reasoning, other.reasoning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_counts_saturate() {
        let most = u64::MAX;
        let mut usage = Usage { input: most, cached: most, kept: most, output: most, reasoning: most };
        usage += usage;
        assert_eq!((usage.request(), usage.all(), usage.reasoning), (most, most, most));
        assert!(usage.cost(&Price { input: 1.0, cached: 1.0, kept: 1.0, output: 1.0 }).is_finite());
    }
}
