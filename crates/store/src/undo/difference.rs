//! The difference of two contents of a file, in few words.

use std::time::Duration;

use similar::{DiffOp, TextDiff};

/// Maximum number of lines of a difference, and of characters of each.
const LINES: usize = 40;
const WIDTH: usize = 200;
/// Maximum size of contents that are compared line by line, in bytes.
const LARGE: usize = 4 << 20;
/// Time after which a difference may be longer than necessary; it is still correct.
const TIMEOUT: Duration = Duration::from_millis(300);

/// Describes how much changes from one content to the other.
pub(super) fn changed(from: &[u8], to: &[u8]) -> String {
    let (Some(old), Some(new)) = (text(from), text(to)) else {
        return format!("{} bytes, were {}", to.len(), from.len());
    };
    let diff = TextDiff::configure().timeout(TIMEOUT).diff_lines(&*old, &*new);
    let lines: usize = diff
        .ops()
        .iter()
        .map(|op| match *op {
            DiffOp::Equal { .. } => 0,
            DiffOp::Delete { old_len, .. } => old_len,
            DiffOp::Insert { new_len, .. } => new_len,
            DiffOp::Replace { old_len, new_len, .. } => old_len.max(new_len),
        })
        .sum();
    if lines == 1 { "1 line changed".to_owned() } else { format!("{lines} lines changed") }
}

/// Returns the lines that differ, with a little context; `None` for binary content.
pub(super) fn difference(from: &[u8], to: &[u8]) -> Option<String> {
    let (old, new) = (text(from)?, text(to)?);
    let diff = TextDiff::configure().timeout(TIMEOUT).diff_lines(&*old, &*new);
    let shown = diff.unified_diff().context_radius(1).to_string();
    let all = shown.lines().count();
    let mut lines: Vec<String> = shown.lines().take(LINES).map(narrow).collect();
    if all > LINES {
        lines.push(format!("[{} more lines of the difference left out]", all - LINES));
    }
    Some(lines.join("\n"))
}

fn narrow(line: &str) -> String {
    match line.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line.to_owned(),
    }
}

fn text(bytes: &[u8]) -> Option<std::borrow::Cow<'_, str>> {
    if bytes.len() > LARGE || bytes.contains(&0) { None } else { Some(String::from_utf8_lossy(bytes)) }
}
