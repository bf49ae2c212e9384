//! A unified diff of what a call changed, as KohakuTerrarium's tools show it below their answers.

use similar::TextDiff;

/// Maximum number of lines that are shown.
const LINES: usize = 200;

/// Maximum bytes of a line that are shown: each picture of a notebook is one line.
const LONGEST: usize = 1_000;

/// Returns the diff, each line after a line break.
pub(super) fn difference(path: &str, before: &str, after: &str) -> String {
    let diff = TextDiff::from_lines(before, after);
    let diff =
        diff.unified_diff().context_radius(3).header(&format!("a/{path}"), &format!("b/{path}")).to_string();
    // After an empty line.
    let mut shown = String::from("\n");
    for line in diff.lines().take(LINES) {
        shown.push('\n');
        let end = line.floor_char_boundary(LONGEST.min(line.len()));
        shown.push_str(line.get(..end).unwrap_or_default());
        if end < line.len() {
            shown.push_str(&format!("[{} more bytes]", line.len() - end));
        }
    }
    let count = diff.lines().count();
    if count > LINES {
        shown.push_str(&format!("\n[{} more lines]", count - LINES));
    }
    shown
}
