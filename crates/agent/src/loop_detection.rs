//! Loop detection: notifies the model and the person of a call that keeps giving the same result.
//!
//! A loop is the same call with the same result, with no call in between that may have changed something. The
//! third time, the model gets one line in place of the result. The journal and the person get every result as
//! it is.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::model::{Item, MessagePart, Piece, ResultOf};

/// Repetition from which on the model gets a line instead of the result.
const LINE: u32 = 3;

/// Repetition from which on the line advises the model to do something else.
const LEAVE: u32 = 5;

/// Tools that are called repeatedly on purpose.
const POLLING: [&str; 9] = [
    "continue_job",
    "interact",
    "jobs",
    "read_job",
    "shell_status",
    "sleep",
    "stop_task",
    "terminal",
    "wait",
];

/// The results of a conversation's calls, as far as the model can still read them.
#[derive(Default)]
pub(crate) struct LoopDetector {
    /// The number of calls so far.
    calls: u64,
    seen: HashMap<blake3::Hash, Seen>,
    /// The notice that the person did not get yet.
    circling: Option<String>,
}

struct Seen {
    result: blake3::Hash,
    /// The number of the first call with this result.
    first: u64,
    times: u32,
}

impl LoopDetector {
    /// Counts the calls of this conversation. `changes` returns whether a tool may change something.
    pub(crate) fn of(items: &[Item], changes: impl Fn(&str) -> bool) -> Self {
        let mut loops = Self::default();
        let mut called: HashMap<&str, &str> = HashMap::new();
        for item in items {
            match item {
                Item::Person { .. } => {}
                Item::Model { said } => called.extend(said.iter().filter_map(|it| match it {
                    MessagePart::Call { id, arguments, .. } => Some((id.as_str(), arguments.as_str())),
                    _ => None,
                })),
                Item::Results { results } => {
                    for result in results {
                        let arguments = called.get(result.id.as_str()).copied().unwrap_or_default();
                        loops.look(result.clone(), arguments, changes(&result.tool));
                    }
                }
            }
        }
        loops.circling = None;
        loops
    }

    /// Forgets the results that the model can no longer read; the count of the calls goes on.
    pub(crate) fn forget(&mut self) {
        self.seen.clear();
    }

    /// Takes the notice for the person, if the last call was part of a loop.
    pub(crate) fn circling(&mut self) -> Option<String> {
        self.circling.take()
    }

    /// Counts the call, and returns its result as the model gets it. `changes` is whether the tool may have
    /// changed something.
    pub(crate) fn look(&mut self, mut result: ResultOf, arguments: &str, changes: bool) -> ResultOf {
        self.calls += 1;
        let key = key(&result.tool, arguments);
        if changes {
            // The effect of the call itself is in its result.
            self.seen.retain(|it, _| *it == key);
        }
        if POLLING.contains(&result.tool.as_str()) || has_picture(&result) {
            return result;
        }
        let text = Piece::lines(&result.pieces);
        let hash = blake3::hash(format!("{}\n{text}", result.ok).as_bytes());
        let this = Seen { result: hash, first: self.calls, times: 0 };
        let seen = self.seen.entry(key).or_insert(this);
        if text.starts_with(UNCHANGED) {
            // In a resumed conversation, the result was already the same.
            seen.times += 1;
            return result;
        }
        if seen.result != hash {
            *seen = Seen { result: hash, first: self.calls, times: 1 };
            return result;
        }
        seen.times += 1;
        if seen.times < LINE {
            return result;
        }
        let how = if result.ok { "the same result" } else { "the same failure" };
        let mut line = format!("{UNCHANGED}{}: {how}, {} times by now.", seen.first, seen.times);
        if seen.times >= LEAVE {
            line.push_str("\nIt will not change by asking again: do something else, or say what is missing.");
        }
        if line.len() < text.len() || seen.times >= LEAVE {
            result.pieces = vec![Piece::text(line)];
            let told = match seen.times {
                LINE => Some("told the model"),
                LEAVE => Some("told the model to do something else"),
                _ => None,
            };
            self.circling = told.map(|told| {
                format!("`{}` gave {how} {} times in a row; haft {told}", result.tool, seen.times)
            });
        }
        result
    }
}

const UNCHANGED: &str = "unchanged since call ";

fn has_picture(result: &ResultOf) -> bool {
    result.pieces.iter().any(|it| matches!(it, Piece::Image { .. }))
}

/// Returns a key of the call that doesn't depend on how its arguments are formatted.
fn key(tool: &str, arguments: &str) -> blake3::Hash {
    let arguments = match serde_json::from_str::<Value>(arguments) {
        Ok(mut value) => {
            value.sort_all_objects();
            value.to_string()
        }
        Err(_) => arguments.to_owned(),
    };
    blake3::hash(format!("{tool}\0{arguments}").as_bytes())
}

/// Returns the names of the tools that may change something.
pub(crate) fn changing<'a>(specs: impl Iterator<Item = &'a kit::Spec>) -> HashSet<String> {
    specs.filter(|it| !it.at_most.is_read_only()).map(|it| it.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests")]

    use super::*;

    const LONG: &str =
        "a text that is longer than any line that could stand for it: it goes on, and on, and on, and on";

    fn result(tool: &str, text: &str) -> ResultOf {
        ResultOf { id: "i".to_owned(), tool: tool.to_owned(), ok: true, pieces: vec![Piece::text(text)] }
    }

    fn look(loops: &mut LoopDetector, tool: &str, arguments: &str, text: &str) -> String {
        Piece::lines(&loops.look(result(tool, text), arguments, tool == "write").pieces)
    }

    #[test]
    fn third_repetition_is_a_line_and_the_fifth_advises_to_stop() {
        let mut loops = LoopDetector::default();
        let arguments = [r#"{"path":"a","skip":1}"#, r#"{ "skip": 1, "path": "a" }"#];
        let read: Vec<String> = (0..5).map(|at| look(&mut loops, "read", arguments[at % 2], LONG)).collect();
        assert_eq!(read[..2], [LONG, LONG]);
        assert_eq!(read[2], "unchanged since call 1: the same result, 3 times by now.");
        assert!(!read[3].contains("something else") && read[4].contains("do something else"), "{read:?}");
    }

    #[test]
    fn person_is_notified_when_the_model_is() {
        let mut loops = LoopDetector::default();
        let told: Vec<Option<String>> = (0..6)
            .map(|_| {
                look(&mut loops, "read", "{}", LONG);
                loops.circling()
            })
            .collect();
        assert_eq!(
            told[2].as_deref(),
            Some("`read` gave the same result 3 times in a row; haft told the model")
        );
        assert!(told[4].as_deref().is_some_and(|it| it.ends_with("to do something else")), "{told:?}");
        assert_eq!(told.iter().flatten().count(), 2);
    }

    #[test]
    fn other_arguments_another_result_or_a_change_reset_the_count() {
        let mut loops = LoopDetector::default();
        for _ in 0..3 {
            look(&mut loops, "read", r#"{"path":"a"}"#, LONG);
        }
        assert_eq!(look(&mut loops, "read", r#"{"path":"b"}"#, LONG), LONG);
        let other = format!("{LONG}.");
        assert_eq!(look(&mut loops, "read", r#"{"path":"a"}"#, &other), other);
        assert_eq!(look(&mut loops, "read", r#"{"path":"a"}"#, &other), other);
        look(&mut loops, "write", "{}", "written");
        assert_eq!(look(&mut loops, "read", r#"{"path":"a"}"#, &other), other);
    }

    #[test]
    fn polling_is_allowed_and_a_short_result_stays_until_the_fifth_time() {
        let mut loops = LoopDetector::default();
        for _ in 0..9 {
            assert_eq!(look(&mut loops, "wait", "{}", LONG), LONG);
        }
        let short: Vec<String> = (0..5).map(|_| look(&mut loops, "grep", "{}", "no match")).collect();
        assert_eq!(short[..4], ["no match"; 4]);
        assert!(short[4].starts_with("unchanged since call 10"), "{short:?}");
    }

    #[test]
    fn resumed_conversation_continues_the_count() {
        let call = |id: &str| {
            let (id, tool, arguments) = (id.to_owned(), "read".to_owned(), "{}".to_owned());
            Item::Model { said: vec![MessagePart::Call { id, tool, arguments }] }
        };
        let mut items = Vec::new();
        let mut live = LoopDetector::default();
        for id in ["1", "2", "3"] {
            let answer = ResultOf { id: id.to_owned(), ..result("read", LONG) };
            let results = vec![live.look(answer, "{}", false)];
            items.extend([call(id), Item::Results { results }]);
        }
        let mut resumed = LoopDetector::of(&items, |_| false);
        let read = look(&mut resumed, "read", "{}", LONG);
        assert!(read.starts_with("unchanged since call 1: the same result, 4 times"), "{read}");
    }
}
