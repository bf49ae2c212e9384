//! The model's conversation: applies the rows of the transcript in their order.

use std::collections::{HashMap, HashSet};

use kit::Fault;
use store::Row as Stored;

use super::{
    recovery::Open,
    row::{Begins, Row},
};
use crate::model::{Item, MessagePart, Piece};

/// A conversation. It follows from its rows, each of which has the same effect whenever it is read.
#[derive(Default)]
pub(super) struct Conversation {
    pub(super) items: Vec<Item>,
    /// The number of the model's answers.
    pub(super) steps: usize,
    /// The ids of all calls ever made, so that none is used twice.
    pub(super) ids: HashSet<String>,
    /// The notes that the model gets with the person's next message.
    pub(super) notes: Vec<Piece>,
    pub(super) open: Open,
    /// The turns of the person whose beginning is still in the conversation, oldest first.
    pub(super) turns: Vec<Turn>,
    /// The journal ids of all calls ever made, by the ids that the model gave them.
    pub(super) journal: HashMap<String, String>,
}

/// The beginning of a turn of the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    /// The index of its first item.
    pub(super) at: usize,
    pub(super) begins: Begins,
}

impl Conversation {
    /// Reads a conversation from its rows.
    pub(super) fn read(rows: Vec<Stored>) -> Result<Self, Fault> {
        let mut conversation = Self::default();
        for stored in rows {
            conversation.apply(read(&stored)?);
        }
        Ok(conversation)
    }

    pub(super) fn apply(&mut self, row: Row) {
        match row {
            Row::Item { item, turn } => {
                self.turns.extend(turn.map(|begins| Turn { at: self.items.len(), begins }));
                self.take(item);
            }
            Row::Began { before, place, call, journal } => {
                if let Some(id) = id_of(&call) {
                    self.ids.insert(id.to_owned());
                    self.journal.insert(id.to_owned(), journal.clone());
                }
                self.open.begin(before, place, call, journal);
            }
            Row::Ended { result } => self.open.end(result),
            Row::Note { text } => self.notes.push(Piece::text(text)),
            Row::Shown { pieces } => self.notes.extend(pieces),
            Row::Instead { from, count, items } => {
                let from = from.min(self.items.len());
                let until = from.saturating_add(count).min(self.items.len());
                self.move_turns(from, until, items.len());
                self.items.splice(from..until, items);
            }
            Row::Rewound { turns, notes } => {
                if let Some(first) = self.turns.len().checked_sub(turns)
                    && let Some(turn) = self.turns.get(first)
                {
                    self.items.truncate(turn.at);
                    self.turns.truncate(first);
                    self.open = Open::default();
                    self.notes = notes;
                }
            }
        }
    }

    /// Adjusts the turns when `items` new items replace those from `from` to `until`. A turn whose first item
    /// is replaced is dropped, unless the number of items stays the same.
    fn move_turns(&mut self, from: usize, until: usize, items: usize) {
        let same = items == until - from;
        self.turns.retain_mut(|turn| {
            if turn.at >= until {
                turn.at = turn.at - until + from + items;
                return true;
            }
            turn.at < from || same
        });
    }

    fn take(&mut self, item: Item) {
        match &item {
            Item::Model { said } => {
                self.steps += 1;
                self.ids.extend(said.iter().filter_map(id_of).map(str::to_owned));
                self.open.complete(said);
            }
            Item::Results { .. } => self.open = Open::default(),
            Item::Person { .. } => {
                self.open = Open::default();
                self.notes.clear();
            }
        }
        self.items.push(item);
    }
}

/// Parses a stored row.
pub(super) fn read(stored: &Stored) -> Result<Row, Fault> {
    serde_json::from_str(&stored.body).map_err(|error| {
        Fault::bug(format!("row {} of what was said can't be read: {error}", stored.number))
            .next("A newer haft may have written it; use that one, or begin a new session.")
    })
}

fn id_of(said: &MessagePart) -> Option<&str> {
    if let MessagePart::Call { id, .. } = said { Some(id) } else { None }
}
