//! What becomes of an answer in whose middle the process died?

use std::collections::HashMap;

use kit::Fault;
use runtime::{Session, journal::Filter, store::Row as Stored};

use super::{Transcript, row::Row};
use crate::model::{Item, Piece, ResultOf, Said};

/// An answer that was being given, or whose calls were running.
#[derive(Default)]
struct Open {
    said: Vec<Said>,
    /// The ids of its calls in the journal.
    journal: HashMap<String, String>,
    results: HashMap<String, ResultOf>,
    /// The answer itself was complete.
    complete: bool,
}

/// Takes up these rows, and closes what they leave open.
pub(super) fn replay(transcript: &mut Transcript, session: &Session, rows: Vec<Stored>) -> Result<(), Fault> {
    let mut open = Open::default();
    for stored in rows {
        let row: Row = serde_json::from_str(&stored.body).map_err(|error| {
            Fault::bug(format!("row {} of session {} can't be read: {error}", stored.number, session.name()))
                .next("A newer haft may have written it; use that one, or begin a new session.")
        })?;
        match row {
            Row::Began { before, call, journal } => {
                if let Said::Call { id, .. } = &call {
                    open.journal.insert(id.clone(), journal);
                }
                open.said = before;
                open.said.push(call);
            }
            Row::Ended { result } => drop(open.results.insert(result.id.clone(), result)),
            Row::Item { item: Item::Model { said } } => {
                open.said.clone_from(&said);
                open.complete = true;
                transcript.take(Item::Model { said });
            }
            Row::Item { item } => {
                open = Open::default();
                transcript.take(item);
            }
        }
    }
    open.close(transcript, session)
}

impl Open {
    fn close(self, transcript: &mut Transcript, session: &Session) -> Result<(), Fault> {
        let calls: Vec<(&String, &String)> = self
            .said
            .iter()
            .filter_map(|it| if let Said::Call { id, tool, .. } = it { Some((id, tool)) } else { None })
            .collect();
        if calls.is_empty() {
            return Ok(());
        }
        let mut results = Vec::new();
        for (id, tool) in calls {
            results.push(match self.results.get(id) {
                Some(result) => result.clone(),
                None => ResultOf {
                    id: id.clone(),
                    tool: tool.clone(),
                    ok: false,
                    pieces: vec![Piece::text(what_is_known(session, self.journal.get(id))?)],
                },
            });
        }
        if !self.complete {
            transcript.add(Item::Model { said: self.said });
        }
        transcript.add(Item::Results { results });
        Ok(())
    }
}

/// What the model is told of a call whose result is lost.
fn what_is_known(session: &Session, call: Option<&String>) -> Result<String, Fault> {
    let not_begun =
        "haft ended before this call began: nothing was done. Call again if it is still wanted.".to_owned();
    let Some(call) = call else { return Ok(not_begun) };
    let filter = Filter { call: Some(call.clone()), ..Filter::default() };
    let Some(record) = session.runtime().store().journal().log(filter)?.pop() else { return Ok(not_begun) };
    let touched = || {
        let touches: Vec<String> = record.touches.iter().map(|it| format!("{it:?}")).collect();
        if touches.is_empty() { String::new() } else { format!(" It had declared: {}.", touches.join(", ")) }
    };
    Ok(match record.outcome.as_deref() {
        Some("ok") => format!(
            "haft ended before the result of this call was kept; the call itself was done.{} Look before you repeat it.",
            touched()
        ),
        None | Some("interrupted") => format!(
            "haft ended in the middle of this call: it may have happened, or a part of it.{} Look before you repeat it.",
            touched()
        ),
        Some(kind) => format!("this call failed ({kind}): {}", record.said.unwrap_or_default()),
    })
}
