//! The text of the line and its cursor: movement, deletion and the kill ring, with the behaviour of readline.

use super::text::Text;

/// Maximum number of texts in the kill ring.
const RING: usize = 20;

/// The typed text, its cursor and the kill ring.
#[derive(Default)]
pub(super) struct Buffer {
    text: Text,
    /// The kill ring, the newest text last.
    ring: Vec<String>,
    /// The last key killed text: the next kill is appended to it.
    cutting: bool,
    /// The range of the text that the last key yanked, and its index in the kill ring.
    put_back: Option<(std::ops::Range<usize>, usize)>,
}

/// The direction of a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

impl Buffer {
    pub(super) fn text(&self) -> &str {
        self.text.as_str()
    }

    pub(super) fn at(&self) -> usize {
        self.text.at()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text().is_empty()
    }

    /// Returns where the letter that begins at `at` ends.
    pub(super) fn next_letter(&self, at: usize) -> usize {
        self.text.after(at)
    }

    /// Replaces the whole text; the cursor goes to its end.
    pub(super) fn put(&mut self, text: String) {
        self.text.set(text);
    }

    pub(super) fn go(&mut self, to: usize) {
        self.text.go(to);
    }

    pub(super) fn insert(&mut self, text: &str) {
        self.text.replace(self.at()..self.at(), text);
    }

    /// Replaces this range; the cursor goes behind the new text.
    pub(super) fn replace(&mut self, range: std::ops::Range<usize>, text: &str) {
        self.text.replace(range, text);
    }

    /// Resets the state of consecutive kills and yanks at the start of a key; returns it for a key that continues one.
    pub(super) fn key_begins(&mut self) -> (bool, Option<(std::ops::Range<usize>, usize)>) {
        (std::mem::take(&mut self.cutting), self.put_back.take())
    }

    pub(super) fn left(&mut self) {
        self.go(self.text.before(self.at()));
    }

    pub(super) fn right(&mut self) {
        self.go(self.text.after(self.at()));
    }

    pub(super) fn go_line_start(&mut self) {
        self.go(self.text.line().start);
    }

    pub(super) fn go_line_end(&mut self) {
        self.go(self.text.line().end);
    }

    pub(super) fn go_word_left(&mut self) {
        self.go(self.word_left());
    }

    pub(super) fn go_word_right(&mut self) {
        self.go(self.word_right());
    }

    /// Returns false if the cursor is on the first line already.
    pub(super) fn line_up(&mut self) -> bool {
        self.text.line_up()
    }

    /// Returns false if the cursor is on the last line already.
    pub(super) fn line_down(&mut self) -> bool {
        self.text.line_down()
    }

    pub(super) fn delete_left(&mut self) {
        self.text.replace(self.text.before(self.at())..self.at(), "");
    }

    pub(super) fn delete_right(&mut self) {
        self.text.replace(self.at()..self.text.after(self.at()), "");
    }

    pub(super) fn swap(&mut self) {
        self.text.swap();
    }

    pub(super) fn cut_word_left(&mut self, goes_on: bool) {
        self.cut(self.word_left(), Side::Before, goes_on);
    }

    pub(super) fn cut_word_right(&mut self, goes_on: bool) {
        self.cut(self.word_right(), Side::After, goes_on);
    }

    /// Kills the text back to the blank before the cursor.
    pub(super) fn cut_to_blank(&mut self, goes_on: bool) {
        let before = self.text().get(..self.at()).unwrap_or_default();
        let to = before.trim_end().trim_end_matches(|it: char| !it.is_whitespace()).len();
        self.cut(to, Side::Before, goes_on);
    }

    pub(super) fn cut_line_left(&mut self, goes_on: bool) {
        self.cut(self.text.line().start, Side::Before, goes_on);
    }

    pub(super) fn cut_line_right(&mut self, goes_on: bool) {
        let mut end = self.text.line().end;
        // At the end of a line, its line break is killed.
        if end == self.at() && self.text().get(end..).is_some_and(|it| it.starts_with('\n')) {
            end += 1;
        }
        self.cut(end, Side::After, goes_on);
    }

    /// Yanks the newest text of the kill ring.
    pub(super) fn put_back(&mut self) {
        let Some(newest) = self.ring.len().checked_sub(1) else { return };
        let at = self.at();
        self.put_back_from_ring(newest, at..at);
    }

    /// Replaces the text that was just yanked with the one before it in the kill ring.
    pub(super) fn put_back_older(&mut self, last: Option<(std::ops::Range<usize>, usize)>) {
        let Some((range, which)) = last else { return };
        let older = which.checked_sub(1).unwrap_or(self.ring.len().saturating_sub(1));
        self.put_back_from_ring(older, range);
    }

    fn put_back_from_ring(&mut self, which: usize, range: std::ops::Range<usize>) {
        let Some(text) = self.ring.get(which).cloned() else { return };
        self.replace(range.clone(), &text);
        self.put_back = Some((range.start..range.start + text.len(), which));
    }

    /// Kills the text between the cursor and `to`. With `goes_on` it joins the newest text of the kill ring.
    fn cut(&mut self, to: usize, side: Side, goes_on: bool) {
        self.cutting = true;
        let at = self.at();
        let range = to.min(at)..to.max(at);
        let Some(cut) = self.text().get(range.clone()).filter(|it| !it.is_empty()).map(str::to_owned) else {
            return;
        };
        match (self.ring.last_mut().filter(|_| goes_on), side) {
            (Some(last), Side::Before) => last.insert_str(0, &cut),
            (Some(last), Side::After) => last.push_str(&cut),
            (None, _) => self.ring.push(cut),
        }
        let over = self.ring.len().saturating_sub(RING);
        self.ring.drain(..over);
        self.text.replace(range, "");
    }

    fn word_left(&self) -> usize {
        let before = self.text().get(..self.at()).unwrap_or_default();
        let word = before.trim_end_matches(|it: char| !it.is_alphanumeric());
        word.trim_end_matches(char::is_alphanumeric).len()
    }

    fn word_right(&self) -> usize {
        let after = self.text().get(self.at()..).unwrap_or_default();
        let word = after.trim_start_matches(|it: char| !it.is_alphanumeric());
        self.text().len() - word.trim_start_matches(char::is_alphanumeric).len()
    }
}
