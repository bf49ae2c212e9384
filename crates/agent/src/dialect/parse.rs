//! Streaming parser for calls in text, however the text is cut.
//!
//! Text goes character by character through three states: text, what may become an opening tag, and a block. Only the
//! second is held back, and only until a character comes that no tag can have there. What turns out to be no call is
//! text, byte for byte: a tag of no known name, a block that holds no call, and a block that is never closed. Nothing
//! within a block is looked for: a block ends at its own closing tag or not at all, and what an unclosed block holds is
//! never run, as it may be the text of a file.

use std::sync::Arc;

use super::{fence::Fences, syntax::Syntax, tagged::Tag, wrapped::Quotes};
use crate::model::Event;

/// How much of a block is looked at for the tool's name while it is written.
const NAME_WITHIN: usize = 256;

/// Finds the calls in one answer.
pub(super) struct Parser {
    syntax: Arc<Syntax>,
    state: State,
    fences: Fences,
    events: Vec<Event>,
    text: String,
    /// Which call comes next.
    index: usize,
    calls: usize,
    most: usize,
    /// How many calls there were beyond those.
    left: usize,
    /// How many characters were looked at, those that were looked at again counted again.
    #[cfg(test)]
    pub(super) work: u64,
}

enum State {
    Text,
    /// This may become an opening tag.
    Held {
        held: String,
        opening: Opening,
    },
    Block(Block),
}

/// An opening tag as far as it is written.
pub(super) enum Opening {
    /// How many bytes of the one tag that there is are there.
    Fixed(usize),
    /// The tag of a tool.
    Named(Tag),
}

/// What a character makes of an opening tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may still become one.
    Maybe,
    /// It is none.
    No,
    /// It is one.
    Open,
    /// It is one, and a whole call.
    Whole,
}

/// A block that is not closed yet.
struct Block {
    opening: Opening,
    /// Its opening tag as it was written, and all after it.
    raw: String,
    body_at: usize,
    close: String,
    quotes: Quotes,
    /// The call that was said to begin here.
    began: Option<usize>,
    /// How many bytes nobody was told of yet.
    untold: usize,
}

/// What was there at the end.
pub(super) struct Rest {
    pub(super) events: Vec<Event>,
    /// How many calls there were.
    pub(super) calls: usize,
    /// How many more there were than are taken: they are text.
    pub(super) left: usize,
    /// A call was begun and not closed, and there was none before it.
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

    /// Takes more of the answer; gives what is certain now.
    pub(super) fn feed(&mut self, more: &str) -> Vec<Event> {
        // What was held back for nothing is looked at again from its second character, before anything new.
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

    /// The answer is over.
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
            // A call that was said to begin here never closes.
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
            // The brace that shows it to be one belongs to the body.
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

    /// All after the opening tag.
    fn inner(&self) -> &str {
        self.raw.get(self.body_at..).unwrap_or_default()
    }

    /// What is between the tags, or as much of it as there is.
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
