//! The terminal's screen: the only module that draws there.
//!
//! Permanent rows are written once and scroll away. The live area stands below them, and is redrawn in place. The pager has
//! the whole alternate screen; permanent rows that arrive meanwhile are written after it.

use std::{
    fmt::Write as _,
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use super::row::Row;

/// The alternate screen is shown.
static FULL: AtomicBool = AtomicBool::new(false);

/// Enters the empty alternate screen without a cursor, and leaves it again.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[2J";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// Begins and ends a synchronised update. Terminals without that feature ignore it.
const BEGINS: &str = "\u{1b}[?2026h";
const ENDS: &str = "\u{1b}[?2026l";

/// Leaves the alternate screen at the end of the process.
pub(crate) fn leave() {
    if FULL.swap(false, Ordering::AcqRel) {
        let mut out = io::stdout().lock();
        // A terminal that is gone needs no restoring.
        let _ = out.write_all(format!("{BEGINS}{LEAVE}{ENDS}").as_bytes()).and_then(|()| out.flush());
    }
}

/// The terminal, as it was drawn last.
pub(crate) struct Screen {
    colours: bool,
    columns: usize,
    lines: usize,
    /// The live area.
    live: Live,
    /// The rows of the alternate screen, while it is shown.
    full: Option<Vec<Row>>,
    /// Permanent rows and pictures that are written after the alternate screen is left or the terminal is taken back.
    later: Vec<Later>,
    /// The terminal is gone: a write failed.
    gone: bool,
    /// Another program has the terminal: permanent rows wait.
    away: bool,
    /// The permanent rows end with an empty line.
    parted: bool,
}

/// A row or a picture that is still to be written.
enum Later {
    Row(Row),
    Picture(String),
}

/// The live area, with the line and column of its cursor; without one, the cursor is at the end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) rows: Vec<Row>,
    pub(crate) cursor: Option<(usize, usize)>,
}

impl From<Vec<Row>> for Live {
    fn from(rows: Vec<Row>) -> Self {
        Self { rows, cursor: None }
    }
}

impl Live {
    /// Keeps the last `most` rows: the newest ones matter.
    fn fit(&mut self, most: usize) {
        let over = self.rows.len().saturating_sub(most);
        self.rows.drain(..over);
        self.cursor = self.cursor.map(|(line, column)| (line.saturating_sub(over), column));
    }

    /// Returns the line and column of the cursor.
    fn at(&self) -> (usize, usize) {
        let end = || (self.rows.len().saturating_sub(1), self.rows.last().map_or(0, Row::width));
        self.cursor.unwrap_or_else(end)
    }
}

impl Screen {
    pub(crate) fn new(colours: bool) -> Self {
        let (columns, lines) = crossterm::terminal::size().unwrap_or((80, 24));
        let mut screen = Self {
            colours,
            columns: 80,
            lines: 24,
            live: Live::default(),
            full: None,
            later: Vec::new(),
            gone: false,
            away: false,
            parted: true,
        };
        screen.resized(columns, lines);
        screen
    }

    /// Returns how many columns a line may take. The last one stays free: terminals differ in when they begin a new line.
    pub(crate) fn columns(&self) -> usize {
        self.columns.saturating_sub(1).max(2)
    }

    /// Returns whether colours are used.
    pub(crate) fn colours(&self) -> bool {
        self.colours
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    pub(crate) fn resized(&mut self, columns: u16, lines: u16) {
        // A terminal that does not know its size reports zero.
        if columns > 0 && lines > 0 {
            let is_other = (self.columns, self.lines) != (usize::from(columns), usize::from(lines));
            self.columns = usize::from(columns);
            self.lines = usize::from(lines);
            if is_other && let Some(rows) = &mut self.full {
                rows.clear();
            }
        }
    }

    /// Returns how many lines the terminal has.
    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    /// Returns whether the permanent rows end with an empty line.
    pub(crate) fn is_parted(&self) -> bool {
        self.parted
    }

    /// Writes permanent rows, and draws the live area below them.
    pub(crate) fn draw(&mut self, stays: &[Row], live: impl Into<Live>) {
        if let Some(last) = stays.last() {
            self.parted = last.width() == 0;
        }
        if self.full.is_some() || self.away {
            self.later.extend(stays.iter().cloned().map(Later::Row));
            return;
        }
        let mut live = live.into();
        live.fit(self.lines.saturating_sub(1).max(1));
        if stays.is_empty() && live == self.live {
            return;
        }
        let frame = frame(&self.live, stays, &live, self.columns, self.colours);
        self.write(&frame);
        self.live = live;
    }

    /// Hands the terminal to another program. Nothing is drawn until [`come_back`](Self::come_back).
    pub(crate) fn give(&mut self) {
        self.draw(&[], Vec::new());
        self.away = true;
    }

    /// Takes the terminal back, and writes the rows that waited.
    pub(crate) fn come_back(&mut self) {
        self.away = false;
        self.live = Live::default();
        if let Ok((columns, lines)) = crossterm::terminal::size() {
            self.resized(columns, lines);
        }
        self.write_later();
    }

    /// Writes an invisible escape sequence: the bell, the title, the clipboard.
    pub(crate) fn signal(&mut self, escape: &str) {
        if !self.away {
            self.write(escape);
        }
    }

    /// Writes a picture, given as an escape sequence, as permanent output.
    pub(crate) fn picture(&mut self, escape: &str) {
        if self.full.is_some() || self.away {
            return self.later.push(Later::Picture(escape.to_owned()));
        }
        let clear = frame(&self.live, &[], &Live::default(), self.columns, self.colours);
        self.live = Live::default();
        self.write(&format!("{clear}{escape}\r\n"));
    }

    /// Shows these rows on the alternate screen, one for each line of the terminal.
    pub(crate) fn draw_full(&mut self, rows: Vec<Row>) {
        if self.full.as_ref() == Some(&rows) {
            return;
        }
        let mut frame = if self.full.is_none() { ENTER.to_owned() } else { String::new() };
        FULL.store(true, Ordering::Release);
        for (at, row) in rows.iter().enumerate() {
            // Writing to a string can't fail.
            let _ = write!(frame, "\u{1b}[{};1H{}\u{1b}[K", at + 1, row.painted(self.colours));
        }
        frame.push_str("\u{1b}[J");
        self.write(&frame);
        self.full = Some(rows);
    }

    /// Leaves the alternate screen, and writes the rows that waited.
    pub(crate) fn leave_full(&mut self) {
        if self.full.take().is_none() {
            return;
        }
        leave();
        self.write_later();
    }

    /// Writes the rows and pictures that waited.
    fn write_later(&mut self) {
        let mut rows = Vec::new();
        for later in std::mem::take(&mut self.later) {
            match later {
                Later::Row(row) => rows.push(row),
                Later::Picture(escape) => {
                    self.draw(&std::mem::take(&mut rows), Vec::new());
                    self.picture(&escape);
                }
            }
        }
        if !rows.is_empty() {
            self.draw(&rows, Vec::new());
        }
    }

    /// Clears the screen.
    pub(crate) fn wipe(&mut self) {
        self.write("\u{1b}[H\u{1b}[2J");
        self.live = Live::default();
    }

    /// Writes a synchronised update, to avoid flicker.
    fn write(&mut self, text: &str) {
        let mut out = io::stdout().lock();
        let frame = format!("{BEGINS}{text}{ENDS}");
        if out.write_all(frame.as_bytes()).and_then(|()| out.flush()).is_err() {
            self.gone = true;
        }
    }
}

/// Returns the text that replaces the live area `drawn` by the rows `stays`, with `live` below them.
fn frame(drawn: &Live, stays: &[Row], live: &Live, columns: usize, colours: bool) -> String {
    let mut frame = String::new();
    if !drawn.rows.is_empty() {
        let (line, column) = drawn.at();
        let columns = columns.max(1);
        // A terminal that became narrower has wrapped the lines.
        let cut: usize = drawn.rows.iter().take(line).map(|it| it.width().max(1).div_ceil(columns)).sum();
        frame.push('\r');
        up(&mut frame, cut + column / columns);
        frame.push_str("\u{1b}[J");
    }
    for row in stays {
        // Writing to a string can't fail.
        let _ = write!(frame, "{}\r\n", row.painted(colours));
    }
    let rows: Vec<String> = live.rows.iter().map(|it| it.painted(colours)).collect();
    frame.push_str(&rows.join("\r\n"));
    if let Some((line, column)) = live.cursor {
        up(&mut frame, live.rows.len().saturating_sub(line + 1));
        frame.push('\r');
        if column > 0 {
            let _ = write!(frame, "\u{1b}[{column}C");
        }
    }
    frame
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave_full();
    }
}

fn up(frame: &mut String, lines: usize) {
    if lines > 0 {
        let _ = write!(frame, "\u{1b}[{lines}A");
    }
}

#[cfg(test)]
mod tests {
    use kit::procs::Screen as Terminal;

    use super::*;
    use crate::terminal::row::Style;

    fn rows(texts: &[&str]) -> Vec<Row> {
        texts.iter().map(|it| Row::new(*it, Style::DIM)).collect()
    }

    #[test]
    fn what_stays_is_written_once_and_what_moves_is_drawn_in_its_place() {
        let mut terminal = Terminal::new(6, 20);
        let frames: [(&[&str], &[&str]); 5] = [
            (&["one"], &["a", "b"]),
            (&[], &["a2", "b2", "c2"]),
            (&["two", "three"], &["d"]),
            (&["four"], &[]),
            (&["five", "six"], &["e"]),
        ];
        let mut drawn = Live::default();
        let mut seen = Vec::new();
        for (stays, live) in frames {
            let live = Live { cursor: (live.len() > 1).then_some((1, 1)), rows: rows(live) };
            let _ = terminal.draw(frame(&drawn, &rows(stays), &live, 20, true).as_bytes());
            drawn = live;
            seen.push(terminal.text().trim_end().replace('\n', "|"));
        }
        assert_eq!(
            seen,
            ["one|a|b", "one|a2|b2|c2", "one|two|three|d", "one|two|three|four", "two|three|four|five|six|e"]
        );
    }
}
