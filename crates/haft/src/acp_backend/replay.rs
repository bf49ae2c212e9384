//! Replay of a loaded session: sends its rows again, after the messages from before its log.
//!
//! Messages from before the log (of a fork, or of an older version) come from the transcript, without thoughts. Turns that the
//! person took back are left out of both.

use std::{collections::BTreeSet, sync::Arc};

use agent::{Entry, Event as Done, HistoryItem, Message, ToolCall, history, lines, model::Piece};
use kit::Fault;
use serve::acp::v1::{SessionInfoUpdate, SessionUpdate};
use sessions::{Event, Row};

use super::{
    session::{AcpSession, blocking},
    tool_calls,
    updates::Updates,
};

/// Sends the updates of the session's conversation, in order.
pub(super) async fn send(
    session: &Arc<AcpSession>,
    updates: &mut Updates,
    rows: &[Row],
) -> Result<(), Fault> {
    let (runtime, id) = (session.runtime().clone(), session.id.clone());
    let turns = Turns::of(rows);
    // Later messages are in rows that follow.
    let first = turns.first();
    let (said, told, changes, title) = blocking(move || {
        let said = lines(&runtime, &id.0)?;
        let told = if first == Some(0) { Vec::new() } else { history(&runtime, &id.0)? };
        let changes = tool_calls::changes_of(&runtime, &id)?;
        let title = agent::conversation(&runtime, &id.0).map(|it| it.title).unwrap_or_default();
        Ok((said, told, changes, title))
    })
    .await?;
    updates.changes = changes;
    for (number, item) in told.into_iter().enumerate() {
        if first.is_none_or(|it| item.line <= it) {
            before(session, updates, number, item).await;
        }
    }
    let is_person = |message: &Message| matches!(message, Message::Person { .. });
    let standing = said.iter().filter(|it| is_person(&it.message)).map(|it| it.number).collect();
    let mut stands = true;
    for row in rows {
        if let Event::TurnBegan { .. } = row.event {
            stands = turns.stands(row.seq, &standing, stands);
        }
        if stands || row.event.of_agent().is_none() && !matches!(row.event, Event::TurnBegan { .. }) {
            updates.row(row).await;
        } else {
            updates.pass(row);
        }
    }
    updates.usage().await;
    if !title.is_empty() {
        updates.send(SessionUpdate::SessionInfoUpdate(SessionInfoUpdate::new().title(title))).await;
    }
    Ok(())
}

/// Sends an entry from before the log.
async fn before(session: &Arc<AcpSession>, updates: &mut Updates, number: usize, item: HistoryItem) {
    let id = format!("replay-{number}");
    match item.entry {
        Entry::Person { text, attached } => updates.person_says(&id, &text, &attached).await,
        Entry::Model { text } => updates.model_says(&id, &text).await,
        Entry::Call(ToolCall { call: journal, tool, arguments, ok, result, pieces, .. }) => {
            let call = journal.clone().unwrap_or(id);
            updates.called("", &call, &tool, &arguments).await;
            let diffs = match &journal {
                // In a forked conversation, the calls belong to another session.
                Some(journal) if !updates.changes.contains_key(journal) && could_change(session, &tool) => {
                    tool_calls::diffs(session.runtime(), journal).await
                }
                _ => Vec::new(),
            };
            if !diffs.is_empty() {
                updates.changes.insert(call.clone(), diffs);
            }
            let lost = || "nobody knows what came of it: the process died".to_owned();
            let answered = Done::Answered {
                call,
                tool,
                ok: ok.unwrap_or(false),
                fault: None,
                exit: None,
                ms: 0.0,
                text: result.unwrap_or_else(lost),
                pictures: pictures(&pieces),
                changes: Vec::new(),
                links: Vec::new(),
            };
            updates.answered("", &answered).await;
        }
    }
}

fn could_change(session: &AcpSession, tool: &str) -> bool {
    session.view().catalog().get(tool).is_none_or(|it| !it.spec().at_most.is_read_only())
}

fn pictures(pieces: &[Piece]) -> Vec<agent::Shown> {
    let shown = |piece: &Piece| match piece {
        Piece::Image { mime, handle, .. } => {
            Some(agent::Shown { handle: handle.clone(), mime: mime.clone(), bytes: 0 })
        }
        Piece::Text { .. } => None,
    };
    pieces.iter().filter_map(shown).collect()
}

/// The turns of a log.
struct Turns(Vec<Turn>);

/// A turn of a log, by the row that began it.
struct Turn {
    row: u64,
    /// How many messages the transcript had before it.
    messages: u64,
    /// The first number that its messages don't have.
    until: u64,
    /// A person said something, which the model was sent.
    is_person: bool,
}

impl Turns {
    fn of(rows: &[Row]) -> Self {
        let mut turns: Vec<Turn> = Vec::new();
        for row in rows {
            match &row.event {
                Event::TurnBegan { text, attached, messages, .. } => {
                    if let Some(last) = turns.last_mut() {
                        last.until = messages + 1;
                    }
                    let is_person = !(text.is_empty() && attached.is_empty());
                    let (row, messages) = (row.seq, *messages);
                    turns.push(Turn { row, messages, until: u64::MAX, is_person });
                }
                // The output of a slash command: the model was sent nothing.
                Event::Told { .. } => {
                    if let Some(last) = turns.last_mut()
                        && !has_asked(rows, last.row, row.seq)
                    {
                        last.is_person = false;
                    }
                }
                _ => {}
            }
        }
        Self(turns)
    }

    /// Returns how many messages there were before the log; `None` if the log has no turn.
    fn first(&self) -> Option<u64> {
        self.0.first().map(|it| it.messages)
    }

    /// Returns whether the turn that this row began was not taken back. One that no person began stands with the one before.
    fn stands(&self, row: u64, standing: &BTreeSet<u64>, before: bool) -> bool {
        let Some(turn) = self.0.iter().find(|it| it.row == row).filter(|it| it.is_person) else {
            return before;
        };
        standing.iter().any(|it| (turn.messages + 1..turn.until).contains(it))
    }
}

/// Returns whether the session's own agent was asked between these rows.
fn has_asked(rows: &[Row], from: u64, until: u64) -> bool {
    rows.iter()
        .skip_while(|it| it.seq <= from)
        .take_while(|it| it.seq < until)
        .any(|it| matches!(it.event.of_agent(), Some((path, Done::Asked { .. })) if path.is_empty()))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use serde_json::{Value, json};

    use super::*;

    fn rows(events: &[Value]) -> Vec<Row> {
        let row = |(seq, event): (u64, &Value)| Row {
            seq,
            first: seq,
            at_ms: 0,
            event: serde_json::from_value(event.clone()).unwrap(),
        };
        (1..).zip(events).map(row).collect()
    }

    fn began(text: &str, messages: u64) -> Value {
        json!({"event": "turn_began", "by": "x", "text": text, "messages": messages})
    }

    #[test]
    fn turns_that_were_taken_back_do_not_stand_and_commands_and_jobs_stand_with_the_one_before() {
        let rows = rows(&[
            began("first", 0),
            json!({"event": "asked", "step": 1}),
            began("/context", 2),
            json!({"event": "told", "text": "much"}),
            began("taken back", 2),
            json!({"event": "asked", "step": 2}),
            began("", 4),
            json!({"event": "asked", "step": 3}),
            began("second", 6),
        ]);
        let (turns, standing) = (Turns::of(&rows), BTreeSet::from([1, 7]));
        let mut before = true;
        let stands: Vec<bool> = [1, 3, 5, 7, 9]
            .iter()
            .map(|it| {
                before = turns.stands(*it, &standing, before);
                before
            })
            .collect();
        assert_eq!(stands, [true, true, false, false, true]);
        assert_eq!(turns.first(), Some(0));
    }
}
