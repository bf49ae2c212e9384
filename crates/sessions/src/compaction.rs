//! Compaction of a session's log: the pieces of a text become one row once the step that they belong to is over.

use agent::Event as Done;
use serde_json::json;
use store::Write;

use crate::{
    event::Event,
    streams::{Kind, text_of, under},
};

/// The rows of one kind that stand together.
struct Run {
    path: String,
    kind: Kind,
    pieces: Vec<u64>,
    text: String,
    newest: Option<Done>,
    is_over: bool,
}

/// The pieces of steps that are not over.
#[derive(Default)]
pub(crate) struct Compaction {
    runs: Vec<Run>,
}

impl Compaction {
    /// Takes a row into account. What can be compacted by now goes to `writes`.
    pub(crate) fn see(&mut self, seq: u64, event: &Event, writes: &mut Vec<Write>) {
        let Some((path, done)) = event.of_agent() else {
            // It stands among what the session's own agent says.
            self.end_texts("");
            if matches!(event, Event::TurnEnded(_) | Event::Closed { .. }) {
                self.write(writes, |_| true);
            }
            return;
        };
        if let Some(kind) = Kind::of(done) {
            return self.piece(path, kind, seq, done);
        }
        self.end_texts(&path);
        match done {
            Done::Used { .. } | Done::Again { .. } => {
                self.write(writes, |it| it.path == path && !matches!(it.kind, Kind::Progress(_)));
            }
            Done::Answered { call, .. } => {
                let progress = Kind::Progress(call.clone());
                self.write(writes, |it| it.path == path && it.kind == progress);
            }
            _ => {}
        }
    }

    /// Forgets all: the rows stay as they are.
    pub(crate) fn forget(&mut self) {
        self.runs.clear();
    }

    fn end_texts(&mut self, path: &str) {
        self.runs
            .iter_mut()
            .filter(|it| it.path == path && it.kind.is_text())
            .for_each(|it| it.is_over = true);
    }

    fn piece(&mut self, path: String, kind: Kind, seq: u64, done: &Done) {
        // A thought between two parts of a text stands between them.
        let ends = |it: &&mut Run| it.path == path && kind.is_text() && it.kind.is_text() && it.kind != kind;
        self.runs.iter_mut().filter(ends).for_each(|it| it.is_over = true);
        let same = |it: &Run| it.path == path && it.kind == kind && !it.is_over;
        let at = self.runs.iter().position(same).unwrap_or_else(|| {
            let (pieces, text) = (Vec::new(), String::new());
            self.runs.push(Run { path, kind, pieces, text, newest: None, is_over: false });
            self.runs.len() - 1
        });
        let Some(run) = self.runs.get_mut(at) else { return };
        run.pieces.push(seq);
        match text_of(done) {
            Some(text) => run.text.push_str(text),
            None => run.newest = Some(done.clone()),
        }
    }

    fn write(&mut self, writes: &mut Vec<Write>, which: impl Fn(&Run) -> bool) {
        for run in self.runs.extract_if(.., |it| which(it)) {
            // One piece is compact already.
            if run.pieces.len() < 2 {
                continue;
            }
            let done = match (run.kind, run.newest) {
                (Kind::Text, _) => Done::Text { text: run.text },
                (Kind::Reasoning, _) => Done::Reasoning { text: run.text },
                (_, Some(newest)) => newest,
                (_, None) => continue,
            };
            writes.push(Write::Compact { pieces: run.pieces, body: json!(under(&run.path, done)) });
        }
    }
}

/// The compaction of a log that was read: what a process that died left in pieces.
pub(crate) fn of_rows<'a>(rows: impl Iterator<Item = &'a crate::event::Row>) -> (Compaction, Vec<Write>) {
    let (mut compaction, mut writes) = (Compaction::default(), Vec::new());
    for row in rows {
        match (row.from(), row.event.of_agent()) {
            (None, _) | (_, None) => compaction.see(row.seq, &row.event, &mut writes),
            // It is compact already, and stands between what is not.
            (Some(_), Some((path, done))) if Kind::of(done).is_some_and(|it| it.is_text()) => {
                compaction.end_texts(&path);
            }
            (Some(_), Some(_)) => {}
        }
    }
    (compaction, writes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_are_written_by_turns_become_one_row_each() {
        let writing = |index: usize, call: &str, bytes| {
            Event::Agent(Done::Writing { index, call: call.to_owned(), tool: "write".to_owned(), bytes })
        };
        let used = Event::Agent(Done::Used { usage: agent::model::Usage::default(), cost: None });
        let rows =
            [writing(0, "c_1", 1), writing(1, "c_2", 2), writing(0, "c_1", 3), writing(1, "c_2", 4), used];
        let (mut compaction, mut writes) = (Compaction::default(), Vec::new());
        for (seq, event) in (1..).zip(&rows) {
            compaction.see(seq, event, &mut writes);
        }
        let made: Vec<_> = writes
            .iter()
            .filter_map(|it| match it {
                Write::Compact { pieces, body } => {
                    Some((pieces.clone(), body["call"].clone(), body["bytes"].clone()))
                }
                Write::Add { .. } => None,
            })
            .collect();
        assert_eq!(made, [(vec![1, 3], json!("c_1"), json!(3)), (vec![2, 4], json!("c_2"), json!(4))]);
    }
}
