//! Rewinding a conversation: the newest turns of the person are taken out, durably, with all that was said in them.
//!
//! Rows are only ever added, so a rewind is a row of its own; `--resume` reads the same conversation as the process that
//! rewound it. News that came with a turn and isn't about it, such as the end of an earlier job, is told again.

use kit::Fault;

use super::{Mark, Row, Transcript, body, conversation::Turn};
use crate::model::{Item, Piece, Said};
use store::Buffer;

/// What was taken out of a conversation.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct TakenBack {
    /// What the person gave at the beginning of the first of the turns.
    pub(crate) said: Vec<Piece>,
    /// The journal's ids of the calls that were made, oldest first.
    pub(crate) calls: Vec<String>,
}

impl Transcript {
    /// What the person said at the beginning of each turn that can be taken out, oldest first.
    pub(crate) fn turns(&self) -> Vec<Vec<Piece>> {
        self.conversation.turns.iter().map(|it| self.said_at(it)).collect()
    }

    /// Takes the newest turns out. Its calls must have their results.
    ///
    /// # Errors
    /// When there are not so many whose beginning is still there; then nothing is taken out.
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
            Said::Call { id, .. } => self.conversation.journal.get(id).cloned(),
            _ => None,
        });
        let back = TakenBack { said: self.said_at(&first), calls: calls.collect() };
        let notes = self.still_to_tell(there - turns);
        let since = first.begins.message;
        self.put(Row::Rewound { turns, notes });
        self.messages += 1;
        self.writing.add(Buffer::Messages, self.messages, body(&Mark::Rewound { since }));
        Ok(back)
    }

    fn said_at(&self, turn: &Turn) -> Vec<Piece> {
        let Some(Item::Person { pieces }) = self.items().get(turn.at) else { return Vec::new() };
        pieces.get(turn.begins.news..).unwrap_or_default().to_vec()
    }

    /// What the model was told beside these turns, and is to be told again: before the first of them all of it, later on
    /// what is not about a turn that is taken out.
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

/// Is this news of a job, which goes on whatever was taken back of the talk?
fn is_lasting(piece: &Piece) -> bool {
    matches!(piece, Piece::Text { text } if text == super::JOBS_LOST || text.starts_with("job_"))
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
