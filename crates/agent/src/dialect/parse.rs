//! Streaming parser for calls in text; the result does not depend on how the text is split.
//!
//! The parser has three states: text, a possible opening tag, and a block. Only a possible tag is held back,
//! and only until a character arrives that no tag can have there. Everything that is not a call stays text,
//! byte for byte: a tag of an unknown name, a block without a call, and an unclosed block. The parser looks
//! for nothing within a block: a block ends only at its own closing tag. The content of an unclosed block
//! never runs, as it may be the text of a file.

use std::sync::Arc;

use super::{fence::Fences, syntax::Syntax, tagged::Tag, wrapped::Quotes};
use crate::model::Event;

/// Length of the beginning of a block in which the parser looks for the tool's name while it is written, in
/// bytes.
const NAME_WITHIN: usize = 256;

/// The parser of one answer.
pub(super) struct Parser {
    syntax: Arc<Syntax>,
    state: State,
    fences: Fences,
    events: Vec<Event>,
    text: String,
    /// The index of the next call.
    index: usize,
    calls: usize,
    most: usize,
    /// The number of calls beyond the limit.
    left: usize,
    /// The number of characters read, including repeated reads.
    #[cfg(test)]
    pub(super) work: u64,
}

enum State {
    Text,
    /// A possible opening tag.
    Held {
        held: String,
        opening: Opening,
    },
    Block(Block),
}

/// An opening tag, as far as it is written.
pub(super) enum Opening {
    /// The number of bytes so far of a fixed tag.
    Fixed(usize),
    /// The tag of a tool.
    Named(Tag),
}

/// The state of an opening tag after one more character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may still become one.
    Maybe,
    /// It is not one.
    No,
    /// It is complete.
    Open,
    /// It is complete, and is itself a whole call.
    Whole,
}

/// An unclosed block.
struct Block {
    opening: Opening,
    /// Its opening tag as it was written, and the text after it.
    raw: String,
    body_at: usize,
    close: String,
    quotes: Quotes,
    /// The index of the call that was reported to begin here.
    began: Option<usize>,
    /// The number of bytes that were not reported yet.
    untold: usize,
}

/// The result of the end of an answer.
pub(super) struct Rest {
    pub(super) events: Vec<Event>,
    /// The number of calls.
    pub(super) calls: usize,
    /// The number of calls beyond the limit, which are text.
    pub(super) left: usize,
    /// Whether a call was begun and not closed, with no call before it.
    pub(super) cut: bool,
}

impl Parser {
    pub(super) fn new(syntax: Arc<Syntax>, most: usize) -> Self {
        let fences = Fences::new(syntax.tools.iter().map(|it| it.name.clone()).collect());
        Self {
            syntax,
            state: State::Text,
            fences,
            events: Vec::new(),
            text: String::new(),
            index: 0,
            calls: 0,
            most,
            left: 0,
            #[cfg(test)]
            work: 0,
        }
    }

    /// Takes more of the answer, and returns the events that are certain now.
    pub(super) fn feed(&mut self, more: &str) -> Vec<Event> {
        // After a false tag, the text from its second character on is read again, before anything new.
        let mut again: Vec<char> = Vec::new();
        let mut chars = more.chars();
        while let Some(c) = again.pop().or_else(|| chars.next()) {
            #[cfg(test)]
            {
                self.work += 1;
            }
            self.push(c, &mut again);
        }
        if let State::Block(block) = &mut self.state {
            block.tell(&mut self.events);
        }
        self.tell_text();
        std::mem::take(&mut self.events)
    }

    /// Ends the answer.
    pub(super) fn finish(mut self) -> Rest {
        let mut cut = false;
        match std::mem::replace(&mut self.state, State::Text) {
            State::Text => {}
            State::Held { held, .. } => self.text.push_str(&held),
            State::Block(block) => {
                cut = self.calls == 0 && self.syntax.is_cut(block.body());
                self.text.push_str(&block.raw);
            }
        }
        self.tell_text();
        Rest { events: self.events, calls: self.calls, left: self.left, cut }
    }

    fn push(&mut self, c: char, again: &mut Vec<char>) {
        match std::mem::replace(&mut self.state, State::Text) {
            State::Text => self.text(c),
            State::Held { mut held, mut opening } => {
                held.push(c);
                match self.syntax.opens(&mut opening, c) {
                    Verdict::Maybe => self.state = State::Held { held, opening },
                    Verdict::Open => self.open(held, opening),
                    Verdict::Whole => self.close(Block::new(&self.syntax, held, opening), true),
                    Verdict::No => {
                        let mut chars = held.chars();
                        if let Some(first) = chars.next() {
                            self.literal(first);
                        }
                        again.extend(chars.rev());
                    }
                }
            }
            State::Block(mut block) => {
                block.push(c);
                if block.began.is_none()
                    && matches!(c, '"' | '\'')
                    && block.body().len() <= NAME_WITHIN
                    && let Some(tool) = self.syntax.named(block.body())
                {
                    self.begin(&mut block, tool);
                }
                if block.is_closed(c) { self.close(block, false) } else { self.state = State::Block(block) }
            }
        }
    }

    fn text(&mut self, c: char) {
        let opening = if self.fences.shown() { None } else { self.syntax.begins(c) };
        match opening {
            Some(opening) => self.state = State::Held { held: c.to_string(), opening },
            None => self.literal(c),
        }
    }

    fn literal(&mut self, c: char) {
        self.fences.push(c);
        self.text.push(c);
    }

    fn open(&mut self, held: String, opening: Opening) {
        let mut block = Block::new(&self.syntax, held, opening);
        if let Opening::Named(tag) = &block.opening {
            let tool = tag.name.clone();
            self.begin(&mut block, tool);
        }
        self.state = State::Block(block);
    }

    fn begin(&mut self, block: &mut Block, tool: String) {
        if self.calls >= self.most {
            return;
        }
        block.began = Some(self.index);
        self.tell_text();
        self.events.push(Event::CallBegan { index: self.index, tool });
        self.index += 1;
    }

    fn close(&mut self, mut block: Block, whole: bool) {
        let body = if whole { None } else { Some(block.body()) };
        let call = self.syntax.call(&block.opening, body);
        let is_one_too_many = call.is_some() && self.calls >= self.most;
        self.left += usize::from(is_one_too_many);
        let Some((tool, arguments)) = call.filter(|_| !is_one_too_many) else {
            // A call that was reported to begin here never closes.
            block.raw.chars().for_each(|c| self.literal(c));
            return;
        };
        if block.began.is_none() {
            self.begin(&mut block, tool.clone());
        }
        let Some(index) = block.began else { return };
        self.tell_text();
        block.tell(&mut self.events);
        self.events.push(Event::CallClosed { index, id: String::new(), tool, arguments });
        self.calls += 1;
        self.fences.skip();
    }

    fn tell_text(&mut self) {
        if !self.text.is_empty() {
            self.events.push(Event::Text(std::mem::take(&mut self.text)));
        }
    }
}

impl Block {
    fn new(syntax: &Syntax, held: String, opening: Opening) -> Self {
        let close = syntax.close(&opening);
        let body_at = match &opening {
            // The brace after a fixed tag belongs to the body.
            Opening::Fixed(length) => *length,
            Opening::Named(_) => held.len(),
        };
        let mut quotes = syntax.quotes();
        held.chars().skip(body_at).for_each(|c| quotes.push(c));
        let untold = held.len() - body_at;
        Self { opening, raw: held, body_at, close, quotes, began: None, untold }
    }

    fn push(&mut self, c: char) {
        self.raw.push(c);
        self.untold += c.len_utf8();
        self.quotes.push(c);
    }

    /// Returns the text after the opening tag.
    fn inner(&self) -> &str {
        self.raw.get(self.body_at..).unwrap_or_default()
    }

    /// Returns the text between the tags, as far as it is written.
    fn body(&self) -> &str {
        self.inner().strip_suffix(self.close.as_str()).unwrap_or(self.inner())
    }

    fn is_closed(&self, c: char) -> bool {
        self.close.ends_with(c) && !self.quotes.open() && self.inner().ends_with(self.close.as_str())
    }

    fn tell(&mut self, events: &mut Vec<Event>) {
        if let (Some(index), bytes @ 1..) = (self.began, self.untold) {
            events.push(Event::CallGrew { index, bytes });
            self.untold = 0;
        }
    }
}
