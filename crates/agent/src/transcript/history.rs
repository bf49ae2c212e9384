//! The whole of a conversation, for whoever shows it again: also what was summed up since, and what each call answered.

use std::collections::HashMap;

use kit::Fault;
use store::{Buffer, Transcripts};

use super::row::{Message, Row};
use crate::model::{Item, Piece, ResultOf, Said};

/// One entry of a conversation: a message, or a call with its result.
#[derive(Debug, Clone, PartialEq)]
pub enum HistoryItem {
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
    Call {
        /// The call's id in the journal; none where no row has it.
        journal: Option<String>,
        /// The tool.
        tool: String,
        /// The arguments as they were written.
        arguments: String,
        /// The result; none where the process died before.
        result: Option<ResultOf>,
    },
}

/// Returns the messages and calls of a session, in order, without the turns that the person took back. Blocks.
///
/// # Errors
/// When it can't be read.
pub fn history(transcripts: &Transcripts, session: &str) -> Result<Vec<HistoryItem>, Fault> {
    let messages = transcripts.rows(session, Buffer::Messages)?;
    let messages: HashMap<u64, String> = messages.into_iter().map(|it| (it.number, it.body)).collect();
    let mut history = History { messages, ..History::default() };
    for stored in transcripts.rows(session, Buffer::Context)? {
        let row = serde_json::from_str(&stored.body).map_err(|error| {
            Fault::bug(format!("row {} of what was said can't be read: {error}", stored.number))
                .next("A newer haft may have written it; use that one, or begin a new session.")
        })?;
        history.take(row);
    }
    Ok(history.told)
}

#[derive(Default)]
struct History {
    messages: HashMap<u64, String>,
    told: Vec<HistoryItem>,
    /// Where each turn of the person begins.
    turns: Vec<usize>,
    /// The ids in the journal, by the model's own.
    journal: HashMap<String, String>,
    /// Results that came before the answer was complete.
    early: HashMap<String, ResultOf>,
    /// Where the calls stand, by the model's ids.
    calls: HashMap<String, usize>,
}

impl History {
    fn take(&mut self, row: Row) {
        match row {
            Row::Item { item: Item::Person { pieces }, turn: Some(begins) } => {
                self.turns.push(self.told.len());
                let message = self.messages.get(&begins.message).and_then(|it| serde_json::from_str(it).ok());
                let (text, attached) = match message {
                    Some(Message::Person { text, attached }) => (text, attached),
                    // Its words stand last.
                    _ => (pieces.last().map(Piece::line).unwrap_or_default(), Vec::new()),
                };
                self.told.push(HistoryItem::Person { text, attached });
            }
            Row::Item { item: Item::Model { said }, .. } => said.into_iter().for_each(|it| self.said(it)),
            Row::Item { item: Item::Results { results }, .. } => {
                results.into_iter().for_each(|it| self.result(it));
                self.early.clear();
            }
            Row::Began { call: Said::Call { id, .. }, journal, .. } => {
                self.journal.insert(id, journal);
            }
            Row::Ended { result } => self.result(result),
            Row::Rewound { turns, .. } => {
                if let Some(first) = self.turns.len().checked_sub(turns)
                    && let Some(at) = self.turns.get(first).copied()
                {
                    self.told.truncate(at);
                    self.turns.truncate(first);
                    self.calls.retain(|_, place| *place < at);
                }
            }
            // A summary replaces messages in the model's context, not in the history.
            Row::Instead { .. }
            | Row::Began { .. }
            | Row::Item { .. }
            | Row::Note { .. }
            | Row::Shown { .. } => {}
        }
    }

    fn said(&mut self, said: Said) {
        match said {
            Said::Text { text } if !text.is_empty() => self.told.push(HistoryItem::Model { text }),
            Said::Text { .. } | Said::Opaque { .. } => {}
            Said::Call { id, tool, arguments } => {
                let journal = self.journal.get(&id).cloned();
                let result = self.early.remove(&id);
                self.calls.insert(id, self.told.len());
                self.told.push(HistoryItem::Call { journal, tool, arguments, result });
            }
        }
    }

    fn result(&mut self, of: ResultOf) {
        match self.calls.get(&of.id).and_then(|at| self.told.get_mut(*at)) {
            Some(HistoryItem::Call { result, .. }) => *result = Some(of),
            _ => drop(self.early.insert(of.id.clone(), of)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::row::Begins;

    fn call(id: &str) -> Said {
        Said::Call { id: id.to_owned(), tool: "read".to_owned(), arguments: "{}".to_owned() }
    }

    fn result(id: &str) -> ResultOf {
        ResultOf {
            id: id.to_owned(),
            tool: "read".to_owned(),
            ok: true,
            pieces: vec![Piece::text("1:aa|one")],
        }
    }

    fn person(text: &str) -> Row {
        let item = Item::person(text);
        Row::Item { item, turn: Some(Begins { news: 0, message: 99 }) }
    }

    #[test]
    fn summed_up_words_and_results_of_calls_are_there_and_what_was_taken_back_is_not() {
        let mut history = History::default();
        let began = Row::Began { before: Vec::new(), place: 0, call: call("m1"), journal: "c_1".to_owned() };
        let said = vec![Said::Text { text: "I look.".to_owned() }, call("m1")];
        for row in [
            person("look"),
            began,
            Row::Ended { result: result("m1") },
            Row::Item { item: Item::Model { said }, turn: None },
            Row::Item { item: Item::Results { results: vec![result("m1")] }, turn: None },
            Row::Instead { from: 0, count: 3, items: vec![Item::person("summary")] },
            person("and now"),
            Row::Item { item: Item::Model { said: vec![call("m2")] }, turn: None },
            Row::Rewound { turns: 1, notes: Vec::new() },
        ] {
            history.take(row);
        }
        let expected = vec![
            HistoryItem::Person { text: "look".to_owned(), attached: Vec::new() },
            HistoryItem::Model { text: "I look.".to_owned() },
            HistoryItem::Call {
                journal: Some("c_1".to_owned()),
                tool: "read".to_owned(),
                arguments: "{}".to_owned(),
                result: Some(result("m1")),
            },
        ];
        assert_eq!(history.told, expected);
    }
}
