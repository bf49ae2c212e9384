//! What is the model sent, as the rows have it?

use std::collections::HashSet;

use kit::Fault;
use runtime::store::Row as Stored;

use super::{mend::Open, row::Row};
use crate::model::{Item, Piece, Said};

/// A conversation. It follows from its rows, each of which changes it in the same way whenever it is read.
#[derive(Default)]
pub(super) struct Conversation {
    pub(super) items: Vec<Item>,
    /// How many answers of a model there were.
    pub(super) steps: usize,
    /// The ids of all calls there ever were: none is used twice.
    pub(super) ids: HashSet<String>,
    /// What the model is told when the person speaks next.
    pub(super) notes: Vec<Piece>,
    pub(super) open: Open,
}

impl Conversation {
    /// That of these rows.
    pub(super) fn read(rows: Vec<Stored>) -> Result<Self, Fault> {
        let mut conversation = Self::default();
        for stored in rows {
            let row = serde_json::from_str(&stored.body).map_err(|error| {
                Fault::bug(format!("row {} of what was said can't be read: {error}", stored.number))
                    .next("A newer haft may have written it; use that one, or begin a new session.")
            })?;
            conversation.apply(row);
        }
        Ok(conversation)
    }

    pub(super) fn apply(&mut self, row: Row) {
        match row {
            Row::Item { item } => self.take(item),
            Row::Began { before, place, call, journal } => {
                self.ids.extend(id_of(&call).map(str::to_owned));
                self.open.begin(before, place, call, journal);
            }
            Row::Ended { result } => self.open.end(result),
            Row::Note { text } => self.notes.push(Piece::text(text)),
            Row::Shown { pieces } => self.notes.extend(pieces),
            Row::Instead { from, count, items } => {
                let from = from.min(self.items.len());
                let until = from.saturating_add(count).min(self.items.len());
                self.items.splice(from..until, items);
            }
        }
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

fn id_of(said: &Said) -> Option<&str> {
    if let Said::Call { id, .. } = said { Some(id) } else { None }
}
