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
pub use item::{Item, Piece, ResultOf, Said};
pub use keys::{Keys, origin};
pub use known::{AS_OF, Known, Model as KnownModel, listed, models};
pub use list::{Offered, Source, source, source_to_log_in, sources};
pub use resolve::{Choices, KeyFrom};

/// Something that continues a conversation: a provider's model, or a written one.
pub trait Model: Send + Sync {
    /// The name by which a person chose it: `anthropic:claude-sonnet-5-5`, `script:demo.jsonl`.
    fn name(&self) -> &str;

    /// What it can do.
    fn abilities(&self) -> &Abilities;

    /// How it writes calls: `native`, or the name of its dialect.
    fn tool_format(&self) -> &'static str {
        "native"
    }

    /// After how long without a byte a request to it is given up, where it is.
    fn idle_limit(&self) -> Option<Duration> {
        None
    }

    /// What it is told before everything else, once it is asked with this prompt and these tools: a model that is spoken
    /// to in a dialect is told there how to call them. It begins with the prompt.
    fn told(&self, system: &Arc<str>, _tools: &[Spec]) -> Arc<str> {
        system.clone()
    }

    /// Asks it to go on. Nothing is sent before the stream is polled; dropping the stream ends the request.
    ///
    /// A request that could not be answered at all is tried again by the model itself, as far as that makes
    /// sense; a stream that breaks after its first part ends with an error, and whoever reads decides.
    fn stream(&self, request: Request) -> Events;
}

/// What a model answers, part by part.
pub type Events = Pin<Box<dyn Stream<Item = Result<Event, ModelError>> + Send>>;

/// Asks a model to go on, in a span that ends with the last part of its answer.
pub(crate) fn ask(model: &dyn Model, request: Request) -> Events {
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

/// What a model can do.
#[derive(Debug, Clone, PartialEq)]
pub struct Abilities {
    /// Tool calls are part of its wire format. A model without them is spoken to in a [dialect](crate::dialect).
    pub calls: bool,
    /// It looks at pictures.
    pub images: bool,
    /// How many tokens request and answer may have together.
    pub window: u64,
    /// How many tokens an answer has at most.
    pub longest: u64,
    /// The tools that the provider runs itself.
    pub own_tools: Vec<OwnTool>,
    /// What it costs, where that is known.
    pub price: Option<Price>,
}

/// A tool that a provider runs itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnTool {
    /// It draws a picture.
    ImageGen,
    /// It searches the web.
    WebSearch,
}

impl OwnTool {
    /// The name under which the tool is registered and allowed.
    pub fn name(self) -> &'static str {
        match self {
            Self::ImageGen => "image_gen",
            Self::WebSearch => "web_search",
        }
    }
}

/// What tokens cost, in dollars for a million of them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Tokens of a request.
    pub input: f64,
    /// Tokens of a request that the provider had kept.
    #[serde(default)]
    pub cached: f64,
    /// Tokens of a request that the provider keeps from now on.
    #[serde(default)]
    pub kept: f64,
    /// Tokens of an answer.
    pub output: f64,
}

/// A conversation that a model is to continue.
#[derive(Debug, Clone)]
pub struct Request {
    /// What it is told before everything else. The same from step to step, so that providers can keep it.
    pub system: Arc<str>,
    /// The conversation.
    pub items: Vec<Item>,
    /// The tools it may call, in their stable order; those that the provider runs itself are of
    /// [`Origin::Provider`](kit::Origin::Provider).
    pub tools: Arc<[Spec]>,
    /// How many answers this conversation had from a model until now, also those that were summed up since.
    pub step: usize,
    /// The most tokens the answer may have, where it is to be shorter than the model's longest.
    pub longest: Option<u64>,
    /// The JSON Schema that the text of an answer without calls is to fit. A wire format that has structured output says it
    /// to the provider; others pass it over, so whoever asks says it in words as well, and checks what comes.
    pub format: Option<Arc<serde_json::Value>>,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The request could not be answered yet, and is tried again after this many seconds.
    Waiting {
        /// Why.
        why: String,
        /// For how long.
        seconds: f32,
    },
    /// More of the text.
    Text(String),
    /// More of what it thinks, for a person to see.
    Reasoning(String),
    /// It begins to write a call.
    CallBegan {
        /// Which call of this answer: calls may be written by turns.
        index: usize,
        /// The tool's name.
        tool: String,
    },
    /// It has written more of a call's arguments.
    CallGrew {
        /// Which call.
        index: usize,
        /// How many bytes more.
        bytes: usize,
    },
    /// A call is complete: it can begin, whatever the model still writes.
    CallClosed {
        /// Which call.
        index: usize,
        /// The id that its result goes back under.
        id: String,
        /// The tool's name.
        tool: String,
        /// The arguments as they were written: JSON, unless the model erred.
        arguments: String,
    },
    /// So many calls in the answer are not made: of one answer, at most so many are.
    NotRun {
        /// How many.
        calls: usize,
        /// How many are made.
        most: usize,
    },
    /// A part that is to be sent back as it is: reasoning with its signature, what a provider's own tool did.
    Kept(Said),
    /// A picture that a tool of the provider's made.
    Picture {
        /// The tool.
        tool: OwnTool,
        /// Its media type.
        mime: String,
        /// Its bytes.
        data: Arc<[u8]>,
    },
    /// What it took. Given once for each answer, before the end; what is not known is zero.
    Used(Usage),
    /// The answer is over. Nothing comes after it.
    End(Why),
}

/// Why an answer is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It has said what it had to say.
    Done,
    /// It waits for the results of its calls.
    Calls,
    /// It came to the longest answer that it may give; a call that was not closed is lost.
    Length,
    /// The provider did not let it go on.
    Refused,
    /// The provider paused it in the middle of its own tools' work: it is to be asked again as it is.
    Paused,
}

/// How many tokens were used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Of the request, without those that the provider had kept or keeps.
    pub input: u64,
    /// Of the request, which the provider had kept.
    pub cached: u64,
    /// Of the request, which the provider keeps from now on.
    pub kept: u64,
    /// Of the answer, with its reasoning.
    pub output: u64,
    /// Of the answer's reasoning.
    pub reasoning: u64,
}

impl Why {
    /// Its name in traces.
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
    /// All tokens of the request.
    pub fn request(&self) -> u64 {
        self.input.saturating_add(self.cached).saturating_add(self.kept)
    }

    /// All tokens, of request and answer.
    pub fn all(&self) -> u64 {
        self.request().saturating_add(self.output)
    }

    /// What these cost, in dollars.
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
        // A provider may say any number.
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
    fn no_count_of_tokens_is_too_large_to_be_added() {
        let most = u64::MAX;
        let mut usage = Usage { input: most, cached: most, kept: most, output: most, reasoning: most };
        usage += usage;
        assert_eq!((usage.request(), usage.all(), usage.reasoning), (most, most, most));
        assert!(usage.cost(&Price { input: 1.0, cached: 1.0, kept: 1.0, output: 1.0 }).is_finite());
    }
}
