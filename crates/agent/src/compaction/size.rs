//! The size of the next request: measures each part, and how much of the model's context window is left.

use kit::Spec;
use serde::Serialize;

use super::{PICTURE, Rate, allowed, of_piece, of_said, of_value};
use crate::{
    images::NEWEST,
    model::{Abilities, Item, Piece},
    prompt::System,
};

/// The parts of the next request, with their sizes.
///
/// Tokens are estimated from bytes, at the rate of the provider's last count (before the first count, four
/// bytes are a token).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Context {
    /// The non-empty parts, in the order in which they are sent.
    pub parts: Vec<ContextPart>,
    /// The tokens of all parts.
    pub tokens: u64,
    /// Context window: maximum number of tokens of request and answer together.
    pub window: u64,
    /// Number of tokens from which on haft compacts the conversation.
    pub compacts_at: u64,
    /// The provider's token count of the last request and its answer; `None` before the first answer.
    pub counted: Option<u64>,
}

/// One part of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContextPart {
    /// The kind: `system prompt`, `skills`, `own instructions`, `project instructions`, `tools`, `messages`,
    /// `calls`, `results`, `pictures`.
    pub name: &'static str,
    /// The number of tools, messages or results; 1 for a text.
    pub count: usize,
    /// Size in bytes.
    pub bytes: u64,
    /// Approximate number of tokens.
    pub tokens: u64,
}

/// The used part of the model's context window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ContextUsed {
    /// The tokens of the newest request, with its answer once that is there.
    pub tokens: u64,
    /// Context window: maximum number of tokens of request and answer together.
    pub window: u64,
    /// Whether the tokens are an estimate, and not the provider's count.
    pub estimated: bool,
}

impl Context {
    /// Measures the request with this prompt, these tools and this conversation.
    pub(crate) fn measure<'a>(
        system: &System,
        tools: impl Iterator<Item = &'a Spec>,
        items: &[Item],
        abilities: &Abilities,
        rate: Rate,
    ) -> Self {
        let mut parts = Parts { rate, all: Vec::new() };
        let [skills, own, project] = ["skills", "own", "project"].map(|it| system.bytes_of(it) as u64);
        let rest = (system.text().len() as u64).saturating_sub(skills + own + project);
        parts.add("system prompt", 1, rest);
        parts.add("skills", 1, skills);
        parts.add("own instructions", 1, own);
        parts.add("project instructions", 1, project);
        let tools: Vec<u64> =
            tools.map(|it| (it.name.len() + it.description.len()) as u64 + of_value(&it.schema)).collect();
        parts.add("tools", tools.len(), tools.iter().sum());
        let mut sizes = Sizes::default();
        items.iter().for_each(|it| sizes.take(it));
        parts.add("messages", sizes.messages.0, sizes.messages.1);
        parts.add("calls", sizes.calls.0, sizes.calls.1);
        parts.add("results", sizes.results.0, sizes.results.1);
        let pictures = if abilities.images { sizes.pictures.min(NEWEST) } else { 0 };
        parts.add("pictures", pictures, pictures as u64 * PICTURE);
        let tokens = parts.all.iter().map(|it| it.tokens).sum();
        let compacts_at = allowed(abilities);
        Self { parts: parts.all, tokens, window: abilities.window, compacts_at, counted: None }
    }

    /// Returns the number of tokens that are left for later messages and the answer.
    pub fn free(&self) -> u64 {
        self.window.saturating_sub(self.tokens)
    }
}

struct Parts {
    rate: Rate,
    all: Vec<ContextPart>,
}

impl Parts {
    fn add(&mut self, name: &'static str, count: usize, bytes: u64) {
        if bytes > 0 {
            self.all.push(ContextPart { name, count, bytes, tokens: self.rate.tokens(bytes) });
        }
    }
}

/// Counts and bytes of each kind.
#[derive(Default)]
struct Sizes {
    messages: (usize, u64),
    calls: (usize, u64),
    results: (usize, u64),
    pictures: usize,
}

impl Sizes {
    fn take(&mut self, item: &Item) {
        let pieces: Box<dyn Iterator<Item = &Piece>> = match item {
            Item::Person { pieces } => {
                add(&mut self.messages, pieces.iter().map(of_piece).sum());
                Box::new(pieces.iter())
            }
            Item::Model { said } => {
                let (calls, rest): (Vec<_>, Vec<_>) =
                    said.iter().partition(|it| matches!(it, crate::model::MessagePart::Call { .. }));
                if !rest.is_empty() {
                    add(&mut self.messages, rest.iter().map(|it| of_said(it)).sum());
                }
                calls.iter().for_each(|it| add(&mut self.calls, of_said(it)));
                Box::new(std::iter::empty())
            }
            Item::Results { results } => {
                for it in results {
                    add(&mut self.results, 40 + it.pieces.iter().map(of_piece).sum::<u64>());
                }
                Box::new(results.iter().flat_map(|it| &it.pieces))
            }
        };
        self.pictures += pieces.filter(|it| matches!(it, Piece::Image { .. })).count();
    }
}

fn add(to: &mut (usize, u64), bytes: u64) {
    to.0 += 1;
    to.1 += bytes;
}
