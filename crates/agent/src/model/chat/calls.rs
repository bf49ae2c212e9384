//! Assembly of calls from the pieces of a stream.
//!
//! The format has no mark for the end of a call; only the end of the answer is one. haft uses these signs:
//!
//! - The arguments are a complete JSON object that is not empty. Nothing but white space can follow one, so nothing is
//!   lost by stopping there: this closes a call.
//! - The arguments are `{}`. Not enough: some servers begin with it and write the arguments after it.
//! - Another call begins, or text follows. Not enough: calls may be interleaved.
//! - `finish_reason`: closes all that are open, whatever they say. Where the answer was cut off (`length`,
//!   `content_filter`), only those that are complete: the last may have been cut in two.
//!
//! So a call without arguments, or whose arguments are not JSON, waits for the end of the answer; every other
//! one begins with the last character of its arguments. Data that its provider requires back with it may
//! arrive later.

use std::collections::HashSet;

use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::WIRE;
use crate::model::{Breach, Event, Item, MessagePart, ModelError, Request};

/// Maximum number of calls in an answer.
const MOST: usize = 1000;

/// The calls of one answer, as far as they are written.
pub(super) struct Calls {
    written: Vec<PartialCall>,
    /// The ids of calls in this conversation. Some servers repeat ids.
    taken: HashSet<String>,
    step: usize,
    model: String,
}

/// A piece of a call, as it arrived. Missing fields are empty.
#[derive(Debug, Default)]
pub(super) struct Piece {
    /// The server's number of the call.
    pub(super) index: Option<u64>,
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) arguments: String,
    /// Data that the provider requires back with the call, such as Gemini's signatures.
    pub(super) extra: Option<Value>,
}

/// One call, as far as it is written.
#[derive(Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    tool: String,
    arguments: String,
    extra: Option<Value>,
    began: bool,
    /// The id under which it was closed: the server's, or a new one.
    closed: Option<String>,
    scan: Scan,
}

/// A scanner that finds the end of a JSON object. It reads each byte once, however many pieces the arguments
/// come in.
#[derive(Default)]
struct Scan {
    /// The number of scanned bytes.
    at: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    stands: Stands,
}

/// The state of arguments so far.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stands {
    /// Blank, or the beginning of an object.
    #[default]
    Open,
    /// An object without keys.
    Empty,
    /// A complete object with keys.
    Whole,
    /// Not an object, whatever follows.
    Never,
}

impl Scan {
    /// Scans the new part of `text`.
    fn look(&mut self, text: &str) {
        for (at, byte) in text.bytes().enumerate().skip(self.at) {
            self.take(byte, || text.get(..=at).unwrap_or_default());
        }
        self.at = text.len();
    }

    /// Scans one byte. `until` returns the text up to and including it.
    fn take<'a>(&mut self, byte: u8, until: impl FnOnce() -> &'a str) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        if self.stands == Stands::Never || byte.is_ascii_whitespace() {
            return;
        }
        if self.stands != Stands::Open || (self.depth == 0 && byte != b'{') {
            self.stands = Stands::Never;
            return;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.stands = closed(until());
                }
            }
            _ => {}
        }
    }

    fn is_object(&self) -> bool {
        matches!(self.stands, Stands::Empty | Stands::Whole)
    }
}

/// Returns the state of a text whose first brace has just been closed.
fn closed(text: &str) -> Stands {
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        return Stands::Never;
    }
    let inner = text.trim_start().strip_prefix('{').unwrap_or_default();
    if inner.trim_start().starts_with('}') { Stands::Empty } else { Stands::Whole }
}

impl Calls {
    pub(super) fn new(model: &str, request: &Request) -> Self {
        let said = request.items.iter().flat_map(|it| match it {
            Item::Model { said } => said.as_slice(),
            Item::Person { .. } | Item::Results { .. } => &[],
        });
        let taken =
            said.filter_map(|it| if let MessagePart::Call { id, .. } = it { Some(id.clone()) } else { None });
        Self { written: Vec::new(), taken: taken.collect(), step: request.step, model: model.to_owned() }
    }

    /// Adds a piece of a call.
    ///
    /// # Errors
    /// When there are more calls than an answer may have.
    pub(super) fn take(&mut self, piece: Piece, events: &mut Vec<Event>) -> Result<(), ModelError> {
        let at = self.find(&piece).unwrap_or_else(|| {
            self.written.push(PartialCall::default());
            self.written.len() - 1
        });
        if at >= MOST {
            let what = format!("the answer has more than {MOST} calls");
            return Err(ModelError::new(Breach::Malformed, what));
        }
        let Some(call) = self.written.get_mut(at) else { return Ok(()) };
        call.take(at, piece, events);
        match &call.closed {
            Some(_) => events.extend(call.kept(&self.model)),
            None if !call.tool.is_empty() && call.is_complete() => self.close(at, events),
            None => {}
        }
        Ok(())
    }

    /// Ends the answer. If it was `cut` off, only complete calls are made.
    ///
    /// # Errors
    /// When a call has no name.
    pub(super) fn end(&mut self, cut: bool, events: &mut Vec<Event>) -> Result<(), ModelError> {
        for at in 0..self.written.len() {
            let Some(call) = self.written.get(at) else { continue };
            if call.closed.is_some() || (cut && !call.scan.is_object()) {
                continue;
            }
            if call.tool.is_empty() {
                let what = format!("a call has no name; its arguments are {}", call.arguments);
                return Err(ModelError::new(Breach::Malformed, what));
            }
            self.close(at, events);
        }
        Ok(())
    }

    /// Returns whether any call was closed.
    pub(super) fn any(&self) -> bool {
        self.written.iter().any(|it| it.closed.is_some())
    }

    /// Returns the call that this piece continues, or `None` if it begins one.
    fn find(&self, piece: &Piece) -> Option<usize> {
        let last = |fits: &dyn Fn(&PartialCall) -> bool| self.written.iter().rposition(fits);
        let at = match piece.index {
            Some(index) => last(&|it| it.index == Some(index)).or_else(|| {
                // The call began without a number.
                let nameless = piece.tool.is_empty() && piece.id.is_empty();
                let at = self.written.len().checked_sub(1).filter(|_| nameless)?;
                self.written.get(at).filter(|it| it.index.is_none()).map(|_| at)
            }),
            None => last(&|it| !piece.id.is_empty() && it.id == piece.id)
                .or_else(|| self.written.len().checked_sub(1)),
        }?;
        self.written.get(at).filter(|it| it.goes_on_with(piece)).map(|_| at)
    }

    fn close(&mut self, at: usize, events: &mut Vec<Event>) {
        let Some(call) = self.written.get_mut(at) else { return };
        let mut id = call.id.clone();
        if id.is_empty() || self.taken.contains(&id) {
            id = format!("call_{}_{at}", self.step);
            while self.taken.contains(&id) {
                id.push('x');
            }
        }
        self.taken.insert(id.clone());
        call.closed = Some(id.clone());
        events.extend(call.kept(&self.model));
        let mut arguments = call.arguments.clone();
        if arguments.trim().is_empty() {
            "{}".clone_into(&mut arguments);
        }
        events.push(Event::CallClosed { index: at, id, tool: call.tool.clone(), arguments });
    }
}

impl PartialCall {
    /// Returns whether this piece continues the call; otherwise it begins another one. Servers that number every
    /// call 0, or none, distinguish calls by id; for those without ids, a complete call is over.
    fn goes_on_with(&self, piece: &Piece) -> bool {
        // Some servers send a new id with every piece, but no name.
        if piece.tool.is_empty() || self.tool.is_empty() {
            return true;
        }
        if !piece.id.is_empty() && !self.id.is_empty() {
            return piece.id == self.id;
        }
        let repeated = piece.arguments.trim().is_empty() || piece.arguments == self.arguments;
        piece.tool == self.tool && (repeated || !self.scan.is_object())
    }

    fn take(&mut self, at: usize, piece: Piece, events: &mut Vec<Event>) {
        self.index = self.index.or(piece.index);
        self.extra = piece.extra.or(self.extra.take());
        let more = piece.arguments;
        if self.closed.is_some() {
            // A repetition is ignored, and so is text after the end of the JSON.
            if !more.trim().is_empty() && more != self.arguments {
                tracing::warn!(tool = self.tool, "more came after the end of a call's arguments: {more}");
            }
            return;
        }
        if self.id.is_empty() {
            self.id = piece.id;
        }
        if self.tool.is_empty() {
            self.tool = piece.tool;
        }
        if self.scan.is_object() && more.trim_start().starts_with('{') {
            self.arguments.clear();
            self.scan = Scan::default();
        }
        self.grow(&more);
        let mut bytes = more.len();
        if !self.began && !self.tool.is_empty() {
            self.began = true;
            bytes = self.arguments.len();
            events.push(Event::CallBegan { index: at, tool: self.tool.clone() });
        }
        if self.began && bytes > 0 {
            events.push(Event::CallGrew { index: at, bytes });
        }
    }

    /// Returns the data that the provider requires back with the call, if any of it is new.
    fn kept(&mut self, model: &str) -> Option<Event> {
        let id = self.closed.as_ref()?;
        let value = json!({"model": model, "call": id, "extra_content": self.extra.take()?});
        Some(Event::Opaque(MessagePart::Opaque { wire: WIRE.to_owned(), value }))
    }

    /// Returns whether the arguments are a complete object with keys.
    fn is_complete(&self) -> bool {
        self.scan.stands == Stands::Whole
    }

    fn grow(&mut self, more: &str) {
        self.arguments.push_str(more);
        self.scan.look(&self.arguments);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Map;

    use super::*;

    /// Returns what a parser says of the whole text.
    fn parsed(text: &str) -> (bool, bool) {
        let object = serde_json::from_str::<Map<String, Value>>(text);
        (object.is_ok(), object.is_ok_and(|it| !it.is_empty()))
    }

    proptest! {
        #[test]
        fn scanning_in_pieces_agrees_with_the_parser(
            pieces in proptest::collection::vec(r#"\{|\}|\[|\]|"|"a":|\\|,| |1|\{"a": ?|"\}"|ü|\{\}"#, 0..10),
        ) {
            let (mut scan, mut text) = (Scan::default(), String::new());
            for piece in pieces {
                text.push_str(&piece);
                scan.look(&text);
                prop_assert_eq!((scan.is_object(), scan.stands == Stands::Whole), parsed(&text), "{}", text);
            }
        }
    }

    #[test]
    fn arguments_in_very_many_pieces_are_read_once() {
        let mut call = PartialCall { tool: "write".to_owned(), ..PartialCall::default() };
        let mut events = Vec::new();
        let mut take = |arguments: &str| {
            call.take(0, Piece { arguments: arguments.to_owned(), ..Piece::default() }, &mut events);
            call.is_complete()
        };
        assert!(!take(r#"{"text": ""#));
        // With a parse for each piece, this would take minutes.
        assert!((0..200_000).all(|_| !take("}}}}}}}}}}")));
        assert!(take("\"}"));
    }

    #[test]
    fn answer_with_too_many_calls_is_an_error() {
        let mut calls = Calls { written: Vec::new(), taken: HashSet::new(), step: 0, model: String::new() };
        let mut take = |index| {
            let piece = Piece { index: Some(index), tool: "a".to_owned(), ..Piece::default() };
            calls.take(piece, &mut Vec::new())
        };
        assert!((0..MOST as u64).all(|it| take(it).is_ok()));
        assert!(take(MOST as u64).is_err());
    }
}
