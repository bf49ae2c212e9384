//! Forking a conversation: where it can be cut, so that both what the model was sent and what the person saw end there.

use kit::{Fault, counted};
use store::{Buffer, Cut, Row as Stored, Store};

use super::{
    conversation::read,
    history::{Turns, standing},
    row::{Message, Row},
};
use crate::model::{Item, MessagePart};

/// A conversation that was forked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    /// The name of the new session.
    pub session: String,
    /// How many of the person's messages it has.
    pub turns: u64,
    /// Whether the newest message was left out, because it is being answered in another process.
    pub left_out: bool,
}

/// Makes a new session of the conversation of `from`, up to the `at`th message of the person with its answer, or all of it.
/// `from` stays as it is, and may be open elsewhere. Blocks.
///
/// # Errors
/// When there is no such message, the conversation can't be cut behind it, or there is a session `to`.
pub fn fork(store: &Store, from: &str, at: Option<u64>, to: Option<&str>) -> Result<Fork, Fault> {
    let transcripts = store.transcripts();
    // Read in this order: what comes in between is in no turn that is over.
    let is_open = transcripts.holder(from)?.is_some();
    let context = transcripts.rows(from, Buffer::Context)?;
    let messages = transcripts.rows(from, Buffer::Messages)?;
    let turns: Vec<u64> = standing(&messages)
        .iter()
        .filter(|it| matches!(it.message, Message::Person { .. }))
        .map(|it| it.number)
        .collect();
    let all = turns.len() as u64;
    let begun = Begun::of(&context)?;
    let is_running = is_open && !begun.is_answered;
    let at = match at {
        None if is_running => all.saturating_sub(1),
        None => all,
        Some(at) if at == 0 || at > all => {
            let what = format!(
                "there is no message {at}: you said {} in `{from}`",
                counted(usize::try_from(all).unwrap_or(usize::MAX), "message")
            );
            return Err(Fault::bad_args(what).next(format!("`haft sessions show {from}` numbers them.")));
        }
        Some(at) if is_running && at == all => {
            return Err(Fault::bad_args(format!("message {at} of `{from}` is still being answered"))
                .next("Fork it at an earlier one, or wait."));
        }
        Some(at) => at,
    };
    if at == 0 {
        return Err(Fault::not_found(format!("nothing in `{from}` was answered yet"))
            .next("Wait until the first message is answered."));
    }
    let cut = match usize::try_from(at).ok().and_then(|it| turns.get(it)) {
        None => Cut {
            context: context.last().map_or(0, |it| it.number),
            messages: messages.last().map_or(0, |it| it.number),
            after: None,
        },
        Some(next) => {
            let row = begun.row_of(*next).ok_or_else(|| {
                Fault::bad_args(format!("`{from}` can't be cut behind message {at}"))
                    .next("An older haft wrote it, or the next message came in the middle of an answer. Choose another message.")
            })?;
            Cut { context: row - 1, messages: next - 1, after: Some(at) }
        }
    };
    let own = || store.call_id().replacen("c_", "s_", 1);
    let session = to.map_or_else(own, str::to_owned);
    store.conversations().fork(from, &session, cut, goes_along)?;
    Ok(Fork { session, turns: at, left_out: is_running && at + 1 == all })
}

/// Whether what a session put away under this key goes along: all but its jobs, which run in its own process.
fn goes_along(key: &str) -> bool {
    !runtime::is_of_a_job(key)
}

/// Where the turns of the person that stand begin among the rows of what the model was sent.
struct Begun {
    turns: Turns,
    /// No answer is being given: the newest turn is over, by an answer or by a note of why it ended without one.
    is_answered: bool,
}

impl Begun {
    fn of(rows: &[Stored]) -> Result<Self, Fault> {
        let (mut turns, mut is_answered) = (Turns::default(), false);
        for stored in rows {
            let row = read(stored)?;
            is_answered = match &row {
                Row::Item { item: Item::Model { said }, .. } => {
                    !said.iter().any(|it| matches!(it, MessagePart::Call { .. }))
                }
                Row::Note { .. } | Row::Rewound { .. } => true,
                Row::Instead { .. } => is_answered,
                Row::Item { .. } | Row::Began { .. } | Row::Ended { .. } | Row::Shown { .. } => false,
            };
            turns.apply(stored.number, row);
        }
        Ok(Self { turns, is_answered })
    }

    fn row_of(&self, message: u64) -> Option<u64> {
        self.turns.begun().find(|it| it.message == message).map(|it| it.row)
    }
}
