//! Rewinding a conversation: removes the person's newest turns, durably, with everything said in them.
//!
//! Rows are append-only, so a rewind is a row of its own; `--resume` reads the same conversation as the
//! process that rewound it. Events that came with a turn but are not about it, such as the end of an earlier
//! job, are repeated.

use kit::Fault;

use super::{RewindMark, Row, Transcript, body, conversation::Turn, row::Message};
use crate::model::{Item, MessagePart, Piece};
use store::{Buffer, Claim, Store};

/// The removed part of a conversation.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct TakenBack {
    /// The person's input at the beginning of the first removed turn.
    pub(crate) said: Vec<Piece>,
    /// The journal ids of the removed calls, oldest first.
    pub(crate) calls: Vec<String>,
}

impl Transcript {
    /// Returns the person's input of each turn that can be removed, oldest first.
    pub(crate) fn turns(&self) -> Vec<Vec<Piece>> {
        self.conversation.turns.iter().map(|it| self.said_at(it)).collect()
    }

    /// Removes the newest turns. Their calls must have their results.
    ///
    /// # Errors
    /// When fewer turns still have their beginning; then nothing is removed.
    pub(crate) fn rewind(&mut self, turns: usize) -> Result<TakenBack, Fault> {
        let there = self.conversation.turns.len();
        let first = there.checked_sub(turns).filter(|_| turns > 0);
        let Some(first) = first.and_then(|first| self.conversation.turns.get(first).copied()) else {
            return Err(too_many(turns, there, self.items().is_empty()));
        };
        let taken = self.items().get(first.at..).unwrap_or_default();
        let calls = taken.iter().flat_map(|it| match it {
            Item::Model { said } => said.as_slice(),
            _ => &[],
        });
        let calls = calls.filter_map(|it| match it {
            MessagePart::Call { id, .. } => self.conversation.journal.get(id).cloned(),
            _ => None,
        });
        let back = TakenBack { said: self.said_at(&first), calls: calls.collect() };
        let notes = self.still_to_tell(there - turns);
        let since = first.begins.message;
        let row = Row::Rewound { turns, notes };
        self.rows += 1;
        self.messages += 1;
        // In one transaction: after a kill, the model and the person have the same conversation.
        self.writing.add_rows(
            vec![
                (Buffer::Context, self.rows, body(&row)),
                (Buffer::Messages, self.messages, body(&RewindMark::Rewound { since })),
            ],
            Claim::None,
        );
        self.conversation.apply(row);
        Ok(back)
    }

    fn said_at(&self, turn: &Turn) -> Vec<Piece> {
        let Some(Item::Person { pieces }) = self.items().get(turn.at) else { return Vec::new() };
        pieces.get(turn.begins.news..).unwrap_or_default().to_vec()
    }

    /// Returns the notes that the model gets again: all that came with the first removed turn, and of the
    /// later ones those that are not about a removed turn.
    fn still_to_tell(&self, first: usize) -> Vec<Piece> {
        let turns = self.conversation.turns.get(first..).unwrap_or_default();
        let mut notes = Vec::new();
        for (at, turn) in turns.iter().enumerate() {
            let Some(Item::Person { pieces }) = self.items().get(turn.at) else { continue };
            let news = pieces.get(..turn.begins.news).unwrap_or_default();
            notes.extend(news.iter().filter(|it| at == 0 || is_lasting(it)).cloned());
        }
        notes.extend(self.conversation.notes.iter().filter(|it| is_lasting(it)).cloned());
        notes
    }
}

/// Returns the person's words at the beginning of the first turn that the first rewind behind this message removed; `None` if
/// there was no rewind since. Blocks.
///
/// # Errors
/// When the conversation can't be read.
pub fn rewound_after(store: &Store, session: &str, message: u64) -> Result<Option<String>, Fault> {
    let rows = store.transcripts().rows(session, Buffer::Messages)?;
    let mark = rows.iter().filter(|it| it.number > message).find_map(|it| {
        let RewindMark::Rewound { since } = serde_json::from_str(&it.body).ok()?;
        Some(since)
    });
    let Some(since) = mark else { return Ok(None) };
    let said = rows.iter().find(|it| it.number == since);
    let said = said.and_then(|it| serde_json::from_str::<Message>(&it.body).ok());
    Ok(Some(match said {
        Some(Message::Person { text, .. }) => text,
        _ => String::new(),
    }))
}

/// Returns whether this is a note on a job, which a rewind does not affect.
fn is_lasting(piece: &Piece) -> bool {
    let is_note =
        matches!(piece, Piece::Text { text } if text == super::JOBS_LOST || text.starts_with("job_"));
    is_note || super::is_of_a_job(piece)
}

fn too_many(turns: usize, there: usize, is_empty: bool) -> Fault {
    if turns == 0 {
        return Fault::bad_args("0 turns are none")
            .next("Give how many turns to take back: 1 is the last one.");
    }
    let what = match there {
        0 if is_empty => "nothing to rewind: nothing was said yet".to_owned(),
        0 => "nothing to rewind: the conversation was compacted since its last turn began".to_owned(),
        1 => format!("{turns} turns can't be taken back: only the last one can"),
        _ => format!("{turns} turns can't be taken back: only the last {there} can"),
    };
    let fault = Fault::not_found(what);
    if there == 0 { fault } else { fault.next("Earlier turns are part of a summary, or there are none.") }
}
