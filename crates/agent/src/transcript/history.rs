//! History of a conversation, read without opening it: the person's lines, and all messages and calls with their results.
//!
//! A summary replaces messages in the model's context, not in the history. Turns that the person took back are not in it.

use std::collections::HashMap;

use kit::Fault;
use runtime::Runtime;
use serde::Serialize;
use serde_json::Value;
use store::{Buffer, Row as Stored};

use super::{
    conversation::{Conversation, read},
    row::{Message, RewindMark, Row},
};
use crate::model::{Item, MessagePart, Piece, ResultOf};

/// A line of what a person was shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Its number among all that the person was shown, from 1. What was taken back leaves gaps.
    pub number: u64,
    /// When it was written, in milliseconds since 1970.
    pub at_ms: u64,
    /// Of what the person said: the number of their message, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// The message.
    #[serde(flatten)]
    pub message: Message,
}

/// One entry of a conversation, in the order in which the model has them.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryItem {
    /// The number of the [`Line`] that began its turn; 0 before the first.
    pub line: u64,
    /// The message, or the call.
    pub entry: Entry,
}

/// A message, or a call with its result.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// A message of the person.
    Person {
        /// The text.
        text: String,
        /// The attachments, a line each.
        attached: Vec<String>,
    },
    /// A text of the model.
    Model {
        /// The text.
        text: String,
    },
    /// The model called a tool.
    Call(ToolCall),
}

/// A call of a model, with its whole result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolCall {
    /// Its id in the journal, as `haft log --call` takes it. Without one it never began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The person's message in whose turn it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// The tool.
    pub tool: String,
    /// The arguments; as a text where they are not JSON.
    pub arguments: Value,
    /// Whether it worked. Nothing, where no result is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
    /// The result that the model got, with pictures named by their handles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The parts of this result.
    #[serde(skip)]
    pub pieces: Vec<Piece>,
}

/// Returns the lines of this session as the person sees them, in order, without those taken back. Blocks.
///
/// # Errors
/// When it can't be read.
pub fn lines(runtime: &Runtime, session: &str) -> Result<Vec<Line>, Fault> {
    Ok(standing(&runtime.store().transcripts().rows(session, Buffer::Messages)?))
}

/// Returns the calls of this session in turns that were not taken back, in their order. Blocks.
///
/// # Errors
/// When they can't be read.
pub fn calls(runtime: &Runtime, session: &str) -> Result<Vec<ToolCall>, Fault> {
    let call = |it: HistoryItem| match it.entry {
        Entry::Call(call) => Some(call),
        Entry::Person { .. } | Entry::Model { .. } => None,
    };
    Ok(history(runtime, session)?.into_iter().filter_map(call).collect())
}

/// Returns the messages and calls of a session, in order, without the turns that the person took back. Blocks.
///
/// # Errors
/// When it can't be read.
pub fn history(runtime: &Runtime, session: &str) -> Result<Vec<HistoryItem>, Fault> {
    let transcripts = runtime.store().transcripts();
    // Read before the context: a message is on the disk before the item that begins its turn.
    let context = transcripts.rows(session, Buffer::Context)?;
    let lines = standing(&transcripts.rows(session, Buffer::Messages)?);
    let mut history = History::of(lines);
    for stored in context {
        history.take(stored.number, read(&stored)?);
    }
    Ok(history.items)
}

/// Returns the lines of these rows that were not taken back.
pub(super) fn standing(rows: &[Stored]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        if let Ok(message) = serde_json::from_str::<Message>(&row.body) {
            lines.push(Line { number: row.number, at_ms: row.at_ms, turn: None, message });
        } else if let Ok(RewindMark::Rewound { since }) = serde_json::from_str(&row.body) {
            lines.retain(|it| it.number < since);
        }
    }
    let persons = lines.iter_mut().filter(|it| matches!(it.message, Message::Person { .. }));
    (1..).zip(persons).for_each(|(turn, line)| line.turn = Some(turn));
    lines
}

/// The turns of the person that stand, as the rows of what the model was sent are read one after the other; those too that
/// were summed up since.
#[derive(Default)]
pub(super) struct Turns {
    conversation: Conversation,
    begun: Vec<Begin>,
}

/// Where a turn begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begin {
    /// The number of its line among the messages.
    pub(super) message: u64,
    /// The number of the row.
    pub(super) row: u64,
}

impl Turns {
    /// Takes the next row. Where it takes turns back, gives the person's line with which the first of them began.
    pub(super) fn apply(&mut self, number: u64, row: Row) -> Option<u64> {
        let since = match &row {
            Row::Item { turn: Some(begins), .. } => {
                self.begun.push(Begin { message: begins.message, row: number });
                None
            }
            Row::Rewound { turns, .. } => {
                let there = &self.conversation.turns;
                there.len().checked_sub(*turns).and_then(|first| there.get(first)).map(|it| it.begins.message)
            }
            _ => None,
        };
        if let Some(since) = since {
            self.begun.retain(|it| it.message < since);
        }
        self.conversation.apply(row);
        since
    }

    pub(super) fn begun(&self) -> impl Iterator<Item = Begin> + '_ {
        self.begun.iter().copied()
    }

    /// The line that begins the newest of them; 0 before the first.
    fn newest(&self) -> u64 {
        self.begun.last().map_or(0, |it| it.message)
    }
}

/// The history that follows from the rows read so far.
#[derive(Default)]
struct History {
    lines: HashMap<u64, Line>,
    turns: Turns,
    items: Vec<HistoryItem>,
    /// The ids in the journal, by the model's own.
    journal: HashMap<String, String>,
    /// The results, by the model's ids. The first one is whole; a later one may have been cut short.
    results: HashMap<String, ResultOf>,
    /// Where the calls stand, by the model's ids.
    calls: HashMap<String, usize>,
    /// Where the answer begins that the model has not finished: its parts are known from the calls that began.
    unfinished: Option<usize>,
}

impl History {
    fn of(lines: Vec<Line>) -> Self {
        Self { lines: lines.into_iter().map(|it| (it.number, it)).collect(), ..Self::default() }
    }

    fn take(&mut self, number: u64, row: Row) {
        if let Some(since) = self.turns.apply(number, row.clone()) {
            self.items.retain(|it| it.line < since);
            let left = self.items.len();
            self.calls.retain(|_, at| *at < left);
            self.unfinished = None;
        }
        match row {
            Row::Item { item: Item::Person { pieces }, turn: Some(begins) } => {
                self.unfinished = None;
                let entry = match self.lines.get(&begins.message).map(|it| it.message.clone()) {
                    Some(Message::Person { text, attached }) => Entry::Person { text, attached },
                    // The person's words are the last piece.
                    _ => Entry::Person {
                        text: pieces.last().map(Piece::line).unwrap_or_default(),
                        attached: Vec::new(),
                    },
                };
                self.add(entry);
            }
            Row::Item { item: Item::Model { said }, .. } => {
                if let Some(from) = self.unfinished.take() {
                    self.items.truncate(from);
                }
                said.into_iter().for_each(|it| self.said(it));
            }
            Row::Item { item: Item::Results { results }, .. } => {
                self.unfinished = None;
                results.into_iter().for_each(|it| self.result(it));
            }
            Row::Began { before, call, journal, .. } => {
                self.unfinished.get_or_insert(self.items.len());
                if let MessagePart::Call { id, .. } = &call {
                    self.journal.insert(id.clone(), journal);
                }
                before.into_iter().for_each(|(_, it)| self.said(it));
                self.said(call);
            }
            Row::Ended { result } => self.result(result),
            Row::Rewound { .. }
            | Row::Instead { .. }
            | Row::Item { .. }
            | Row::Note { .. }
            | Row::Shown { .. } => {}
        }
    }

    fn add(&mut self, entry: Entry) {
        self.items.push(HistoryItem { line: self.turns.newest(), entry });
    }

    fn said(&mut self, said: MessagePart) {
        match said {
            MessagePart::Text { text } if !text.is_empty() => self.add(Entry::Model { text }),
            MessagePart::Text { .. } | MessagePart::Opaque { .. } => {}
            MessagePart::Call { id, tool, arguments } => {
                let mut call = ToolCall {
                    call: self.journal.get(&id).cloned(),
                    turn: self.lines.get(&self.turns.newest()).and_then(|it| it.turn),
                    tool,
                    arguments: serde_json::from_str(&arguments).unwrap_or(Value::String(arguments)),
                    ok: None,
                    result: None,
                    pieces: Vec::new(),
                };
                if let Some(result) = self.results.get(&id) {
                    call.ends(result);
                }
                self.calls.insert(id, self.items.len());
                self.add(Entry::Call(call));
            }
        }
    }

    fn result(&mut self, of: ResultOf) {
        let result = &*self.results.entry(of.id.clone()).or_insert(of);
        let at = self.calls.get(&result.id).copied();
        if let Some(HistoryItem { entry: Entry::Call(call), .. }) = at.and_then(|it| self.items.get_mut(it)) {
            call.ends(result);
        }
    }
}

impl ToolCall {
    fn ends(&mut self, result: &ResultOf) {
        self.ok = Some(result.ok);
        self.result = Some(Piece::lines(&result.pieces));
        self.pieces.clone_from(&result.pieces);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::row::Begins;

    fn call(id: &str) -> MessagePart {
        MessagePart::Call { id: id.to_owned(), tool: "read".to_owned(), arguments: "{}".to_owned() }
    }

    fn result(id: &str, text: &str) -> ResultOf {
        let (id, tool) = (id.to_owned(), "read".to_owned());
        ResultOf { id, tool, ok: true, pieces: vec![Piece::text(text)] }
    }

    fn person(text: &str, message: u64) -> Row {
        let item = Item::person(text);
        Row::Item { item, turn: Some(Begins { news: 0, message }) }
    }

    fn began(id: &str, before: &str) -> Row {
        let before = vec![(0, MessagePart::Text { text: before.to_owned() })];
        Row::Began { before, place: 1, call: call(id), journal: format!("c_{id}") }
    }

    fn of(rows: impl IntoIterator<Item = Row>) -> Vec<HistoryItem> {
        let mut history = History::default();
        (1..).zip(rows).for_each(|(number, row)| history.take(number, row));
        history.items
    }

    fn at(line: u64, entry: Entry) -> HistoryItem {
        HistoryItem { line, entry }
    }

    fn said(text: &str) -> Entry {
        Entry::Model { text: text.to_owned() }
    }

    fn called(id: &str, result: Option<&str>) -> Entry {
        Entry::Call(ToolCall {
            call: Some(format!("c_{id}")),
            turn: None,
            tool: "read".to_owned(),
            arguments: serde_json::json!({}),
            ok: result.map(|_| true),
            result: result.map(str::to_owned),
            pieces: result.map(Piece::text).into_iter().collect(),
        })
    }

    fn asked(text: &str) -> Entry {
        Entry::Person { text: text.to_owned(), attached: Vec::new() }
    }

    #[test]
    fn summed_up_words_and_results_of_calls_are_there_and_what_was_taken_back_is_not() {
        let model = vec![MessagePart::Text { text: "I look.".to_owned() }, call("m1")];
        let items = of([
            person("look", 1),
            began("m1", "I look."),
            Row::Ended { result: result("m1", "1:aa|one") },
            Row::Item { item: Item::Model { said: model }, turn: None },
            Row::Item { item: Item::Results { results: vec![result("m1", "cut")] }, turn: None },
            Row::Instead { from: 0, count: 3, items: vec![Item::person("summary")] },
            person("and now", 5),
            Row::Item { item: Item::Model { said: vec![call("m2")] }, turn: None },
            Row::Rewound { turns: 1, notes: Vec::new() },
        ]);
        let expected = [at(1, asked("look")), at(1, said("I look.")), at(1, called("m1", Some("1:aa|one")))];
        assert_eq!(items, expected);
    }

    #[test]
    fn an_answer_that_is_not_finished_is_known_by_the_calls_that_began() {
        let items = of([
            person("look", 1),
            began("m1", "First."),
            began("m2", "Second."),
            Row::Ended { result: result("m2", "two") },
        ]);
        let expected = [
            at(1, asked("look")),
            at(1, said("First.")),
            at(1, called("m1", None)),
            at(1, said("Second.")),
            at(1, called("m2", Some("two"))),
        ];
        assert_eq!(items, expected);
    }
}
