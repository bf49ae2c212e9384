//! Truncation in the style of HyperAgents' `editor`: the head and the tail of a text, around a marker line.

use kit::{Cx, seen::Rows, text::Text};

/// The marker line.
const MARK: &str = "<response clipped>";

/// Returns the end of the head and the start of the tail, in bytes, of a text with more than `most`
/// characters. No secret is cut in two, because redaction would not recognize a part of one.
fn cut(cx: &Cx, text: &str, most: usize) -> Option<(usize, usize)> {
    let count = text.chars().count();
    if text.len() <= most || count <= most {
        return None;
    }
    let byte = |at: usize| text.char_indices().nth(at).map_or(text.len(), |it| it.0);
    let (mut head, mut tail) = (byte(most / 2), byte(count - most / 2));
    for secret in cx.services().mask.find(text) {
        if secret.contains(&head) {
            head = secret.start;
        }
        if secret.contains(&tail) {
            tail = secret.end;
        }
    }
    Some((head, tail))
}

/// Truncates a text to about `most` characters.
pub(super) fn clipped(cx: &Cx, text: String, most: usize) -> String {
    match cut(cx, &text, most) {
        None => text,
        Some((head, tail)) => {
            let part = |range| text.get(range).unwrap_or_default();
            format!("{}\n{MARK}\n{}", part(0..head), text.get(tail..).unwrap_or_default())
        }
    }
}

/// Numbers lines, truncated to `most` characters before that; returns the text, and the rows that are complete.
pub(super) fn numbered(cx: &Cx, text: &Text, rows: &Rows, most: Option<usize>) -> (String, Rows) {
    let lines: Vec<_> = rows.iter().map(|row| (row, text.line(row).unwrap_or_default())).collect();
    let content = || lines.iter().map(|it| it.1.as_ref()).collect::<Vec<&str>>().join("\n");
    let line = |row: usize, line: &str| format!("{:6}\t{line}", row + 1);
    let Some((head, tail)) = most.and_then(|most| cut(cx, &content(), most)) else {
        let all: Vec<String> = lines.iter().map(|(row, text)| line(*row, text)).collect();
        return (all.join("\n"), rows.clone());
    };
    let (mut before, mut after, mut whole) = (Vec::new(), Vec::new(), Rows::new());
    let mut start = 0;
    for (row, text) in &lines {
        let end = start + text.len();
        if end <= head || start >= tail {
            whole.add(*row..*row + 1);
        }
        if start < head || end <= head {
            let shown = text.get(..(head - start).min(text.len())).unwrap_or_default();
            before.push(line(*row, shown));
        }
        if end > tail || start >= tail {
            after.push(line(*row, text.get(tail.saturating_sub(start)..).unwrap_or_default()));
        }
        start = end + 1;
    }
    before.push(MARK.to_owned());
    before.extend(after);
    (before.join("\n"), whole)
}
