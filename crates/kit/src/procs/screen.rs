//! Terminal screens: the text that a person at the terminal would see.

use std::{num::NonZeroU16, ops::Range};

use vt100::{Callbacks, Parser};

use super::keys::Cursor;

/// The smallest and the largest terminal.
const ROWS: (u16, u16) = (2, 200);
const COLS: (u16, u16) = (10, 400);

/// A terminal's screen, drawn from what a program wrote to it.
pub struct Screen {
    parser: Parser<Questions>,
}

/// Answers the queries that a program sends to its terminal.
#[derive(Default)]
struct Questions {
    answers: Vec<u8>,
}

impl Screen {
    /// Creates an empty screen; a size outside the limits is brought to the nearest.
    pub fn new(rows: u16, cols: u16) -> Self {
        let (rows, cols) = Self::size(rows, cols);
        let size = |it| NonZeroU16::new(it).unwrap_or(NonZeroU16::MIN);
        Self { parser: Parser::new_with_callbacks(size(rows), size(cols), 0, Questions::default()) }
    }

    /// Returns the nearest size within the limits.
    pub fn size(rows: u16, cols: u16) -> (u16, u16) {
        (rows.clamp(ROWS.0, ROWS.1), cols.clamp(COLS.0, COLS.1))
    }

    /// Draws output. Returns the terminal's answers to queries of the program: some programs wait for them.
    #[must_use]
    pub fn draw(&mut self, written: &[u8]) -> Vec<u8> {
        self.parser.process(written);
        std::mem::take(&mut self.parser.callbacks_mut().answers)
    }

    /// Returns the text, row by row, without trailing blanks and trailing blank rows.
    pub fn text(&self) -> String {
        self.text_hiding(&|_| Vec::new())
    }

    /// Returns the text with stars in place of the secrets that `find` returns. A line that the terminal has
    /// wrapped is searched as a whole.
    pub fn text_hiding(&self, find: &dyn Fn(&str) -> Vec<Range<usize>>) -> String {
        let (mut whole, mut breaks) = (String::new(), Vec::new());
        for (row, at) in self.rows().zip(0..) {
            if self.parser.screen().row_wrapped(at) {
                whole.push_str(&row);
                breaks.push(whole.len());
            } else {
                whole.push_str(row.trim_end());
                whole.push('\n');
            }
        }
        let secrets = find(&whole);
        let mut text = String::with_capacity(whole.len());
        for (at, letter) in whole.char_indices() {
            if breaks.contains(&at) {
                text.push('\n');
            }
            let is_secret = letter != '\n' && secrets.iter().any(|it| it.contains(&at));
            text.push(if is_secret { '*' } else { letter });
        }
        text.truncate(text.trim_end_matches('\n').len());
        text
    }

    /// Returns the text up to the cursor, with the blanks before it: it ends in a prompt, such as `> `, when
    /// the program waits for input.
    pub fn before_cursor(&self) -> String {
        let (row, col) = self.parser.screen().cursor_position();
        let mut text = String::new();
        for above in self.rows().take(row.into()) {
            text.push_str(above.trim_end());
            text.push('\n');
        }
        text.push_str(&self.parser.screen().rows(0, col).nth(row.into()).unwrap_or_default());
        text
    }

    fn rows(&self) -> impl Iterator<Item = String> + '_ {
        let (_, cols) = self.parser.screen().size();
        self.parser.screen().rows(0, cols.get())
    }

    /// Returns the cursor's row and column from 1; `None` if the program hides it.
    pub fn cursor(&self) -> Option<(u16, u16)> {
        let screen = self.parser.screen();
        let (row, col) = screen.cursor_position();
        (!screen.hide_cursor()).then_some((row + 1, col + 1))
    }

    /// Returns whether a program uses the whole screen, as an editor does.
    pub fn is_full(&self) -> bool {
        self.parser.screen().alternate_screen()
    }

    /// Returns the encoding of cursor keys that the program expects.
    pub fn cursor_keys(&self) -> Cursor {
        if self.parser.screen().application_cursor() { Cursor::Application } else { Cursor::Normal }
    }
}

impl Callbacks for Questions {
    fn unhandled_csi(
        &mut self,
        screen: &mut vt100::Screen,
        intermediate: Option<u8>,
        _: Option<u8>,
        params: &[&[u16]],
        kind: char,
    ) {
        let first = params.first().and_then(|it| it.first()).copied().unwrap_or(0);
        match (intermediate, kind, first) {
            (None, 'n', 5) => self.answers.extend(b"\x1b[0n"),
            (None, 'n', 6) => {
                let (row, col) = screen.cursor_position();
                self.answers.extend(format!("\x1b[{};{}R", row + 1, col + 1).bytes());
            }
            // Identifies as a VT220 with colours.
            (None, 'c', 0) => self.answers.extend(b"\x1b[?62;22c"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(written: &str) -> String {
        let mut screen = Screen::new(5, 20);
        let _ = screen.draw(written.as_bytes());
        screen.text()
    }

    #[test]
    fn shows_the_final_screen_without_control_sequences() {
        assert_eq!(shown("one\r\ntwo\r\n"), "one\ntwo");
        assert_eq!(shown("\x1b[31mred\x1b[0m   \r\n"), "red");
        assert_eq!(shown("10%\r20%\r100%\r\n"), "100%");
        assert_eq!(shown("old\x1b[2J\x1b[H\r\nnew"), "\nnew");
        assert_eq!(shown("1\r\n2\r\n3\r\n4\r\n5\r\n6"), "2\n3\n4\n5\n6");
        assert_eq!(shown(""), "");
    }

    #[test]
    fn a_prompt_keeps_the_blank_before_the_cursor() {
        let mut screen = Screen::new(5, 20);
        let _ = screen.draw(b"one  \r\n>>> ");
        assert_eq!(screen.text(), "one\n>>>");
        assert_eq!(screen.before_cursor(), "one\n>>> ");
        let _ = screen.draw(b"x\r\n\x1b[1;4H");
        assert_eq!(screen.before_cursor(), "one");
    }

    #[test]
    fn a_character_in_two_pieces_is_one() {
        let mut screen = Screen::new(5, 20);
        let [first, rest @ ..] = "é".as_bytes() else { unreachable!() };
        let _ = screen.draw(&[*first]);
        let _ = screen.draw(rest);
        assert_eq!(screen.text(), "é");
    }

    #[test]
    fn terminal_queries_are_answered() {
        let mut screen = Screen::new(5, 20);
        assert_eq!(screen.draw(b"ab\x1b[6n"), b"\x1b[1;3R");
        assert_eq!(screen.draw(b"\x1b[c"), b"\x1b[?62;22c");
        assert_eq!(screen.draw(b"plain"), b"");
    }

    #[test]
    fn knows_an_editor_and_its_cursor() {
        let mut screen = Screen::new(5, 20);
        assert_eq!((screen.is_full(), screen.cursor()), (false, Some((1, 1))));
        let _ = screen.draw(b"\x1b[?1049h\x1b[?1h\x1b[3;4Hx");
        assert_eq!((screen.is_full(), screen.cursor()), (true, Some((3, 5))));
        assert_eq!(screen.cursor_keys(), Cursor::Application);
        let _ = screen.draw(b"\x1b[?25l");
        assert_eq!(screen.cursor(), None);
    }

    #[test]
    fn terminal_sizes_are_clamped() {
        assert_eq!(Screen::size(0, 0), (2, 10));
        assert_eq!(Screen::size(u16::MAX, u16::MAX), (200, 400));
        assert_eq!(Screen::size(24, 80), (24, 80));
    }
}
