//! The thought of a model in progress, and what stays of it.

use std::time::Instant;

use super::super::{
    abbreviate,
    markdown::Look,
    row::{Row, Style},
};

/// A thought of more rows is folded into one when it is over.
const FOLDED: usize = 3;

/// Maximum number of rows of a thought in progress.
const THOUGHT: usize = 3;

/// A thought of the model in progress.
#[derive(Debug, Default)]
pub(super) struct Thought {
    text: String,
    began: Option<Instant>,
    last: Option<Instant>,
}

impl Thought {
    pub(super) fn push(&mut self, text: &str, now: Instant) {
        self.began.get_or_insert(now);
        self.last = Some(now);
        self.text.push_str(text);
    }

    fn rows(&self, look: Look) -> Vec<Row> {
        let style = Style { dim: true, italic: true, ..Style::PLAIN };
        let text = self.text.trim_end();
        if text.is_empty() { Vec::new() } else { Row::new(text, style).lines(look.columns) }
    }

    /// Returns the last rows of the thought.
    pub(super) fn live(&self, look: Look) -> Vec<Row> {
        let rows = self.rows(look);
        let first = rows.len().saturating_sub(THOUGHT);
        rows.into_iter().skip(first).collect()
    }

    /// Ends the thought: returns a short one whole, and one line for a long one.
    pub(super) fn end(&mut self, look: Look) -> Vec<Row> {
        let rows = self.rows(look);
        let took = self.began.zip(self.last).map(|(began, last)| last.saturating_duration_since(began));
        *self = Self::default();
        if rows.len() <= FOLDED {
            return rows;
        }
        let took = took.map_or_else(String::new, |it| format!(" for {}", abbreviate::clock(it)));
        let whole = Row::new(format!("thought{took}, {} lines (Ctrl-O shows them)", rows.len()), Style::DIM);
        if whole.width() <= look.columns {
            return vec![whole];
        }
        vec![Row::new(format!("thought{took} (Ctrl-O shows it)"), Style::DIM).cut(look.columns)]
    }
}
