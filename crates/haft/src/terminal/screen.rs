//! The terminal's screen: the one place that draws there.
//!
//! What stays is written once and scrolls away. What is in motion stands below it, and is drawn anew in its place. A text that is
//! read has the whole screen, the alternate one, for as long as that takes; what was to stay meanwhile is written after it.

use std::{
    fmt::Write as _,
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use super::row::Row;

/// The alternate screen is shown.
static FULL: AtomicBool = AtomicBool::new(false);

/// Enters the alternate screen, empty, without a cursor; and leaves it as it was before.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[2J";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// Begins and ends what is to be seen at once. Terminals that can't do that leave it out.
const BEGINS: &str = "\u{1b}[?2026h";
const ENDS: &str = "\u{1b}[?2026l";

/// Gives the terminal back its own screen, whoever has it now: for the end of the process.
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
    /// What is in motion.
    live: Live,
    /// What the alternate screen shows, while it is shown.
    full: Option<Vec<Row>>,
    /// What is to stay once the alternate screen is left, or the terminal is ours again.
    later: Vec<Later>,
    /// Nobody sees it any more.
    gone: bool,
    /// Another program has the terminal: what would be written waits.
    away: bool,
    /// What stays ends with an empty line.
    parted: bool,
}

/// Something that is to stay.
enum Later {
    Row(Row),
    Picture(String),
}

/// What is in motion, and the line and column of it that the cursor is at; without one, the end.
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
    /// Only the last of it, as many lines as there is room for: the newest is what counts.
    fn fit(&mut self, most: usize) {
        let over = self.rows.len().saturating_sub(most);
        self.rows.drain(..over);
        self.cursor = self.cursor.map(|(line, column)| (line.saturating_sub(over), column));
    }

    /// Where the cursor is.
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

    /// How many columns a line may take. The last one stays free: terminals differ in when they begin a new line.
    pub(crate) fn columns(&self) -> usize {
        self.columns.saturating_sub(1).max(2)
    }

    /// Are there colours?
    pub(crate) fn colours(&self) -> bool {
        self.colours
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    pub(crate) fn resized(&mut self, columns: u16, lines: u16) {
        // A terminal that does not know its size says that it has none.
        if columns > 0 && lines > 0 {
            let is_other = (self.columns, self.lines) != (usize::from(columns), usize::from(lines));
            self.columns = usize::from(columns);
            self.lines = usize::from(lines);
            if is_other && let Some(rows) = &mut self.full {
                rows.clear();
            }
        }
    }

    /// How many lines there are.
    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    /// Does what stays end with an empty line?
    pub(crate) fn is_parted(&self) -> bool {
        self.parted
    }

    /// Writes what stays, and draws what is in motion below it.
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

    /// Gives the terminal to another program. Nothing is drawn until it [comes back](Self::come_back).
    pub(crate) fn give(&mut self) {
        self.draw(&[], Vec::new());
        self.away = true;
    }

    /// Takes the terminal back, and writes what would have been written meanwhile.
    pub(crate) fn come_back(&mut self) {
        self.away = false;
        self.live = Live::default();
        if let Ok((columns, lines)) = crossterm::terminal::size() {
            self.resized(columns, lines);
        }
        self.write_later();
    }

    /// Writes what a terminal acts on and does not show: the bell, its title, its clipboard.
    pub(crate) fn signal(&mut self, escape: &str) {
        if !self.away {
            self.write(escape);
        }
    }

    /// Writes a picture, in the words of the terminal, as something that stays.
    pub(crate) fn picture(&mut self, escape: &str) {
        if self.full.is_some() || self.away {
            return self.later.push(Later::Picture(escape.to_owned()));
        }
        let clear = frame(&self.live, &[], &Live::default(), self.columns, self.colours);
        self.live = Live::default();
        self.write(&format!("{clear}{escape}\r\n"));
    }

    /// Shows these rows, one for each line of the terminal, and nothing else.
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

    /// Shows again what was seen before, and writes what was to stay meanwhile.
    pub(crate) fn leave_full(&mut self) {
        if self.full.take().is_none() {
            return;
        }
        leave();
        self.write_later();
    }

    /// Writes what was to stay.
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

    /// Wipes all that is seen.
    pub(crate) fn wipe(&mut self) {
        self.write("\u{1b}[H\u{1b}[2J");
        self.live = Live::default();
    }

    /// Writes a frame: a terminal that can shows it only once it is whole, so that nothing flickers.
    fn write(&mut self, text: &str) {
        let mut out = io::stdout().lock();
        let frame = format!("{BEGINS}{text}{ENDS}");
        if out.write_all(frame.as_bytes()).and_then(|()| out.flush()).is_err() {
            self.gone = true;
        }
    }
}

/// What to write so that `stays` stands above `live`, in the place of what was `drawn`.
fn frame(drawn: &Live, stays: &[Row], live: &Live, columns: usize, colours: bool) -> String {
    let mut frame = String::new();
    if !drawn.rows.is_empty() {
        let (line, column) = drawn.at();
        let columns = columns.max(1);
        // A terminal that became narrower has cut the lines in two.
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
