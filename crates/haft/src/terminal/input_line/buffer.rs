//! The text of the line and its cursor: movement, deletion and the kill ring, as readline has them.

use super::text::Text;

/// So many cut-out texts are kept.
const RING: usize = 20;

/// What is typed, and where the next letter comes.
#[derive(Default)]
pub(super) struct Buffer {
    text: Text,
    /// What was cut out, the newest last.
    ring: Vec<String>,
    /// The last key cut something out: the next cut belongs to it.
    cutting: bool,
    /// What the last key put back, and which of the ring that was.
    put_back: Option<(std::ops::Range<usize>, usize)>,
}

/// In which direction something is cut out.
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

    /// Where the letter that begins here ends.
    pub(super) fn next_letter(&self, at: usize) -> usize {
        self.text.after(at)
    }

    /// Puts another text in the place of all; the cursor is at its end.
    pub(super) fn put(&mut self, text: String) {
        self.text.set(text);
    }

    pub(super) fn go(&mut self, to: usize) {
        self.text.go(to);
    }

    pub(super) fn insert(&mut self, text: &str) {
        self.text.replace(self.at()..self.at(), text);
    }

    /// Puts a text in the place of this part; the cursor is behind it.
    pub(super) fn replace(&mut self, range: std::ops::Range<usize>, text: &str) {
        self.text.replace(range, text);
    }

    /// A key begins: what belongs together only if two keys follow each other ends, unless the key goes on with it.
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

    /// False: it is on the first line already.
    pub(super) fn line_up(&mut self) -> bool {
        self.text.line_up()
    }

    /// False: it is on the last line already.
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

    /// To the blank before the cursor.
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
        // At its end, the line break goes.
        if end == self.at() && self.text().get(end..).is_some_and(|it| it.starts_with('\n')) {
            end += 1;
        }
        self.cut(end, Side::After, goes_on);
    }

    /// Puts back what was cut out last.
    pub(super) fn put_back(&mut self) {
        let Some(newest) = self.ring.len().checked_sub(1) else { return };
        let at = self.at();
        self.put_back_from_ring(newest, at..at);
    }

    /// In the place of what was just put back, what was cut out before that.
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

    /// Cuts out what is between the cursor and there. What was cut out right before it is joined to it.
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
