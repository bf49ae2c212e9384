//! The input line: the text at the prompt, and the effect of each key on it.
//!
//! It exists for the whole chat, also during the agent's turn, and does not depend on the terminal.

mod buffer;
mod chips;
mod layout;
mod popup;
mod search;
mod text;

use std::path::{Path, PathBuf};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{
    complete::Words,
    input_history::Remembered,
    row::{Row, Style, harmless, tail},
    screen::Live,
};
use buffer::Buffer;
use chips::Chips;
use layout::{columns_of, laid_out, windowed};
use popup::Popup;
use search::Search;

/// The label of a history search.
const SEARCH: &str = "search: ";
const SEARCH_KEYS: &str = "  Ctrl-R older, Enter sends, Tab edits, Ctrl-C back";

/// The line that a person types.
pub(crate) struct Line {
    buffer: Buffer,
    chips: Chips,
    remembered: Remembered,
    looking: Option<Looking>,
    search: Option<Search>,
    pub(crate) words: Words,
    popup: Option<Popup>,
    /// The start of the word whose popup was closed.
    closed: Option<usize>,
    /// Ctrl-X was pressed: the next key belongs to it.
    prefix: bool,
}

/// A finished line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The text that is sent.
    pub(crate) text: String,
    /// The text that is shown: long pastes are abbreviated.
    pub(crate) shown: String,
    /// The pictures in it.
    pub(crate) pictures: Vec<PathBuf>,
}

impl Entry {
    /// Creates a line that is shown as it is sent.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { shown: text.clone(), text, pictures: Vec::new() }
    }
}

/// The effect of a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// The key changed at most the line.
    Nothing,
    /// The line is finished.
    Line(Entry),
    /// The person leaves the chat.
    End,
    /// The person clears the screen.
    Wipe,
    /// The person opens the line in their editor.
    Edit,
    /// The person suspends haft to return to their shell.
    Suspend,
}

/// Browsing the history: an earlier line replaces the typed text.
struct Looking {
    at: usize,
    draft: String,
}

impl Line {
    pub(crate) fn new(remembered: Remembered, words: Words) -> Self {
        Self {
            buffer: Buffer::default(),
            chips: Chips::default(),
            remembered,
            looking: None,
            search: None,
            words,
            popup: None,
            closed: None,
            prefix: false,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty() && self.search.is_none()
    }

    /// Returns all typed text, with the content of its chips.
    pub(crate) fn text(&self) -> String {
        self.chips.whole(self.buffer.text())
    }

    pub(crate) fn clear(&mut self) {
        self.buffer.put(String::new());
        (self.looking, self.search, self.popup, self.closed) = (None, None, None, None);
        self.chips = Chips::default();
    }

    /// Replaces all typed text; a picture that the new text still names stays.
    pub(crate) fn set(&mut self, text: &str) {
        let pictures = self.chips.pictures(self.buffer.text());
        self.clear();
        let text = self.chips.with(text, &pictures);
        self.buffer.put(text);
    }

    /// Inserts a line before the typed text.
    pub(crate) fn begin_with(&mut self, entry: &Entry) {
        let at = self.buffer.at();
        let text = self.chips.with(&entry.text, &entry.pictures);
        let after = self.buffer.text();
        let between = if after.is_empty() { "" } else { "\n" };
        let whole = format!("{text}{between}{after}");
        let at = at + whole.len() - after.len();
        self.buffer.put(whole);
        self.buffer.go(at);
        self.popup = None;
    }

    /// Inserts pasted text.
    pub(crate) fn paste(&mut self, text: &str) {
        self.accept_search();
        let text = self.chips.paste(text);
        self.buffer.insert(&text);
        self.popup = None;
    }

    /// Inserts a picture.
    pub(crate) fn picture(&mut self, path: &Path) {
        self.accept_search();
        let chip = self.chips.picture(path);
        self.buffer.insert(&format!("{chip} "));
        self.popup = None;
    }

    /// Updates the popup after the file search has a new result.
    pub(crate) fn refresh(&mut self) {
        if self.popup.is_some() {
            self.offer();
        }
    }

    /// Ends a search, or closes the popup; returns false if there is neither. `back` is for Ctrl-C: it restores the line from
    /// before the search.
    pub(crate) fn gives_up(&mut self, back: bool) -> bool {
        self.prefix = false;
        if let Some(search) = self.search.take() {
            let (text, at) = if back {
                search.draft
            } else {
                (search.found(&self.remembered).to_owned(), search.place(&self.remembered))
            };
            self.buffer.put(text);
            self.buffer.go(at);
            return true;
        }
        match self.popup.take() {
            // Ctrl-C clears the line, which includes its popup.
            Some(popup) if !back => {
                self.closed = Some(popup.start);
                true
            }
            _ => false,
        }
    }

    /// Applies a key.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Came {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if std::mem::take(&mut self.prefix) && control && key.code == KeyCode::Char('e') {
            self.accept_search();
            return Came::Edit;
        }
        if self.search.is_some() {
            match self.key_of_search(key) {
                Some(came) => return came,
                // Any other key edits the line that was found.
                None => self.accept_search(),
            }
        }
        if self.popup.is_some()
            && let Some(came) = self.key_of_popup(key)
        {
            return came;
        }
        let before = (self.buffer.text().len(), self.looking.is_some());
        let came = self.key_of_text(key);
        if came != Came::Nothing {
            self.popup = None;
        } else if (self.buffer.text().len(), self.looking.is_some()) == before {
            // The key moved the cursor without changing the text.
            self.popup = None;
        } else if self.looking.is_none() {
            self.offer();
        }
        came
    }

    fn key_of_text(&mut self, key: KeyEvent) -> Came {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let (cutting, put_back) = self.buffer.key_begins();
        match key.code {
            KeyCode::Tab => self.offer_anew(),
            KeyCode::Enter => return self.enter(key.modifiers),
            KeyCode::Char(letter) if control => return self.control(letter, cutting),
            KeyCode::Char('b') if alt => self.buffer.go_word_left(),
            KeyCode::Char('f') if alt => self.buffer.go_word_right(),
            KeyCode::Char('d') if alt => self.buffer.cut_word_right(cutting),
            KeyCode::Char('y') if alt => self.buffer.put_back_older(put_back),
            KeyCode::Char(letter) => self.buffer.insert(&chips::plain(letter.encode_utf8(&mut [0; 4]))),
            KeyCode::Backspace if alt || control => self.buffer.cut_word_left(cutting),
            KeyCode::Backspace => self.buffer.delete_left(),
            KeyCode::Delete if alt || control => self.buffer.cut_word_right(cutting),
            KeyCode::Delete => self.buffer.delete_right(),
            KeyCode::Left if alt || control => self.buffer.go_word_left(),
            KeyCode::Right if alt || control => self.buffer.go_word_right(),
            KeyCode::Left => self.buffer.left(),
            KeyCode::Right => self.buffer.right(),
            KeyCode::Home => self.buffer.go_line_start(),
            KeyCode::End => self.buffer.go_line_end(),
            KeyCode::Up => self.up(),
            KeyCode::Down => self.down(),
            _ => {}
        }
        Came::Nothing
    }

    fn control(&mut self, letter: char, cutting: bool) -> Came {
        match letter {
            'a' => self.buffer.go_line_start(),
            'b' => self.buffer.left(),
            'd' if self.is_empty() => return Came::End,
            'd' => self.buffer.delete_right(),
            'e' => self.buffer.go_line_end(),
            'f' => self.buffer.right(),
            'g' => return Came::Edit,
            'h' => self.buffer.delete_left(),
            'j' => self.buffer.insert("\n"),
            'k' => self.buffer.cut_line_right(cutting),
            'l' => return Came::Wipe,
            'n' => self.down(),
            'p' => self.up(),
            'r' => self.search(),
            't' => self.buffer.swap(),
            'u' => self.buffer.cut_line_left(cutting),
            'w' => self.buffer.cut_to_blank(cutting),
            'x' => self.prefix = true,
            'y' => self.buffer.put_back(),
            'z' => return Came::Suspend,
            _ => {}
        }
        Came::Nothing
    }

    fn enter(&mut self, modifiers: KeyModifiers) -> Came {
        if modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT) {
            self.buffer.insert("\n");
            return Came::Nothing;
        }
        // A line that ends with a backslash continues.
        if let Some(before) = self.buffer.text().strip_suffix('\\') {
            let before = format!("{before}\n");
            self.buffer.put(before);
            return Came::Nothing;
        }
        self.done()
    }

    fn done(&mut self) -> Came {
        let line = self.buffer.text();
        let entry = Entry {
            text: self.chips.whole(line),
            shown: self.chips.short(line),
            pictures: self.chips.pictures(line),
        };
        self.remembered.add(&entry.text);
        self.clear();
        Came::Line(entry)
    }

    fn up(&mut self) {
        if !self.buffer.line_up() {
            let at = self.looking.as_ref().map_or(self.remembered.len(), |it| it.at);
            self.look_at(at.checked_sub(1));
        }
    }

    fn down(&mut self) {
        if self.buffer.line_down() {
            return;
        }
        let Some(looking) = &self.looking else { return };
        let next = looking.at + 1;
        if next < self.remembered.len() {
            self.look_at(Some(next));
        } else if let Some(looking) = self.looking.take() {
            self.buffer.put(looking.draft);
        }
    }

    fn look_at(&mut self, at: Option<usize>) {
        let Some((at, line)) = at.and_then(|at| Some((at, self.remembered.get(at)?.to_owned()))) else {
            return;
        };
        let draft = match self.looking.take() {
            Some(looking) => looking.draft,
            None => self.buffer.text().to_owned(),
        };
        self.looking = Some(Looking { at, draft });
        self.buffer.put(line);
    }

    /// Starts a history search for the typed text.
    fn search(&mut self) {
        let draft = (self.buffer.text().to_owned(), self.buffer.at());
        let query = if draft.0.contains('\n') { String::new() } else { self.text() };
        self.looking = None;
        self.search = Some(Search::begin(&query, draft, &self.remembered));
    }

    /// Applies a key to the search; returns `None` if it ends the search and applies to the line.
    fn key_of_search(&mut self, key: KeyEvent) -> Option<Came> {
        let search = self.search.as_mut()?;
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('r') if control => search.older(&self.remembered),
            KeyCode::Char('s') if control => search.newer(&self.remembered),
            KeyCode::Char('g') if control => {
                self.gives_up(true);
            }
            KeyCode::Char('h') if control => search.shorten(&self.remembered),
            KeyCode::Backspace => search.shorten(&self.remembered),
            KeyCode::Char(letter) if !control && !key.modifiers.contains(KeyModifiers::ALT) => {
                search.add(letter, &self.remembered);
            }
            KeyCode::Enter => {
                self.accept_search();
                return Some(self.done());
            }
            KeyCode::Tab => self.accept_search(),
            _ => return None,
        }
        Some(Came::Nothing)
    }

    fn accept_search(&mut self) {
        if self.search.is_some() {
            self.gives_up(false);
        }
    }

    /// Applies a key to the popup; returns `None` if it applies to the line.
    fn key_of_popup(&mut self, key: KeyEvent) -> Option<Came> {
        let popup = self.popup.as_mut()?;
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Down => popup.down(),
            KeyCode::Up | KeyCode::BackTab => popup.up(),
            KeyCode::Char('n') if control => popup.down(),
            KeyCode::Char('p') if control => popup.up(),
            KeyCode::Tab => {
                if popup.choice().is_none() {
                    popup.down();
                }
                self.take_choice();
            }
            KeyCode::Enter if key.modifiers.is_empty() => {
                let typed = self.buffer.text().get(popup.start..self.buffer.at()).unwrap_or_default();
                // A choice that is typed in full is accepted.
                if popup.choice().is_none_or(|it| it.word.eq_ignore_ascii_case(typed)) {
                    return None;
                }
                if self.take_choice() {
                    return Some(self.done());
                }
            }
            _ => return None,
        }
        Some(Came::Nothing)
    }

    /// Replaces the word with the choice. Returns true if the line is complete then.
    fn take_choice(&mut self) -> bool {
        let Some(popup) = self.popup.take() else { return false };
        let Some(choice) = popup.choice() else { return false };
        let (at, end) = (self.buffer.at(), self.buffer.text().len());
        let blank = if choice.ends && at == end { " " } else { "" };
        let done = choice.done;
        let word = format!("{}{blank}", choice.word);
        self.buffer.replace(popup.start..at, &word);
        if !done {
            self.offer();
        }
        done
    }

    /// Shows the choices for the word, unless the person closed its popup.
    fn offer(&mut self) {
        let offered = self.words.offered(self.buffer.text(), self.buffer.at());
        let Some(offered) = offered.filter(|it| self.closed != Some(it.start)) else {
            self.popup = None;
            // A word that was deleted may have a popup when it is typed again.
            if self.closed.is_some_and(|it| it >= self.buffer.text().len()) {
                self.closed = None;
            }
            return;
        };
        self.closed = None;
        self.popup = Some(Popup::new(offered, self.popup.as_ref()));
    }

    fn offer_anew(&mut self) {
        self.closed = None;
        self.offer();
        // A single choice is taken.
        if self.popup.as_ref().is_some_and(Popup::is_alone) {
            self.take_choice();
        }
    }

    /// Returns the line with its cursor, in rows of `columns` columns: at most `most` rows of the line, and `below` rows
    /// under it.
    pub(crate) fn live(&self, columns: usize, most: usize, below: usize) -> Live {
        let columns = columns.max(4);
        if let Some(search) = &self.search {
            return self.live_search(search, columns, most);
        }
        let (rows, cursor) = laid_out(&self.buffer, &self.chips, columns);
        let (mut rows, cursor) = windowed(rows, cursor, most);
        if let Some(popup) = &self.popup {
            rows.extend(popup.rows(columns, below));
        }
        Live { rows, cursor: Some(cursor) }
    }

    fn live_search(&self, search: &Search, columns: usize, most: usize) -> Live {
        let mut found = Buffer::default();
        found.put(search.found(&self.remembered).to_owned());
        found.go(search.place(&self.remembered));
        let (rows, cursor) = laid_out(&found, &self.chips, columns);
        let (mut rows, _) = windowed(rows, cursor, most);
        let query = harmless(&search.query);
        let shown = tail(&query, columns.saturating_sub(SEARCH.len() + 1));
        let column = SEARCH.len() + columns_of(shown);
        let style = if search.failed { Style::BAD } else { Style::PLAIN };
        let says = if search.failed { "  nothing older" } else { SEARCH_KEYS };
        let row = Row::new(SEARCH, Style::DIM).with(shown, style).with(says, Style::DIM);
        rows.push(row.cut(columns));
        let cursor = Some((rows.len() - 1, column));
        Live { rows, cursor }
    }
}

#[cfg(test)]
mod tests;
