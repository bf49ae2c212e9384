//! A text with a cursor that moves by grapheme clusters: a letter, as a person sees it, is never cut.

use std::ops::Range;

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation as _};

/// A text of any number of lines. The cursor is a byte offset in it, always between two letters.
#[derive(Default)]
pub(super) struct Text {
    text: String,
    at: usize,
}

impl Text {
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Replaces the whole text; the cursor goes to its end.
    pub(super) fn set(&mut self, text: String) {
        self.at = text.len();
        self.text = text;
    }

    /// Moves the cursor to this offset, or to the letter that begins before it.
    pub(super) fn go(&mut self, to: usize) {
        self.at = self.text.floor_char_boundary(to);
    }

    /// Replaces a range; the cursor goes behind the new text. Nothing changes if the range splits a character.
    pub(super) fn replace(&mut self, range: Range<usize>, with: &str) {
        if self.text.get(range.clone()).is_some() {
            self.text.replace_range(range.clone(), with);
            self.at = range.start + with.len();
        }
    }

    /// Returns where the letter that begins at this offset ends.
    pub(super) fn after(&self, at: usize) -> usize {
        let next = GraphemeCursor::new(at, self.text.len(), true).next_boundary(&self.text, 0);
        next.ok().flatten().unwrap_or(self.text.len())
    }

    /// Returns where the letter that ends at this offset begins.
    pub(super) fn before(&self, at: usize) -> usize {
        let previous = GraphemeCursor::new(at, self.text.len(), true).prev_boundary(&self.text, 0);
        previous.ok().flatten().unwrap_or_default()
    }

    /// Returns the byte range of the line at the cursor, without its line break.
    pub(super) fn line(&self) -> Range<usize> {
        let (before, after) = (self.text.get(..self.at), self.text.get(self.at..));
        let start = before.and_then(|it| it.rfind('\n')).map_or(0, |it| it + 1);
        let end = after.and_then(|it| it.find('\n')).map_or(self.text.len(), |it| self.at + it);
        start..end
    }

    /// Moves the cursor to the same column of the line before. Returns false on the first line.
    pub(super) fn line_up(&mut self) -> bool {
        let Some(end) = self.line().start.checked_sub(1) else { return false };
        let column = self.column();
        self.at = end;
        self.go_column(column);
        true
    }

    /// Moves the cursor to the same column of the next line. Returns false on the last line.
    pub(super) fn line_down(&mut self) -> bool {
        let end = self.line().end;
        if end == self.text.len() {
            return false;
        }
        let column = self.column();
        self.at = end + 1;
        self.go_column(column);
        true
    }

    /// Swaps the letters around the cursor, at an end the two nearest, and moves the cursor behind both.
    pub(super) fn swap(&mut self) {
        let middle = match self.at {
            0 => self.after(0),
            at if at == self.text.len() => self.before(at),
            at => at,
        };
        let (start, end) = (self.before(middle), self.after(middle));
        if let (Some(one), Some(other)) = (self.text.get(start..middle), self.text.get(middle..end))
            && !one.is_empty()
        {
            let swapped = format!("{other}{one}");
            self.replace(start..end, &swapped);
        }
    }

    /// Returns how many letters are before the cursor in its line.
    fn column(&self) -> usize {
        self.text.get(self.line().start..self.at).unwrap_or_default().graphemes(true).count()
    }

    fn go_column(&mut self, column: usize) {
        let line = self.line();
        let text = self.text.get(line.clone()).unwrap_or_default();
        self.at = text.grapheme_indices(true).nth(column).map_or(line.end, |(at, _)| line.start + at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str, at: usize) -> Text {
        let mut it = Text::default();
        it.set(text.to_owned());
        it.go(at);
        it
    }

    #[test]
    fn letters_of_several_characters_are_one_step() {
        let family = "a👨‍👩‍👧e\u{301}";
        let it = text(family, 0);
        assert_eq!([it.after(0), it.after(1), it.after(19)], [1, 19, family.len()]);
        assert_eq!([it.before(family.len()), it.before(19), it.before(1), it.before(0)], [19, 1, 0, 0]);
        assert_eq!(it.after(family.len()), family.len());
    }

    #[test]
    fn up_and_down_keep_the_column_where_the_line_is_long_enough() {
        let mut it = text("wörter\nab\nlonger", 5);
        assert!(!it.line_up());
        assert!(it.line_down());
        assert_eq!(it.at(), "wörter\nab".len());
        assert!(it.line_down());
        assert_eq!(it.at(), "wörter\nab\nlo".len());
        assert!(!it.line_down());
        assert!(it.line_up() && it.line_up());
        assert_eq!(it.at(), "wö".len());
    }

    #[test]
    fn swapping_works_in_the_middle_at_the_ends_and_of_too_little() {
        for (before, at, after) in
            [("abc", 1, "bac"), ("abc", 3, "acb"), ("abc", 0, "bac"), ("a", 1, "a"), ("", 0, "")]
        {
            let mut it = text(before, at);
            it.swap();
            assert_eq!(it.as_str(), after, "{before} at {at}");
        }
    }

    #[test]
    fn an_offset_within_a_character_is_never_kept() {
        let mut it = text("ö", 1);
        assert_eq!(it.at(), 0);
        it.replace(0..1, "x");
        assert_eq!((it.as_str(), it.at()), ("ö", 0));
        it.go(99);
        assert_eq!(it.at(), 2);
    }
}
