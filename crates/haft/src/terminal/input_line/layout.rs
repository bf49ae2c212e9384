//! Layout of the input line: wraps it into rows of a given width, and finds the cursor's place among them.

use super::{
    super::row::{Row, Style, harmless, width},
    buffer::Buffer,
    chips::Chips,
};

/// The style of a chip.
const CHIP: Style = Style { reverse: true, ..Style::DIM };

/// The prompt before the line.
const MARK: &str = "> ";

/// Returns all rows of the line, and the row and column of the cursor.
pub(super) fn laid_out(buffer: &Buffer, chips: &Chips, columns: usize) -> (Vec<Row>, (usize, usize)) {
    let text = buffer.text();
    let mut rows = vec![Row::new(MARK, Style::BOLD)];
    let (mut used, mut at) = (MARK.len(), 0);
    let mut cursor = (0, used);
    loop {
        if at == buffer.at() {
            cursor = (rows.len() - 1, used);
        }
        let next = buffer.next_letter(at);
        let Some(letter) = text.get(at..next).filter(|it| !it.is_empty()) else { break };
        let chip = chips.shown(letter);
        let style = if chip.is_some() { CHIP } else { Style::PLAIN };
        let shown = match chip {
            Some(chip) => harmless(&chip),
            None if letter == "\n" => String::new(),
            None => harmless(letter),
        };
        // A chip that is wider than the line is cut.
        let shown = Row::new(shown, style).cut(columns.saturating_sub(MARK.len()));
        let wide = shown.width();
        if letter == "\n" || used + wide > columns {
            rows.push(Row::new("  ", Style::PLAIN));
            used = MARK.len();
            if at == buffer.at() && letter != "\n" {
                cursor = (rows.len() - 1, used);
            }
        }
        if let Some(row) = rows.pop() {
            rows.push(row.and(shown));
        }
        used += wide;
        at = next;
    }
    (rows, cursor)
}

/// Returns at most `most` of these rows, those around the cursor.
pub(super) fn windowed(rows: Vec<Row>, cursor: (usize, usize), most: usize) -> (Vec<Row>, (usize, usize)) {
    let most = most.max(1);
    if rows.len() <= most {
        return (rows, cursor);
    }
    let first = (cursor.0 + 1).saturating_sub(most);
    let rows = rows.into_iter().skip(first).take(most).collect();
    (rows, (cursor.0 - first, cursor.1))
}

/// Returns how many columns a text takes.
pub(super) fn columns_of(text: &str) -> usize {
    width(text)
}
