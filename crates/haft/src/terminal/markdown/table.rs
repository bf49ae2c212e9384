//! Markdown tables: fits columns to the width and wraps cells; on a narrow screen, each row becomes a record.

use pulldown_cmark::Alignment;

use crate::terminal::row::{Letter, Row, Style, of_letters, wrap};

/// The lines of a cell.
pub(super) type Cell = Vec<Vec<Letter>>;

/// A column is at least as wide as its longest word, up to this many columns.
const WORD: usize = 16;

/// Returns the rows of a table whose first row is its head.
pub(super) fn rows(table: &[Vec<Cell>], alignments: &[Alignment], room: usize) -> Vec<Row> {
    let count = table.iter().map(Vec::len).max().unwrap_or(0);
    if count == 0 {
        return Vec::new();
    }
    match widths(table, count, room) {
        Some(widths) => boxed(table, alignments, &widths),
        None => records(table, room),
    }
}

/// Returns the width of each column, or `None` if they don't fit side by side.
fn widths(table: &[Vec<Cell>], count: usize, room: usize) -> Option<Vec<usize>> {
    let cells = |at: usize| table.iter().filter_map(move |row| row.get(at));
    let natural: Vec<usize> =
        (0..count).map(|at| cells(at).flatten().map(|it| columns(it)).max().unwrap_or(0).max(1)).collect();
    let least: Vec<usize> = (0..count)
        .map(|at| cells(at).flatten().map(|it| longest_word(it)).max().unwrap_or(0).clamp(1, WORD))
        .collect();
    // A bar and two blanks for each column, and the last bar.
    let room = room.checked_sub(3 * count + 1)?;
    if least.iter().sum::<usize>() > room {
        return None;
    }
    let mut widths = natural;
    while widths.iter().sum::<usize>() > room {
        // The widest column shrinks first, but not below its minimum.
        let spare = |(at, width): &(usize, &usize)| **width > least.get(*at).copied().unwrap_or(1);
        let widest =
            widths.iter().enumerate().filter(spare).max_by_key(|(_, width)| **width).map(|(at, _)| at);
        match widest.and_then(|at| widths.get_mut(at)) {
            Some(width) => *width -= 1,
            None => return None,
        }
    }
    Some(widths)
}

fn boxed(table: &[Vec<Cell>], alignments: &[Alignment], widths: &[usize]) -> Vec<Row> {
    let rule = |left: &str, middle: &str, right: &str| {
        let parts: Vec<String> = widths.iter().map(|it| "─".repeat(it + 2)).collect();
        Row::new(format!("{left}{}{right}", parts.join(middle)), Style::DIM)
    };
    let laid: Vec<Vec<Vec<Row>>> = table
        .iter()
        .map(|row| {
            let cell = |(at, width): (usize, &usize)| fitted(row.get(at).map_or(&[], Vec::as_slice), *width);
            widths.iter().enumerate().map(cell).collect()
        })
        .collect();
    // If cells have several lines, rules separate the rows.
    let is_tall = laid.iter().skip(1).flatten().any(|it| it.len() > 1);
    let mut rows = vec![rule("┌", "┬", "┐")];
    for (number, cells) in laid.iter().enumerate() {
        if number == 1 || number > 1 && is_tall {
            rows.push(rule("├", "┼", "┤"));
        }
        for line in 0..cells.iter().map(Vec::len).max().unwrap_or(1) {
            let mut row = Row::new("│", Style::DIM);
            for (at, width) in widths.iter().enumerate() {
                let cell = cells.get(at).and_then(|it| it.get(line)).cloned().unwrap_or_default();
                let alignment = alignments.get(at).copied().unwrap_or(Alignment::None);
                row = row
                    .with(" ", Style::PLAIN)
                    .and(aligned(cell, *width, alignment))
                    .with(" ", Style::PLAIN)
                    .with("│", Style::DIM);
            }
            rows.push(row);
        }
    }
    rows.push(rule("└", "┴", "┘"));
    rows
}

/// Returns each row as lines of `head: cell`.
fn records(table: &[Vec<Cell>], room: usize) -> Vec<Row> {
    let Some((head, body)) = table.split_first() else { return Vec::new() };
    let mut rows = Vec::new();
    for (number, cells) in body.iter().enumerate() {
        if number > 0 {
            rows.push(Row::new("─".repeat(room.min(20)), Style::DIM));
        }
        for (at, cell) in cells.iter().enumerate() {
            let mut letters: Vec<Letter> = head.get(at).into_iter().flatten().flatten().copied().collect();
            if !letters.is_empty() {
                letters.extend([':', ' '].map(|letter| Letter { letter, style: Style::BOLD, end: 0 }));
            }
            for (line, more) in cell.iter().enumerate() {
                if line > 0 {
                    letters.push(Letter { letter: ' ', style: Style::PLAIN, end: 0 });
                }
                letters.extend(more);
            }
            let indent = 2.min(room / 4);
            let parts = wrap(&letters, room, indent, true);
            rows.extend(parts.iter().map(|it| {
                let part = letters.get(it.clone()).unwrap_or_default();
                of_letters(part, if it.start == 0 { 0 } else { indent })
            }));
        }
    }
    if body.is_empty() {
        let letters: Vec<Letter> = head.iter().flatten().flatten().copied().collect();
        rows.push(of_letters(&letters, 0));
    }
    rows
}

fn fitted(cell: &[Vec<Letter>], width: usize) -> Vec<Row> {
    let line = |letters: &Vec<Letter>| {
        let parts = wrap(letters, width, 0, true);
        parts.iter().map(|it| of_letters(letters.get(it.clone()).unwrap_or_default(), 0)).collect::<Vec<_>>()
    };
    cell.iter().flat_map(line).collect()
}

fn aligned(row: Row, width: usize, alignment: Alignment) -> Row {
    let free = width.saturating_sub(row.width());
    let left = match alignment {
        Alignment::Right => free,
        Alignment::Center => free / 2,
        Alignment::Left | Alignment::None => 0,
    };
    Row::new(" ".repeat(left), Style::PLAIN).and(row).with(" ".repeat(free - left), Style::PLAIN)
}

fn columns(letters: &[Letter]) -> usize {
    of_letters(letters, 0).width()
}

fn longest_word(letters: &[Letter]) -> usize {
    letters.split(|it| it.letter == ' ').map(columns).max().unwrap_or(0)
}
