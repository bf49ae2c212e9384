//! Rendering of lines with their anchors.

use std::{fmt::Write, ops::Range};

use super::{Rows, hash};
use crate::text::Text;

/// Lines with more characters than this are clipped.
pub const CLIP: usize = 2000;

/// Bytes around a line: its anchor and its end.
const AROUND: usize = "12345:a3|\n".len();

/// Limits of what [`in_passing`] shows: lines, and bytes of lines.
const PASSING_LINES: usize = 200;
const PASSING_BYTES: usize = 24 * 1024;

/// Lines with their anchors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// One line for each row: `LINE:HASH|text`, and `...` for a gap.
    pub text: String,
    /// The rows shown in full. A clipped one was not seen.
    pub shown: Rows,
}

/// Shows rows, each with its anchor.
pub fn render(text: &Text, rows: &Rows) -> Rendered {
    render_clipped(text, rows, CLIP)
}

/// Shows rows, each with its anchor and at most `clip` characters of it.
pub fn render_clipped(text: &Text, rows: &Rows, clip: usize) -> Rendered {
    let bytes = |range: &Range<usize>| -> usize {
        range.clone().map_while(|row| text.content(row)).map(|it| it.len() + AROUND).sum()
    };
    let whole = rows.ranges().iter().map(bytes).sum();
    let mut rendered = Rendered { text: String::with_capacity(whole), shown: Rows::new() };
    for (at, range) in rows.ranges().iter().enumerate() {
        if at > 0 {
            rendered.text.push_str("...\n");
        }
        // The first row of those in full that are not noted yet.
        let mut full = range.start;
        let mut end = range.start;
        for row in range.clone() {
            let Some(line) = text.line(row) else { break };
            // A line has no more characters than bytes, so most need not be counted.
            let long = line.len() > clip;
            let cut = if long { line.char_indices().nth(clip).map(|(at, _)| at) } else { None };
            let head = cut.and_then(|cut| line.get(..cut)).unwrap_or(&line);
            push_anchor(&mut rendered.text, row + 1, hash(&line));
            rendered.text.push_str(head);
            end = row + 1;
            if let Some(rest) = cut.and_then(|cut| line.get(cut..)) {
                // Writing to a string can't fail.
                let _ = write!(rendered.text, " [{} more characters]", rest.chars().count());
                rendered.shown.add(full..row);
                full = end;
            }
            rendered.text.push('\n');
        }
        rendered.shown.add(full..end);
    }
    if rendered.text.ends_with('\n') {
        rendered.text.pop();
    }
    rendered
}

/// Writes `LINE:HASH|`. By hand, as it is written for each line of a file that is read.
fn push_anchor(text: &mut String, line: usize, hash: u8) {
    text.push_str(itoa::Buffer::new().format(line));
    text.push(':');
    for half in [hash >> 4, hash & 0xf] {
        text.push(char::from_digit(half.into(), 16).unwrap_or_default());
    }
    text.push('|');
}

/// Returns as many of the rows as fit when they are shown beside an answer to something else.
pub(crate) fn in_passing(text: &Text, rows: &Rows) -> Rows {
    let mut bytes = PASSING_BYTES;
    let fitting = rows.iter().take(PASSING_LINES).map_while(|row| {
        bytes = bytes.checked_sub(text.content(row)?.len().min(CLIP) + 1)?;
        Some(row..row + 1)
    });
    fitting.collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn shows_rows_with_anchors_and_gaps() {
        let text = Text::parse("def f():\r\n\treturn 1\n}\n\nend").unwrap();
        let rows: Rows = [0..2, 4..5].into_iter().collect();
        let rendered = render(&text, &rows);
        assert_eq!(rendered.text, "1:6c|def f():\n2:c4|\treturn 1\n...\n5:1a|end");
        assert_eq!(rendered.shown, rows);
    }

    #[test]
    fn a_clipped_line_was_not_seen() {
        let text = Text::parse(format!("a\n{}\nb", "é".repeat(30))).unwrap();
        let rendered = render_clipped(&text, &Rows::from(0..3), 10);
        let second = rendered.text.lines().nth(1).unwrap();
        assert!(second.ends_with("|éééééééééé [20 more characters]"), "{second}");
        assert_eq!(rendered.shown.ranges(), [0..1, 2..3]);
    }
}
