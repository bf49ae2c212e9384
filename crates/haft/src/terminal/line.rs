//! What is being typed at the prompt, and what does each key do to it?
//!
//! It stands there for the whole chat, whoever has the turn, and knows nothing of the terminal.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use reedline::LineBuffer;

use super::{
    complete::{Choice, Words},
    remembered::Remembered,
    row::{Row, Style, harmless, width},
    screen::Live,
};

/// So many choices are seen at once.
const CHOICES: usize = 6;

/// The mark before the line.
const MARK: &str = "> ";

/// The line that a person types.
pub(crate) struct Line {
    text: LineBuffer,
    /// What was cut out last.
    cut: String,
    remembered: Remembered,
    looking: Option<Looking>,
    words: Words,
    menu: Option<Menu>,
}

/// What a key came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// Nothing beyond the line.
    Nothing,
    /// The line is done.
    Line(String),
    /// They want to go.
    End,
    /// They want to see nothing but the prompt.
    Wipe,
}

/// An earlier line stands in the place of what was typed.
struct Looking {
    at: usize,
    draft: String,
}

/// What the word may become.
struct Menu {
    start: usize,
    choices: Vec<Choice>,
    chosen: Option<usize>,
}

impl Line {
    pub(crate) fn new(remembered: Remembered, words: Words) -> Self {
        Self { text: LineBuffer::new(), cut: String::new(), remembered, looking: None, words, menu: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.put(String::new());
        self.looking = None;
        self.menu = None;
    }

    /// Puts a text before what is typed.
    pub(crate) fn begin_with(&mut self, text: &str) {
        let at = self.text.insertion_point();
        let after = self.text.get_buffer();
        let between = if after.is_empty() { "" } else { "\n" };
        let whole = format!("{text}{between}{after}");
        let at = at + whole.len() - after.len();
        self.put(whole);
        self.text.set_insertion_point(at);
    }

    /// Takes what was pasted.
    pub(crate) fn paste(&mut self, text: &str) {
        self.menu = None;
        self.text.insert_str(&text.replace("\r\n", "\n").replace('\r', "\n"));
    }

    /// Takes a key.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Came {
        let menu = self.menu.take();
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        match key.code {
            KeyCode::Tab => self.complete(menu, true),
            KeyCode::BackTab => self.complete(menu, false),
            // What was chosen is taken; the line is not done by that.
            KeyCode::Enter if menu.is_some_and(|it| it.chosen.is_some()) => {}
            KeyCode::Enter => return self.enter(key.modifiers),
            KeyCode::Char(letter) if control => return self.control(letter),
            KeyCode::Char('b') if alt => self.go(self.word_left()),
            KeyCode::Char('f') if alt => self.go(self.word_right()),
            KeyCode::Char('d') if alt => self.cut_to(self.word_right()),
            KeyCode::Char(letter) => self.text.insert_char(letter),
            KeyCode::Backspace if alt || control => self.cut_to(self.word_left()),
            KeyCode::Backspace => self.text.delete_left_grapheme(),
            KeyCode::Delete if alt || control => self.cut_to(self.word_right()),
            KeyCode::Delete => self.text.delete_right_grapheme(),
            KeyCode::Left if alt || control => self.go(self.word_left()),
            KeyCode::Right if alt || control => self.go(self.word_right()),
            KeyCode::Left => self.text.move_left(),
            KeyCode::Right => self.text.move_right(),
            KeyCode::Home => self.text.move_to_line_start(),
            KeyCode::End => self.text.move_to_line_end(),
            KeyCode::Up => self.up(),
            KeyCode::Down => self.down(),
            _ => {}
        }
        Came::Nothing
    }

    /// The line with its cursor, in lines of so many columns, at most so many of them.
    pub(crate) fn live(&self, columns: usize, most: usize) -> Live {
        let (mut rows, (mut line, column)) = self.laid_out(columns.max(4));
        let most = most.max(1);
        if rows.len() > most {
            let first = (line + 1).saturating_sub(most);
            rows = rows.into_iter().skip(first).take(most).collect();
            line -= first;
        }
        if let Some(menu) = &self.menu {
            let first = (menu.chosen.unwrap_or(0) + 1).saturating_sub(CHOICES);
            for (at, it) in menu.choices.iter().enumerate().skip(first).take(CHOICES) {
                let style = if menu.chosen == Some(at) { Style::BOLD } else { Style::DIM };
                let about = if it.about.is_empty() { "" } else { "  " };
                let choice = format!("  {}{about}{}", harmless(&it.word), it.about);
                rows.push(Row::new(choice, style).cut(columns));
            }
            let more = menu.choices.len().saturating_sub(first + CHOICES);
            if more > 0 {
                rows.push(Row::new(format!("  and {more} more"), Style::DIM).cut(columns));
            }
        }
        Live { rows, cursor: Some((line, column)) }
    }

    /// All of the line, and where in it the cursor is.
    fn laid_out(&self, columns: usize) -> (Vec<Row>, (usize, usize)) {
        let text = self.text.get_buffer();
        let mut rows = vec![Row::new(MARK, Style::BOLD)];
        let (mut used, mut at) = (MARK.len(), 0);
        let mut cursor = (0, used);
        loop {
            if at == self.text.insertion_point() {
                cursor = (rows.len() - 1, used);
            }
            let next = self.text.grapheme_right_index_from_pos(at);
            let Some(letter) = text.get(at..next).filter(|it| !it.is_empty()) else { break };
            let shown = if letter == "\n" { String::new() } else { harmless(letter) };
            let wide = width(&shown);
            if letter == "\n" || used + wide > columns {
                rows.push(Row::new("  ", Style::PLAIN));
                used = 2;
                if at == self.text.insertion_point() && letter != "\n" {
                    cursor = (rows.len() - 1, used);
                }
            }
            if let Some(row) = rows.pop() {
                rows.push(row.with(shown, Style::PLAIN));
            }
            used += wide;
            at = next;
        }
        (rows, cursor)
    }

    fn enter(&mut self, modifiers: KeyModifiers) -> Came {
        if modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT) {
            self.text.insert_newline();
            return Came::Nothing;
        }
        // A line that ends with a backslash goes on.
        if let Some(before) = self.text.get_buffer().strip_suffix('\\') {
            let before = format!("{before}\n");
            self.put(before);
            return Came::Nothing;
        }
        let line = self.text.get_buffer().to_owned();
        self.remembered.add(&line);
        self.clear();
        Came::Line(line)
    }

    fn control(&mut self, letter: char) -> Came {
        match letter {
            'a' => self.text.move_to_line_start(),
            'b' => self.text.move_left(),
            'd' if self.is_empty() => return Came::End,
            'd' => self.text.delete_right_grapheme(),
            'e' => self.text.move_to_line_end(),
            'f' => self.text.move_right(),
            'h' => self.text.delete_left_grapheme(),
            'j' => self.text.insert_newline(),
            'k' => self.cut_to(self.text.find_current_line_end()),
            'l' => return Came::Wipe,
            'n' => self.down(),
            'p' => self.up(),
            'r' => self.look_for(),
            't' => self.text.swap_graphemes(),
            'u' => self.cut_to(self.text.line_start_index()),
            'w' => self.cut_to(self.blank_left()),
            'y' => self.text.insert_str(&self.cut),
            _ => {}
        }
        Came::Nothing
    }

    fn put(&mut self, text: String) {
        self.text.set_buffer(text);
        self.text.move_to_end();
    }

    fn go(&mut self, to: usize) {
        self.text.set_insertion_point(to);
    }

    /// Cuts out what is between the cursor and there.
    fn cut_to(&mut self, to: usize) {
        let at = self.text.insertion_point();
        let range = to.min(at)..to.max(at);
        let Some(cut) = self.text.get_buffer().get(range.clone()).filter(|it| !it.is_empty()) else { return };
        self.cut = cut.to_owned();
        self.text.clear_range_safe(range.clone());
        self.text.set_insertion_point(range.start);
    }

    fn word_left(&self) -> usize {
        let before = self.text.get_buffer().get(..self.text.insertion_point()).unwrap_or_default();
        let word = before.trim_end_matches(|it: char| !it.is_alphanumeric());
        word.trim_end_matches(char::is_alphanumeric).len()
    }

    fn word_right(&self) -> usize {
        let after = self.text.get_buffer().get(self.text.insertion_point()..).unwrap_or_default();
        let word = after.trim_start_matches(|it: char| !it.is_alphanumeric());
        self.text.len() - word.trim_start_matches(char::is_alphanumeric).len()
    }

    fn blank_left(&self) -> usize {
        let before = self.text.get_buffer().get(..self.text.insertion_point()).unwrap_or_default();
        before.trim_end().trim_end_matches(|it: char| !it.is_whitespace()).len()
    }

    fn up(&mut self) {
        if self.text.is_cursor_at_first_line() {
            let at = self.looking.as_ref().map_or(self.remembered.len(), |it| it.at);
            self.look_at(at.checked_sub(1));
        } else {
            self.text.move_line_up();
        }
    }

    fn down(&mut self) {
        if !self.text.is_cursor_at_last_line() {
            self.text.move_line_down();
            return;
        }
        let Some(looking) = &self.looking else { return };
        let next = looking.at + 1;
        if next < self.remembered.len() {
            self.look_at(Some(next));
        } else if let Some(looking) = self.looking.take() {
            self.put(looking.draft);
        }
    }

    /// The next older line that has in it what was typed.
    fn look_for(&mut self) {
        let (at, part) = match &self.looking {
            Some(looking) => (looking.at, looking.draft.clone()),
            None => (self.remembered.len(), self.text.get_buffer().to_owned()),
        };
        self.look_at(self.remembered.before(at, &part));
    }

    fn look_at(&mut self, at: Option<usize>) {
        let Some((at, line)) = at.and_then(|at| Some((at, self.remembered.get(at)?.to_owned()))) else {
            return;
        };
        let draft = match self.looking.take() {
            Some(looking) => looking.draft,
            None => self.text.get_buffer().to_owned(),
        };
        self.looking = Some(Looking { at, draft });
        self.put(line);
    }

    fn complete(&mut self, menu: Option<Menu>, forwards: bool) {
        let pos = self.text.insertion_point();
        if let Some(mut menu) = menu {
            let last = menu.choices.len().saturating_sub(1);
            let chosen = match (menu.chosen, forwards) {
                (None, true) => 0,
                (None, false) => last,
                (Some(at), true) => {
                    if at == last {
                        0
                    } else {
                        at + 1
                    }
                }
                (Some(at), false) => at.checked_sub(1).unwrap_or(last),
            };
            if let Some(choice) = menu.choices.get(chosen) {
                self.text.replace_range(menu.start..pos, &choice.word);
                self.text.set_insertion_point(menu.start + choice.word.len());
                menu.chosen = Some(chosen);
                self.menu = Some(menu);
            }
            return;
        }
        let (start, choices) = self.words.offered(self.text.get_buffer(), pos);
        let Some(first) = choices.first() else { return };
        let alone = choices.len() == 1;
        let begins = choices.iter().fold(first.word.as_str(), |begins, it| common(begins, &it.word));
        let word = format!("{begins}{}", if alone && first.ends { " " } else { "" });
        if word.len() >= pos - start {
            self.text.replace_range(start..pos, &word);
            self.text.set_insertion_point(start + word.len());
        }
        if !alone {
            self.menu = Some(Menu { start, choices, chosen: None });
        }
    }
}

/// What both begin with.
fn common<'a>(one: &'a str, other: &str) -> &'a str {
    let differs = one.char_indices().zip(other.chars()).find(|((_, one), other)| one != other);
    let end = differs.map_or(one.len().min(other.len()), |((at, _), _)| at);
    one.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn line() -> Line {
        Line::new(Remembered::default(), Words::new("/nowhere".into()))
    }

    /// Presses these: a letter alone, or with `^` for control and `!` for alt before it.
    fn press(line: &mut Line, keys: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let mut letters = keys.chars();
        while let Some(letter) = letters.next() {
            let key = match letter {
                '\n' => KeyEvent::from(KeyCode::Enter),
                '\t' => KeyEvent::from(KeyCode::Tab),
                '↑' => KeyEvent::from(KeyCode::Up),
                '↓' => KeyEvent::from(KeyCode::Down),
                '←' => KeyEvent::from(KeyCode::Left),
                '^' => KeyEvent::new(KeyCode::Char(letters.next().unwrap()), KeyModifiers::CONTROL),
                '!' => KeyEvent::new(KeyCode::Char(letters.next().unwrap()), KeyModifiers::ALT),
                other => KeyEvent::from(KeyCode::Char(other)),
            };
            if let Came::Line(done) = line.key(key) {
                lines.push(done);
            }
        }
        lines
    }

    fn seen(line: &Line, columns: usize) -> (Vec<String>, Option<(usize, usize)>) {
        let live = line.live(columns, 4);
        (live.rows.iter().map(Row::text).collect(), live.cursor)
    }

    #[test]
    fn keys_edit_the_line() {
        for (keys, done) in [
            ("one two^wthree\n", "one three"),
            ("one two!b^k^a^y \n", "two one "),
            ("one two^aX!f.^e!\n", "Xone. two!"),
            ("ab←^d^hc\n", "c"),
            ("one\\\ntwo^jthree\n", "one\ntwo\nthree"),
            ("a.b c!b!bx^uy\n", "yb c"),
        ] {
            // A lone `!` before the return key is a letter here.
            let mut line = line();
            let keys = keys.replace("!\n", "\u{ff01}\n");
            assert_eq!(press(&mut line, &keys), [done.replace("two!", "two\u{ff01}")], "{keys:?}");
            assert!(line.is_empty());
        }
    }

    #[test]
    fn earlier_lines_come_back_and_so_does_what_was_typed() {
        let mut line = line();
        press(&mut line, "make test\nls\nmake\n");
        assert_eq!(press(&mut line, "new↑↑↓↓!\u{ff01}\n"), ["new\u{ff01}"]);
        assert_eq!(press(&mut line, "test^r\n"), ["make test"]);
        assert_eq!(press(&mut line, "↑↑↑\n"), ["make"]);
    }

    #[test]
    fn a_long_line_is_cut_and_the_cursor_is_where_the_next_letter_comes() {
        let mut line = line();
        assert_eq!(seen(&line, 20), (vec!["> ".to_owned()], Some((0, 2))));
        press(&mut line, "abcdef");
        assert_eq!(seen(&line, 6), (vec!["> abcd".to_owned(), "  ef".to_owned()], Some((1, 4))));
        press(&mut line, "^j日←");
        assert_eq!(seen(&line, 6).1, Some((2, 2)));
        line.paste("x\u{1b}[2J\r\ny");
        assert_eq!(seen(&line, 40).0, ["> abcdef", "  x\\u{1b}[2J", "  y日"]);
        line.begin_with("before");
        assert_eq!(press(&mut line, "z\n"), ["before\nabcdef\nx\u{1b}[2J\nyz日"]);
    }

    #[test]
    fn words_are_completed_as_far_as_they_are_known_and_then_one_after_the_other() {
        let mut line = line();
        press(&mut line, "/mo\t");
        assert_eq!(seen(&line, 40).0, ["> /model "]);
        line.clear();
        press(&mut line, "/c\t");
        assert_eq!(seen(&line, 40).0.len(), 3);
        press(&mut line, "\t\t");
        assert_eq!(seen(&line, 40).0.first().map(String::as_str), Some("> /clear"));
        assert_eq!(press(&mut line, "\n"), [""; 0], "the choice is taken first");
        assert_eq!(press(&mut line, "\n"), ["/clear"]);
    }
}
