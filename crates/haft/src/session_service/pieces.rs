//! Pieces of streamed text that a terminal has shown: when a row takes the place of its pieces, only the text beyond them is new.

use std::collections::HashMap;

use sessions::{Event, Row};

/// The pieces that were shown in the current turn, by agent, and texts apart from thoughts.
#[derive(Default)]
pub(super) struct Pieces {
    /// The number and the length of each piece.
    shown: HashMap<(String, bool), Vec<(u64, usize)>>,
}

impl Pieces {
    /// Returns the row without the text that was already shown, or `None` if nothing is left.
    pub(super) fn new_of(&mut self, mut row: Row) -> Option<Row> {
        let Some((path, event)) = row.event.of_agent() else { return Some(row) };
        let (text, is_thought) = match event {
            agent::Event::Text { text } => (text.clone(), false),
            agent::Event::Reasoning { text } => (text.clone(), true),
            // Other rows pass unchanged.
            _ => return Some(row),
        };
        let pieces = self.shown.entry((path, is_thought)).or_default();
        let first = row.from().unwrap_or(row.seq);
        let shown: usize = pieces.iter().filter(|it| it.0 >= first).map(|it| it.1).sum();
        pieces.retain(|it| it.0 < first);
        pieces.push((row.seq, text.len()));
        let rest = text.get(shown..).unwrap_or_default();
        if rest.is_empty() {
            return None;
        }
        if shown > 0 {
            let rest = rest.to_owned();
            set_text(&mut row.event, rest);
        }
        Some(row)
    }

    /// Forgets all: the turn is over.
    pub(super) fn forget(&mut self) {
        self.shown.clear();
    }
}

fn set_text(event: &mut Event, rest: String) {
    let Event::Agent(mut inner) = std::mem::replace(event, Event::Unknown(serde_json::Value::Null)) else {
        return;
    };
    let mut at = &mut inner;
    while let agent::Event::Under { inner, .. } = at {
        at = inner;
    }
    if let agent::Event::Text { text } | agent::Event::Reasoning { text } = at {
        *text = rest;
    }
    *event = Event::Agent(inner);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(first: u64, seq: u64, text: &str) -> Row {
        let event = agent::Event::Text { text: text.to_owned() }.into();
        Row { seq, first, at_ms: 0, event }
    }

    fn text(row: Option<Row>) -> Option<String> {
        let Event::Agent(agent::Event::Text { text }) = row?.event else { return None };
        Some(text)
    }

    #[test]
    fn replacement_adds_only_the_text_that_was_not_shown() {
        let mut pieces = Pieces::default();
        assert_eq!(text(pieces.new_of(row(1, 1, "one "))).as_deref(), Some("one "));
        assert_eq!(text(pieces.new_of(row(2, 2, "two "))).as_deref(), Some("two "));
        assert_eq!(text(pieces.new_of(row(1, 4, "one two three"))).as_deref(), Some("three"));
        assert_eq!(text(pieces.new_of(row(1, 4, "one two three"))), None, "all of it was shown");
        assert_eq!(text(pieces.new_of(row(5, 7, "a new text"))).as_deref(), Some("a new text"));
    }
}
