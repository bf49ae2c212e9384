//! Unified diffs as hunks of lines.

use serde_json::{Value, json};
use store::changes::Change;

/// Returns a change with its diff as hunks.
pub(crate) fn change(change: &Change) -> Value {
    let mut value = json!({
        "path": change.path,
        "kind": change.kind,
        "added": change.added,
        "removed": change.removed,
        "hunks": hunks(&change.diff),
        "more": change.more,
    });
    if let (Some(note), Some(fields)) = (&change.note, value.as_object_mut()) {
        fields.insert("note".to_owned(), json!(note));
    }
    value
}

/// Returns the hunks of a unified diff of one file.
fn hunks(diff: &str) -> Vec<Value> {
    let mut hunks: Vec<(u64, u64, String, Vec<[String; 2]>)> = Vec::new();
    for line in diff.lines() {
        if let Some((old, new, head)) = header(line) {
            hunks.push((old, new, head, Vec::new()));
            continue;
        }
        // The names of the files come before the first hunk.
        let Some((.., lines)) = hunks.last_mut() else { continue };
        let (kind, text) = match line.chars().next() {
            Some(kind @ (' ' | '+' | '-')) => (kind.to_string(), line.get(1..).unwrap_or_default()),
            // An empty line of context may lack its blank.
            None => (" ".to_owned(), ""),
            // `\ No newline at end of file`, and the count of lines that are left out.
            Some(_) => ("\\".to_owned(), line),
        };
        lines.push([kind, text.to_owned()]);
    }
    let as_json = |(old, new, head, lines): (u64, u64, String, Vec<[String; 2]>)| {
        let mut hunk = json!({"old": old, "new": new, "lines": lines});
        if let (false, Some(fields)) = (head.is_empty(), hunk.as_object_mut()) {
            fields.insert("head".to_owned(), head.into());
        }
        hunk
    };
    hunks.into_iter().map(as_json).collect()
}

/// Returns the first lines of a hunk `@@ -1,3 +1,4 @@ fn main()`, and what follows.
fn header(line: &str) -> Option<(u64, u64, String)> {
    let (ranges, head) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let first = |range: &str| range.split(',').next().and_then(|it| it.parse().ok());
    Some((first(old)?, first(new)?, head.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unified_diff_becomes_hunks() {
        let diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n@@ -9 +9,2 @@ fn x()\n y\n+--- z\n";
        assert_eq!(
            Value::Array(hunks(diff)),
            json!([
                {"old": 1, "new": 1, "lines": [[" ", "a"], ["-", "b"], ["+", "c"], ["\\", "\\ No newline at end of file"]]},
                {"old": 9, "new": 9, "lines": [[" ", "y"], ["+", "--- z"]], "head": "fn x()"},
            ])
        );
    }
}
