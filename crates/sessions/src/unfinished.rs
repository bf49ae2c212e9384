//! Unfinished work of a process that died: what it left in the log of its session and nowhere else.
//!
//! The text of an answer is in the transcript once it is complete, and the output of a command that a person ran is with the
//! model once they send a message. A process that is killed before that leaves both in the log alone; the next owner keeps them.

use std::collections::VecDeque;

use agent::{Line, Message, model::Piece};
use kit::Fault;
use runtime::Runtime;
use store::journal::Filter;

use crate::{
    command_outputs::{attach_command, attached_line},
    event::{Event, Row},
    log::page,
};

/// Number of lines of a killed command that the model gets.
const LINES: usize = 100;

/// Time by which a row of the log may be younger than what happened, in milliseconds: it is dated when it is committed.
const SLACK_MS: u64 = 1000;

/// The text of an answer that the process did not complete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CutOff {
    /// How many messages the transcript had before the turn.
    messages: u64,
    /// When the answer began, or its last call, in milliseconds since 1970.
    since_ms: u64,
    /// When the text began.
    at_ms: u64,
    pieces: Vec<(u64, String)>,
}

/// A command that a person ran, whose output no message has taken along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    command: String,
    /// Its call in the journal, once it began.
    call: Option<String>,
    /// Its output, once it ended.
    output: Option<String>,
    /// The lines of its output that were seen while it ran.
    lines: VecDeque<String>,
}

/// The answer and the commands that rows of a log leave open, when nothing follows them.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    answer: Option<CutOff>,
    commands: Vec<Ran>,
}

impl Unfinished {
    /// Returns whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.answer.is_none() && self.commands.is_empty()
    }

    /// Takes the next row.
    pub(crate) fn add(&mut self, row: &Row) {
        match &row.event {
            Event::TurnBegan { messages, attached, .. } => {
                self.commands.retain(|it| !attached.contains(&attached_line(&it.command)));
                let since_ms = row.at_ms;
                self.answer = Some(CutOff { messages: *messages, since_ms, ..CutOff::default() });
            }
            Event::TurnEnded(_) => self.answer = None,
            Event::Command { command, .. } => {
                let command = command.clone();
                self.commands.push(Ran { command, call: None, output: None, lines: VecDeque::new() });
            }
            event => {
                if let Some((path, done)) = event.of_agent()
                    && path.is_empty()
                {
                    self.take(row, done);
                }
            }
        }
    }

    /// Takes an event of the root agent.
    fn take(&mut self, row: &Row, done: &agent::Event) {
        if let Some(answer) = &mut self.answer {
            answer.take(row, done);
        }
        match done {
            agent::Event::Called { call, .. } if self.answer.is_none() => {
                if let Some(ran) = self.commands.last_mut().filter(|it| it.call.is_none()) {
                    ran.call = Some(call.clone());
                }
            }
            agent::Event::Progress { call, line } => {
                if let Some(ran) = self.ran(call) {
                    ran.lines.push_back(line.clone());
                    ran.lines.drain(..ran.lines.len().saturating_sub(LINES));
                }
            }
            agent::Event::Answered { call, text, .. } => {
                if let Some(ran) = self.ran(call) {
                    ran.output = Some(text.clone());
                }
            }
            _ => {}
        }
    }

    fn ran(&mut self, call: &str) -> Option<&mut Ran> {
        self.commands.iter_mut().find(|it| it.call.as_deref() == Some(call))
    }

    /// Returns the text of the answer, unless these lines of the transcript have it.
    pub(crate) fn untold(&self, lines: &[Line]) -> Option<(String, u64)> {
        let answer = self.answer.as_ref()?;
        let text: String = answer.pieces.iter().map(|it| it.1.as_str()).collect();
        let said = text.trim();
        let is_it = |line: &Line| match &line.message {
            Message::Model { text, .. } => {
                line.number > answer.messages
                    && line.at_ms + SLACK_MS >= answer.since_ms
                    && text.trim().starts_with(said)
            }
            _ => false,
        };
        (!said.is_empty() && !lines.iter().any(is_it)).then_some((text, answer.at_ms))
    }

    /// Returns the newest commands that ran, each with the pieces for the model. Blocks.
    ///
    /// # Errors
    /// When the journal can't be read.
    pub(crate) fn outputs(self, store: &store::Store) -> Result<Vec<Vec<Piece>>, Fault> {
        let mut outputs = Vec::new();
        for ran in &self.commands {
            let Some(call) = &ran.call else { continue };
            if let Some(text) = ran.text(call, store)? {
                attach_command(&mut outputs, &ran.command, vec![Piece::text(text)]);
            }
        }
        Ok(outputs.into_iter().map(|it| it.1).collect())
    }
}

impl CutOff {
    fn take(&mut self, row: &Row, done: &agent::Event) {
        match done {
            agent::Event::Text { text } => {
                if self.pieces.is_empty() {
                    self.at_ms = row.at_ms;
                }
                // A row that takes the place of others says all that they said.
                self.pieces.retain(|it| it.0 < row.first);
                self.pieces.push((row.seq, text.clone()));
            }
            // Earlier text is in the transcript, or was discarded.
            agent::Event::Asked { .. }
            | agent::Event::Called { .. }
            | agent::Event::Again { .. }
            | agent::Event::Used { .. } => {
                self.since_ms = row.at_ms;
                self.pieces.clear();
            }
            _ => {}
        }
    }
}

impl Ran {
    /// Returns what the model is given of the output. `None` for a command that never ran.
    fn text(&self, call: &str, store: &store::Store) -> Result<Option<String>, Fault> {
        if let Some(output) = &self.output {
            return Ok(Some(if output.trim().is_empty() {
                "(no output)".to_owned()
            } else {
                output.clone()
            }));
        }
        let filter = Filter { call: Some(call.to_owned()), limit: 1, ..Filter::default() };
        let Some(record) = store.journal().log(filter)?.pop() else { return Ok(None) };
        let how = match record.outcome.as_deref() {
            None | Some("interrupted") => {
                "(haft's process ended while this command ran, and the command with it; what it had done until then stays)"
                    .to_owned()
            }
            Some("ok") => "(the command ran to its end, but haft's process ended before its output was kept)".to_owned(),
            Some(_) => return Ok(record.said),
        };
        let lines: Vec<&str> = self.lines.iter().map(String::as_str).collect();
        Ok(Some(match lines.as_slice() {
            [] => how,
            _ => format!(
                "{how}\nLines of its output that were recorded; others may be missing:\n{}",
                lines.join("\n")
            ),
        }))
    }
}

/// Returns the lines of a session as the person sees them, as [`agent::lines`] does; where a process died in the middle of an
/// answer and no other has gone on since, also the text that it left. Blocks.
///
/// # Errors
/// When they can't be read.
pub fn lines(runtime: &Runtime, session: &str) -> Result<Vec<Line>, Fault> {
    let store = runtime.store();
    // In this order: what a process goes on with meanwhile is then in the lines.
    let is_run = store.transcripts().holder(session)?.is_some();
    let unfinished = if is_run { None } else { last_turn(store, session)? };
    let mut lines = agent::lines(runtime, session)?;
    if let Some((text, at_ms)) = unfinished.and_then(|it| it.untold(&lines)) {
        let number = lines.last().map_or(0, |it| it.number) + 1;
        lines.push(Line { number, at_ms, turn: None, message: Message::Model { text, cut_off: true } });
    }
    Ok(lines)
}

/// Reads the last turn of a session, if it has no end.
fn last_turn(store: &store::Store, session: &str) -> Result<Option<Unfinished>, Fault> {
    let events = store.events();
    let Some(began) = events.newest(session, "turn_began")? else { return Ok(None) };
    if events.newest(session, "turn_ended")?.is_some_and(|it| it > began) {
        return Ok(None);
    }
    let (mut unfinished, mut after) = (Unfinished::default(), began - 1);
    loop {
        let stored = page(&events, session, after)?;
        let Some(last) = stored.last() else { return Ok(Some(unfinished)) };
        after = last.seq;
        for row in &stored {
            unfinished.add(&Row::read(row)?);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use serde_json::{Value, json};

    use super::*;

    fn of(events: &[Value]) -> Unfinished {
        let mut unfinished = Unfinished::default();
        for (seq, event) in (1..).zip(events) {
            let event = serde_json::from_value(event.clone()).unwrap();
            unfinished.add(&Row { seq, first: seq, at_ms: seq * 10_000, event });
        }
        unfinished
    }

    fn began() -> Value {
        json!({"event": "turn_began", "by": "x", "text": "go", "messages": 1})
    }

    fn text(text: &str) -> Value {
        json!({"event": "text", "text": text})
    }

    fn line(number: u64, at_ms: u64, text: &str) -> Line {
        let message = Message::Model { text: text.to_owned(), cut_off: false };
        Line { number, at_ms, turn: None, message }
    }

    #[test]
    fn text_since_the_last_call_is_untold_until_a_line_has_it() {
        let asked = json!({"event": "asked", "step": 1});
        let called = json!({"event": "called", "call": "c_1", "tool": "read", "arguments": {}});
        let unfinished = of(&[began(), asked.clone(), text("First."), called, text("And th"), text("en")]);
        assert_eq!(unfinished.untold(&[line(2, 45_000, "First.")]), Some(("And then".to_owned(), 50_000)));
        // A line of an earlier step that begins alike is another one.
        let earlier = [line(2, 35_000, "And then more")];
        assert_eq!(unfinished.untold(&earlier).map(|it| it.0).as_deref(), Some("And then"));
        assert_eq!(unfinished.untold(&[line(3, 39_500, "And then more")]), None);
        let again = json!({"event": "again", "why": "x", "seconds": 1.0});
        assert_eq!(of(&[began(), asked.clone(), text("gone"), again]).untold(&[]), None);
        let ended = json!({"event": "turn_ended", "ended": "done"});
        assert_eq!(of(&[began(), asked, text("whole"), ended]).untold(&[]), None);
    }

    #[test]
    fn commands_wait_until_a_message_takes_their_output_along() {
        let command = |what: &str| json!({"event": "command", "by": "x", "command": what});
        let called = |call: &str| json!({"event": "called", "call": call, "tool": "shell", "arguments": {}});
        let answered = |call: &str| json!({"event": "answered", "call": call, "tool": "shell", "ok": true, "ms": 1.0, "text": "out"});
        let taken = json!({"event": "turn_began", "by": "x", "text": "go", "messages": 1, "attached": ["command one"]});
        let ended = json!({"event": "turn_ended", "ended": "done"});
        let progress = json!({"event": "progress", "call": "c_3", "line": "half"});
        let unfinished = of(&[
            command("one"),
            called("c_1"),
            answered("c_1"),
            command("two"),
            called("c_2"),
            answered("c_2"),
            taken,
            called("c_model"),
            ended,
            command("three"),
            called("c_3"),
            progress,
        ]);
        let found: Vec<_> = unfinished
            .commands
            .iter()
            .map(|it| (it.command.as_str(), it.output.as_deref(), it.lines.len()))
            .collect();
        assert_eq!(found, [("two", Some("out"), 0), ("three", None, 1)]);
    }
}
