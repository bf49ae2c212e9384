//! Incremental history search (Ctrl-R): cancelling it restores the typed text.

use super::super::input_history::Remembered;

/// A search in progress.
#[derive(Debug)]
pub(super) struct Search {
    /// The query.
    pub(super) query: String,
    /// The index of the line that was found.
    at: Option<usize>,
    /// No further line matches.
    pub(super) failed: bool,
    /// The text from before the search, and its cursor.
    pub(super) draft: (String, usize),
}

impl Search {
    /// Starts a search for the newest line that contains `query`, unless that is empty.
    pub(super) fn begin(query: &str, draft: (String, usize), lines: &Remembered) -> Self {
        let mut search = Self { query: query.to_owned(), at: None, failed: false, draft };
        if !query.is_empty() {
            search.look(lines.len(), lines);
        }
        search
    }

    /// Returns the line that was found, or the text from before the search if there is none.
    pub(super) fn found<'a>(&'a self, lines: &'a Remembered) -> &'a str {
        self.at.and_then(|it| lines.get(it)).unwrap_or(&self.draft.0)
    }

    /// Returns the offset of the query in the line that was found.
    pub(super) fn place(&self, lines: &Remembered) -> usize {
        let found = self.found(lines);
        let lower =
            || found.to_lowercase().find(&self.query.to_lowercase()).filter(|it| found.is_char_boundary(*it));
        found.find(&self.query).or_else(lower).unwrap_or(found.len())
    }

    /// Moves to the next older match.
    pub(super) fn older(&mut self, lines: &Remembered) {
        self.look(self.at.unwrap_or(lines.len()), lines);
    }

    /// Moves to the next newer match.
    pub(super) fn newer(&mut self, lines: &Remembered) {
        let Some(at) = self.at else { return };
        match lines.after(at, &self.query) {
            Some(at) => (self.at, self.failed) = (Some(at), false),
            None => self.failed = true,
        }
    }

    /// Appends a letter to the query: the current match stays if it contains the letter as well.
    pub(super) fn add(&mut self, letter: char, lines: &Remembered) {
        self.query.push(letter);
        self.look(self.at.map_or(lines.len(), |it| it + 1), lines);
    }

    /// Removes the last letter of the query, and restarts the search.
    pub(super) fn shorten(&mut self, lines: &Remembered) {
        self.query.pop();
        (self.at, self.failed) = (None, false);
        if !self.query.is_empty() {
            self.look(lines.len(), lines);
        }
    }

    fn look(&mut self, before: usize, lines: &Remembered) {
        match lines.before(before, &self.query) {
            Some(at) => (self.at, self.failed) = (Some(at), false),
            None => self.failed = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Remembered {
        let mut lines = Remembered::default();
        ["make test", "ls", "Make all", "git commit"].iter().for_each(|it| lines.add(it));
        lines
    }

    #[test]
    fn each_letter_narrows_the_search_and_each_key_goes_on() {
        let lines = lines();
        let mut search = Search::begin("", ("draft".to_owned(), 2), &lines);
        assert_eq!(search.found(&lines), "draft");
        search.add('m', &lines);
        assert_eq!((search.found(&lines), search.place(&lines)), ("git commit", 6));
        search.add('a', &lines);
        assert_eq!((search.found(&lines), search.place(&lines)), ("Make all", 0));
        search.older(&lines);
        assert_eq!(search.found(&lines), "make test");
        search.older(&lines);
        assert_eq!((search.found(&lines), search.failed), ("make test", true));
        search.newer(&lines);
        assert_eq!((search.found(&lines), search.failed), ("Make all", false));
        search.shorten(&lines);
        assert_eq!(search.found(&lines), "git commit");
        search.add('z', &lines);
        assert!(search.failed);
    }
}
