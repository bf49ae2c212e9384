//! Streamed texts: which part of a row the editor has not got yet, whether it reads the pieces or the row in their place.

use std::collections::HashMap;

use sessions::Row;

/// The texts that still grow: one of each agent, by its path.
#[derive(Default)]
pub(super) struct Texts {
    growing: HashMap<String, Growing>,
}

struct Growing {
    is_thought: bool,
    /// The number of its first row, which names the text.
    first: u64,
    /// The rows of it, each with its length.
    pieces: Vec<(u64, usize)>,
    /// The length that was given out.
    given: usize,
}

/// The new part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct New<'a> {
    /// The number of the text's first row: it is the same in the pieces and in the row that takes their place.
    pub(super) first: u64,
    /// Whether the text begins with it.
    pub(super) begins: bool,
    pub(super) text: &'a str,
}

impl Texts {
    /// Takes a row of a text; returns what is new in it.
    pub(super) fn add<'a>(
        &mut self,
        path: &str,
        is_thought: bool,
        row: &Row,
        text: &'a str,
    ) -> Option<New<'a>> {
        let growing = self.growing.get(path).filter(|it| it.is_thought == is_thought);
        if growing.is_none() {
            let growing = Growing { is_thought, first: row.first, pieces: Vec::new(), given: 0 };
            self.growing.insert(path.to_owned(), growing);
        }
        let growing = self.growing.get_mut(path)?;
        // A row that takes the place of others has all of their text.
        growing.pieces.retain(|it| it.0 < row.first);
        let before: usize = growing.pieces.iter().map(|it| it.1).sum();
        growing.pieces.push((row.seq, text.len()));
        let begins = growing.given == 0;
        let new = text.get(growing.given.saturating_sub(before)..).unwrap_or_default();
        growing.given = growing.given.max(before + text.len());
        (!new.is_empty()).then_some(New { first: growing.first, begins, text: new })
    }

    /// Ends the text of this agent: something else has happened there.
    pub(super) fn end(&mut self, path: &str) {
        self.growing.remove(path);
    }
}

#[cfg(test)]
mod tests {
    use agent::Event;

    use super::*;

    fn row(first: u64, seq: u64, text: &str) -> Row {
        Row { seq, first, at_ms: 0, event: Event::Text { text: text.to_owned() }.into() }
    }

    fn read(rows: &[Row]) -> Vec<(u64, String)> {
        let mut texts = Texts::default();
        let mut all: Vec<(u64, String)> = Vec::new();
        for row in rows {
            let Some((path, Event::Text { text })) = row.event.of_agent() else { continue };
            let Some(new) = texts.add(&path, false, row, text) else { continue };
            match all.last_mut() {
                Some((first, said)) if *first == new.first => said.push_str(new.text),
                _ => all.push((new.first, new.text.to_owned())),
            }
        }
        all
    }

    #[test]
    fn pieces_and_the_row_in_their_place_give_the_same_text_once() {
        let expected = vec![(3, "one two three".to_owned())];
        let pieces = [row(3, 3, "one"), row(4, 4, " two"), row(5, 5, " three")];
        assert_eq!(read(&pieces), expected);
        assert_eq!(read(&[row(3, 5, "one two three")]), expected);
        for cut in 1..pieces.len() {
            let mut rows: Vec<Row> = pieces.get(..cut).unwrap_or_default().to_vec();
            rows.push(row(3, 5, "one two three"));
            assert_eq!(read(&rows), expected, "after {cut} pieces");
        }
    }
}
