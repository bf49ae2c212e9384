//! Rows of the screen: styled text that is measured, cut, wrapped and painted. The text of a row can't act on the terminal.

use std::{
    fmt::Write as _,
    ops::Range,
    sync::atomic::{AtomicU8, Ordering},
};

use kit::escape::visible;
use runtime::config::Theme;
use unicode_width::UnicodeWidthChar;

/// The attributes of a piece of text. Colours are the terminal's own sixteen, so that they follow its theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Style {
    pub(crate) bold: bool,
    pub(crate) dim: bool,
    pub(crate) italic: bool,
    pub(crate) underline: bool,
    pub(crate) strike: bool,
    /// Swaps foreground and background.
    pub(crate) reverse: bool,
    pub(crate) code: bool,
    pub(crate) tint: Tint,
}

/// A colour, named by its purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tint {
    #[default]
    None,
    Good,
    Bad,
    Asks,
    /// A keyword of a programming language.
    Keyword,
    /// A string literal.
    Literal,
    /// A number or another constant.
    Number,
    /// The name of a function, a key or a tag.
    Name,
}

/// The theme of the whole process: there is one terminal.
static THEME: AtomicU8 = AtomicU8::new(0);

/// Sets the theme of the process.
pub(crate) fn set_theme(theme: Theme) {
    let number = match theme {
        Theme::Dark | Theme::None => 0,
        Theme::Light => 1,
        Theme::ColorBlind => 2,
    };
    THEME.store(number, Ordering::Relaxed);
}

impl Tint {
    /// Returns the SGR code of the colour in this theme; empty if it has none.
    fn code(self, theme: u8) -> &'static str {
        let [dark, light, color_blind] = match self {
            Self::None => ["", "", ""],
            Self::Good => ["32", "32", "94"],
            Self::Bad => ["31", "31", "33"],
            Self::Asks => ["33", "35", "35"],
            Self::Keyword => ["35", "34", "35"],
            Self::Literal => ["32", "32", "36"],
            Self::Number => ["36", "36", "36"],
            Self::Name => ["94", "34", "94"],
        };
        match theme {
            1 => light,
            2 => color_blind,
            _ => dark,
        }
    }
}

impl Style {
    pub(crate) const DIM: Self = Self { dim: true, ..Self::PLAIN };
    pub(crate) const BOLD: Self = Self { bold: true, ..Self::PLAIN };
    pub(crate) const GOOD: Self = Self { tint: Tint::Good, ..Self::PLAIN };
    pub(crate) const BAD: Self = Self { tint: Tint::Bad, ..Self::PLAIN };
    pub(crate) const ASKS: Self = Self { tint: Tint::Asks, bold: true, ..Self::PLAIN };
    pub(crate) const PLAIN: Self = Self {
        bold: false,
        dim: false,
        italic: false,
        underline: false,
        strike: false,
        reverse: false,
        code: false,
        tint: Tint::None,
    };

    /// Returns plain text in this colour.
    pub(crate) const fn tinted(tint: Tint) -> Self {
        Self { tint, ..Self::PLAIN }
    }

    fn codes(self) -> String {
        // Code in a text has the colour of a constant.
        let tint = if self.code && self.tint == Tint::None { Tint::Number } else { self.tint };
        let tint = tint.code(THEME.load(Ordering::Relaxed));
        let on = [
            (self.bold, "1"),
            (self.dim, "2"),
            (self.italic, "3"),
            (self.underline, "4"),
            (self.reverse, "7"),
            (self.strike, "9"),
            (!tint.is_empty(), tint),
        ];
        on.iter().filter(|(on, _)| *on).map(|(_, code)| *code).collect::<Vec<_>>().join(";")
    }
}

/// A line of text with styles.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Row {
    spans: Vec<(String, Style)>,
}

impl Row {
    /// Creates a line in one style.
    pub(crate) fn new(text: impl Into<String>, style: Style) -> Self {
        Self::default().with(text, style)
    }

    /// Appends text in this style.
    #[must_use]
    pub(crate) fn with(mut self, text: impl Into<String>, style: Style) -> Self {
        self.push(&text.into(), style);
        self
    }

    fn push(&mut self, text: &str, style: Style) {
        match self.spans.last_mut() {
            _ if text.is_empty() => {}
            Some((before, its)) if *its == style => before.push_str(text),
            _ => self.spans.push((text.to_owned(), style)),
        }
    }

    /// Returns how many columns the line takes.
    pub(crate) fn width(&self) -> usize {
        self.spans.iter().map(|(text, _)| width(text)).sum()
    }

    /// Cuts the line to `columns` columns; `…` replaces the rest.
    #[must_use]
    pub(crate) fn cut(self, columns: usize) -> Self {
        if self.width() <= columns {
            return self;
        }
        let mut left = columns.saturating_sub(1);
        let mut row = Self::default();
        for (text, style) in self.spans {
            let (kept, whole) = head(&text, left);
            left -= width(kept);
            row.push(kept, style);
            if !whole {
                row.push("…", style);
                break;
            }
        }
        row
    }

    /// Wraps the line to `columns` columns, between words where possible; continuation lines are indented by `indent` columns.
    pub(crate) fn wrapped(&self, columns: usize, indent: usize) -> Vec<Self> {
        let letters = self.letters();
        let lines = wrap(&letters, columns, indent, true);
        lines
            .iter()
            .map(|it| {
                of_letters(
                    letters.get(it.clone()).unwrap_or_default(),
                    if it.start == 0 { 0 } else { indent },
                )
            })
            .collect()
    }

    /// Returns the letters of the row, each with its style.
    pub(crate) fn letters(&self) -> Vec<Letter> {
        let spans = self.spans.iter();
        spans
            .flat_map(|(text, style)| text.chars().map(|letter| Letter { letter, style: *style, end: 0 }))
            .collect()
    }

    /// Highlights all occurrences of a text, which is in lower case.
    #[must_use]
    pub(crate) fn marked(&self, wanted: &str) -> Self {
        let wanted: Vec<char> = wanted.chars().collect();
        let mut letters = self.letters();
        let lower: Vec<char> =
            letters.iter().map(|it| it.letter.to_lowercase().next().unwrap_or(it.letter)).collect();
        let mut until = 0;
        for (at, letter) in letters.iter_mut().enumerate() {
            if !wanted.is_empty() && lower.get(at..).is_some_and(|it| it.starts_with(&wanted)) {
                until = at + wanted.len();
            }
            letter.style.reverse |= at < until;
        }
        of_letters(&letters, 0)
    }

    /// Appends another line.
    #[must_use]
    pub(crate) fn and(mut self, other: Self) -> Self {
        for (text, style) in other.spans {
            self.push(&text, style);
        }
        self
    }

    /// Splits the text at line breaks, and wraps each line to `columns` columns.
    pub(crate) fn lines(&self, columns: usize) -> Vec<Self> {
        let mut lines = vec![Self::default()];
        for (text, style) in &self.spans {
            for (at, piece) in text.split('\n').enumerate() {
                if at > 0 {
                    lines.push(Self::default());
                }
                if let Some(line) = lines.last_mut() {
                    line.push(&harmless(piece), *style);
                }
            }
        }
        lines.iter().flat_map(|it| it.wrapped(columns, 2)).collect()
    }

    /// Returns the text without its styles.
    pub(crate) fn text(&self) -> String {
        self.spans.iter().map(|(text, _)| text.as_str()).collect()
    }

    /// Returns the text with its escape sequences for the terminal. The letters themselves are escaped.
    pub(crate) fn painted(&self, colours: bool) -> String {
        let mut painted = String::new();
        for (text, style) in &self.spans {
            let text = harmless(text);
            let codes = if colours { style.codes() } else { String::new() };
            // Writing to a string can't fail.
            let _ = if codes.is_empty() {
                write!(painted, "{text}")
            } else {
                write!(painted, "\u{1b}[{codes}m{text}\u{1b}[0m")
            };
        }
        painted
    }
}

/// Escapes a text so that nothing in it acts on a terminal; the result is one line.
pub(crate) fn harmless(text: &str) -> String {
    let (text, _) = visible(text);
    text.replace('\t', "    ").replace('\r', "\\r").replace('\n', "\\n")
}

/// A letter with its style, for wrapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Letter {
    pub(crate) letter: char,
    pub(crate) style: Style,
    /// The offset at which it ends in its source.
    pub(crate) end: usize,
}

/// Returns the range of letters of each line of `columns` columns; lines after the first are narrower by `indent`.
pub(crate) fn wrap(letters: &[Letter], columns: usize, indent: usize, at_words: bool) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    let (mut start, mut used, mut blank) = (0, 0, None);
    let room =
        |lines: &Vec<_>| if lines.is_empty() { columns } else { columns.saturating_sub(indent) }.max(2);
    for (at, it) in letters.iter().enumerate() {
        let wide = columns_of(it.letter);
        if used + wide > room(&lines) && at > start {
            if at_words && it.letter == ' ' {
                lines.push(start..at + 1);
                (start, used, blank) = (at + 1, 0, None);
                continue;
            }
            // A blank at the end of a line takes no column.
            let end = blank.filter(|_| at_words).map_or(at, |blank: usize| blank + 1);
            lines.push(start..end);
            start = end;
            used = letters.get(start..at).unwrap_or_default().iter().map(|it| columns_of(it.letter)).sum();
            blank = None;
        }
        used += wide;
        if it.letter == ' ' && letters.get(start..at).unwrap_or_default().iter().any(|it| it.letter != ' ') {
            blank = Some(at);
        }
    }
    if start < letters.len() || lines.is_empty() {
        lines.push(start..letters.len());
    }
    lines
}

/// Creates a line from these letters, indented by `indent` columns.
pub(crate) fn of_letters(letters: &[Letter], indent: usize) -> Row {
    let mut row = Row::default();
    row.push(&" ".repeat(indent), Style::PLAIN);
    let last = letters.iter().rposition(|it| it.letter != ' ').map_or(0, |it| it + 1);
    for it in letters.get(..last).unwrap_or_default() {
        row.push(it.letter.encode_utf8(&mut [0; 4]), it.style);
    }
    row
}

/// Returns how many columns a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

fn columns_of(letter: char) -> usize {
    letter.width().unwrap_or(0)
}

/// Returns the part of the beginning that fits, and whether that is all.
pub(crate) fn head(text: &str, columns: usize) -> (&str, bool) {
    let mut used = 0;
    for (at, letter) in text.char_indices() {
        used += columns_of(letter);
        if used > columns {
            return (text.get(..at).unwrap_or_default(), false);
        }
    }
    (text, true)
}

/// Returns the part of the end that fits.
pub(crate) fn tail(text: &str, columns: usize) -> &str {
    let mut used = 0;
    for (at, letter) in text.char_indices().rev() {
        used += columns_of(letter);
        if used > columns {
            return text.get(at + letter.len_utf8()..).unwrap_or_default();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_to_columns_and_never_into_a_letter() {
        let row = Row::new("日本語 text", Style::PLAIN);
        assert_eq!(row.width(), 11);
        assert_eq!(row.clone().cut(6).text(), "日本…");
        assert_eq!(row.clone().cut(11).text(), "日本語 text");
        assert_eq!(row.cut(0).text(), "…");
        assert_eq!((head("añb", 2), tail("añb", 2)), (("añ", false), "ñb"));
    }

    #[test]
    fn lines_are_cut_between_words_and_long_words_anyhow() {
        let lines = |text: &str, columns, indent| -> Vec<String> {
            Row::new(text, Style::PLAIN).wrapped(columns, indent).iter().map(Row::text).collect()
        };
        assert_eq!(lines("one two three", 8, 0), ["one two", "three"]);
        assert_eq!(lines("one two three", 7, 2), ["one two", "  three"]);
        assert_eq!(lines("abcdefgh", 3, 0), ["abc", "def", "gh"]);
        assert_eq!(lines("", 3, 0), [""]);
        assert_eq!(lines("ab", 0, 5), ["ab"]);
    }

    #[test]
    fn what_is_good_and_what_is_bad_look_different_in_every_theme() {
        for theme in 0..3 {
            let code = |tint: Tint| tint.code(theme);
            assert!(![code(Tint::Good), code(Tint::Asks)].contains(&code(Tint::Bad)), "{theme}");
            assert_ne!(code(Tint::Good), code(Tint::Asks), "{theme}");
        }
        let light = |tint: Tint| tint.code(1);
        assert!(
            [Tint::Good, Tint::Bad, Tint::Asks, Tint::Keyword, Tint::Name]
                .iter()
                .all(|it| light(*it) != "33")
        );
    }

    #[test]
    fn nothing_in_a_line_acts_on_the_terminal() {
        let row = Row::new("a\u{1b}[2Jb\r\n\tc\u{7}\u{9b}", Style::BAD);
        assert_eq!(row.painted(false), "a\\u{1b}[2Jb\\r\\n    c\\u{7}\\u{9b}");
        assert_eq!(Row::new("x", Style::BAD).painted(true), "\u{1b}[31mx\u{1b}[0m");
    }
}
