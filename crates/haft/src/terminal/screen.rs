//! How does what is seen get onto the terminal? This is the one place that draws there, beside the line editor.
//!
//! What stays is written once and scrolls away. What is in motion stands below it, and is drawn anew in its place.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use super::row::Row;

/// The terminal, as it was drawn last.
pub(crate) struct Screen {
    colours: bool,
    columns: usize,
    lines: usize,
    /// What is in motion.
    live: Vec<Row>,
    /// Nobody sees it any more.
    gone: bool,
}

impl Screen {
    pub(crate) fn new(colours: bool) -> Self {
        let (columns, lines) = crossterm::terminal::size().unwrap_or((80, 24));
        let mut screen = Self { colours, columns: 80, lines: 24, live: Vec::new(), gone: false };
        screen.resized(columns, lines);
        screen
    }

    /// How many columns a line may take. The last one stays free: terminals differ in when they begin a new line.
    pub(crate) fn columns(&self) -> usize {
        self.columns.saturating_sub(1).max(2)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    pub(crate) fn resized(&mut self, columns: u16, lines: u16) {
        // A terminal that does not know its size says that it has none.
        if columns > 0 && lines > 0 {
            self.columns = usize::from(columns);
            self.lines = usize::from(lines);
        }
    }

    /// Writes what stays, and draws what is in motion below it.
    pub(crate) fn draw(&mut self, stays: &[Row], mut live: Vec<Row>) {
        let most = self.lines.saturating_sub(1).max(1);
        // The newest of it is what counts.
        live.drain(..live.len().saturating_sub(most));
        if stays.is_empty() && live == self.live {
            return;
        }
        let frame = frame(&self.live, stays, &live, self.columns, self.colours);
        self.write(&frame);
        self.live = live;
    }

    /// Writes a picture, in the words of the terminal, as something that stays.
    pub(crate) fn picture(&mut self, escape: &str) {
        let clear = frame(&self.live, &[], &[], self.columns, self.colours);
        self.live.clear();
        self.write(&format!("{clear}{escape}\r\n"));
    }

    /// Something else has drawn below what stays: nothing is in motion any more.
    pub(crate) fn clear_line(&mut self) {
        self.write("\r\u{1b}[J");
        self.live.clear();
    }

    fn write(&mut self, text: &str) {
        let mut out = io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            self.gone = true;
        }
    }
}

/// What to write so that `stays` stands above `live`, in the place of what was `drawn`.
fn frame(drawn: &[Row], stays: &[Row], live: &[Row], columns: usize, colours: bool) -> String {
    let mut frame = String::new();
    if !drawn.is_empty() {
        // A terminal that became narrower has cut the lines in two.
        let height: usize = drawn.iter().map(|it| it.width().max(1).div_ceil(columns.max(1))).sum();
        frame.push('\r');
        if height > 1 {
            // Writing to a string can't fail.
            let _ = write!(frame, "\u{1b}[{}A", height - 1);
        }
        frame.push_str("\u{1b}[J");
    }
    for row in stays {
        let _ = write!(frame, "{}\r\n", row.painted(colours));
    }
    let live: Vec<String> = live.iter().map(|it| it.painted(colours)).collect();
    frame.push_str(&live.join("\r\n"));
    frame
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
        let mut drawn = Vec::new();
        let mut seen = Vec::new();
        for (stays, live) in frames {
            let live = rows(live);
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
