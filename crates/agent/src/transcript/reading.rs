//! Reading a conversation without opening it: what the person was shown, and the calls with their whole results.

use std::collections::HashMap;

use kit::Fault;
use runtime::Runtime;
use serde::Serialize;
use serde_json::Value;
use store::{Buffer, Row as Stored};

use super::{
    conversation::{Conversation, read},
    row::{Mark, Message, Row},
};
use crate::model::{Item, Piece, ResultOf, Said};

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

/// A call of a model, with all that it was answered.
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
}

/// Returns the lines of the person's view of this session, in order, without those taken back. Blocks.
///
/// # Errors
/// When it can't be read.
pub fn lines(runtime: &Runtime, session: &str) -> Result<Vec<Line>, Fault> {
    Ok(standing(&runtime.store().transcripts().rows(session, Buffer::Messages)?))
}

/// The lines of these rows that were not taken back.
pub(super) fn standing(rows: &[Stored]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        if let Ok(message) = serde_json::from_str::<Message>(&row.body) {
            lines.push(Line { number: row.number, at_ms: row.at_ms, turn: None, message });
        } else if let Ok(Mark::Rewound { since }) = serde_json::from_str(&row.body) {
            lines.retain(|it| it.number < since);
        }
    }
    let persons = lines.iter_mut().filter(|it| matches!(it.message, Message::Person { .. }));
    (1..).zip(persons).for_each(|(turn, line)| line.turn = Some(turn));
    lines
}

/// A call as the rows tell of it.
struct Known {
    /// The number of the line that began its turn.
    message: u64,
    id: String,
    tool: String,
    arguments: String,
    journal: Option<String>,
    result: Option<ResultOf>,
}

/// The calls of this session in turns that were not taken back, in their order; those that were summed up since too. Blocks.
///
/// # Errors
/// When they can't be read.
pub fn calls(runtime: &Runtime, session: &str) -> Result<Vec<ToolCall>, Fault> {
    let transcripts = runtime.store().transcripts();
    let turns: HashMap<u64, u64> =
        lines(runtime, session)?.iter().filter_map(|it| Some((it.number, it.turn?))).collect();
    let mut all: Vec<Known> = Vec::new();
    let mut begun = Turns::default();
    for stored in transcripts.rows(session, Buffer::Context)? {
        let row = read(&stored)?;
        if let Some(since) = begun.apply(stored.number, row.clone()) {
            all.retain(|it| it.message < since);
        }
        let message = begun.newest();
        match row {
            Row::Item { item: Item::Model { said }, .. } => {
                said.into_iter().for_each(|it| add(&mut all, it, None, message));
            }
            Row::Item { item: Item::Results { results }, .. } => {
                results.into_iter().for_each(|it| answer(&mut all, it));
            }
            Row::Began { call, journal, .. } => add(&mut all, call, Some(journal), message),
            Row::Ended { result } => answer(&mut all, result),
            Row::Item { .. }
            | Row::Rewound { .. }
            | Row::Note { .. }
            | Row::Shown { .. }
            | Row::Instead { .. } => {}
        }
    }
    Ok(all.into_iter().map(|it| it.told(&turns)).collect())
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
    /// The number of the person's line among the messages.
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

fn add(all: &mut Vec<Known>, said: Said, journal: Option<String>, message: u64) {
    let Said::Call { id, tool, arguments } = said else { return };
    match all.iter_mut().find(|it| it.id == id) {
        Some(known) => known.journal = known.journal.take().or(journal),
        None => all.push(Known { message, id, tool, arguments, journal, result: None }),
    }
}

fn answer(all: &mut [Known], result: ResultOf) {
    // The first one is whole; a later one may have been cut short.
    if let Some(known) = all.iter_mut().find(|it| it.id == result.id && it.result.is_none()) {
        known.result = Some(result);
    }
}

impl Known {
    fn told(self, turns: &HashMap<u64, u64>) -> ToolCall {
        ToolCall {
            call: self.journal,
            turn: turns.get(&self.message).copied(),
            tool: self.tool,
            arguments: serde_json::from_str(&self.arguments).unwrap_or(Value::String(self.arguments)),
            ok: self.result.as_ref().map(|it| it.ok),
            result: self.result.map(|it| Piece::lines(&it.pieces)),
        }
    }
}
