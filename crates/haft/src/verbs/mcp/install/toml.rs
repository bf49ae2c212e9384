//! Edits of TOML configuration: one table is added or removed, and comments and layout of the rest stay.

use std::fmt::Write as _;

use serde_json::Value;

/// Parses the file.
pub(super) fn read(text: &str) -> Result<Value, String> {
    let table: toml::Table = toml::from_str(text).map_err(|error| format!("it is not TOML: {error}"))?;
    serde_json::to_value(table).map_err(|error| error.to_string())
}

/// Returns the file with this table, which replaces another with this name.
pub(super) fn with(text: &str, key: &str, name: &str, entry: &Value) -> Option<String> {
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let block = block(key, name, entry)?.replace('\n', line_end);
    if let Some((before, after)) = around(text, key, name) {
        return Some(format!("{before}{block}{after}"));
    }
    let mut whole = text.to_owned();
    if !whole.is_empty() && !whole.ends_with('\n') {
        whole.push_str(line_end);
    }
    if !whole.is_empty() {
        whole.push_str(line_end);
    }
    Some(whole + &block)
}

/// Returns the file without the table.
pub(super) fn without(text: &str, key: &str, name: &str) -> Option<String> {
    let (before, after) = around(text, key, name)?;
    if after.trim().is_empty() {
        // The empty line before the table belongs to it.
        let end = before.trim_end().len();
        let line_end = before.get(end..)?.find('\n').map_or(before.len(), |at| end + at + 1);
        return Some(before.get(..line_end)?.to_owned());
    }
    Some(format!("{before}{}", after.trim_start_matches(['\r', '\n'])))
}

/// Returns the text of the table.
pub(super) fn block(key: &str, name: &str, entry: &Value) -> Option<String> {
    let mut block = format!("[{key}.{name}]\n");
    for (field, value) in entry.as_object()? {
        let value = toml::Value::try_from(value).ok()?;
        writeln!(block, "{field} = {value}").ok()?;
    }
    Some(block)
}

/// Returns the text before the table and its subtables, and the text after them. A line in a multi-line string may look like
/// the head of a table, so the caller compares the parsed file before and after a change.
fn around<'a>(text: &'a str, key: &str, name: &str) -> Option<(&'a str, &'a str)> {
    let (mut begin, mut end, mut at) = (None, text.len(), 0);
    // Comments and empty lines right before the next table belong to that table.
    let mut about_next = None;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if let Some(head) = trimmed.strip_prefix('[') {
            let ours = names(head).is_some_and(|names| names.starts_with(&[key.to_owned(), name.to_owned()]));
            match (begin, ours) {
                (None, true) => begin = Some(at),
                (Some(_), false) => {
                    end = about_next.unwrap_or(at);
                    break;
                }
                _ => {}
            }
            about_next = None;
        } else if trimmed.is_empty() || trimmed.starts_with('#') {
            about_next = about_next.or(Some(at));
        } else {
            about_next = None;
        }
        at += line.len();
    }
    Some((text.get(..begin?)?, text.get(end..)?))
}

/// Returns the names in the head of a table, after its first bracket.
fn names(head: &str) -> Option<Vec<String>> {
    let inner = head.trim_start_matches('[').split(']').next()?;
    Some(inner.split('.').map(|name| name.trim().trim_matches(['"', '\'']).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;

    const KEY: &str = "mcp_servers";

    #[test]
    fn a_table_comes_and_goes_and_leaves_the_rest_as_it_was_written() {
        let entry = json!({"command": "haft", "args": ["mcp"], "tool_timeout_sec": 630});
        for before in [
            "",
            "model = \"x\" # mine\n",
            "# first\n[mcp_servers.other]\ncommand = \"x\"\n\n# about tui\n[tui]\ntheme = \"y\"\n",
            "a = 1\r\n[b]\r\nc = 2\r\n",
        ] {
            let after = with(before, KEY, "haft", &entry).unwrap();
            assert!(after.starts_with(before));
            assert_eq!(read(&after).unwrap()[KEY]["haft"], entry, "{after}");
            assert_eq!(without(&after, KEY, "haft").unwrap(), before);
        }
    }

    #[test]
    fn a_table_in_the_middle_is_replaced_with_all_below_it_and_comments_about_others_stay() {
        let before = "[mcp_servers.\"haft\"]\ncommand = \"old\"\n[mcp_servers.haft.env]\nA = \"1\"\n\n# about tui\n[tui]\nx = 1\n";
        let after = with(before, KEY, "haft", &json!({"command": "new"})).unwrap();
        assert_eq!(after, "[mcp_servers.haft]\ncommand = \"new\"\n\n# about tui\n[tui]\nx = 1\n");
        assert_eq!(without(before, KEY, "haft").unwrap(), "# about tui\n[tui]\nx = 1\n");
        assert_eq!(without("[tui]\nx = 1\n", KEY, "haft"), None);
    }

    #[test]
    fn what_is_written_is_what_was_meant_whatever_is_in_it() {
        let entry = json!({"command": "/a b/\"q\"/\\x\u{1b}", "args": ["--dir", "ü'"]});
        let block = block(KEY, "haft", &entry).unwrap();
        assert_eq!(read(&block).unwrap()[KEY]["haft"], entry, "{block}");
    }
}
