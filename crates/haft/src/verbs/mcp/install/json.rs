//! Edits of JSON configuration: one entry is added or removed, and comments and layout of the rest stay.

use jsonc_parser::{
    ParseOptions,
    cst::{CstInputValue, CstObject, CstRootNode},
};
use serde_json::{Map, Value};

/// JSON with comments and trailing commas, and nothing else that JSON doesn't have.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Maximum nesting depth: deeper than any configuration; the parser recurses.
const DEEPEST: usize = 128;

/// Parses the file. An empty file is an empty object.
pub(super) fn read(text: &str) -> Result<Value, String> {
    if depth(text) > DEEPEST {
        return Err(format!("it is nested more than {DEEPEST} levels deep"));
    }
    let root = CstRootNode::parse(text, &OPTIONS).map_err(|error| format!("it is not JSON: {error}"))?;
    match root.value() {
        None => Ok(Value::Object(Map::new())),
        Some(value) => value.to_serde_value().ok_or_else(|| "a value in it is none of JSON's".to_owned()),
    }
}

/// Returns the file with this entry, which replaces another with this name.
pub(super) fn with(text: &str, key: &str, name: &str, entry: &Value) -> Option<String> {
    let root = CstRootNode::parse(text, &OPTIONS).ok()?;
    let servers = root.object_value_or_create()?.object_value_or_create(key)?;
    match servers.get(name) {
        Some(there) => there.set_value(input(entry)),
        None => drop(servers.append(name, input(entry))),
    }
    let text = root.to_string();
    Some(if text.ends_with('\n') { text } else { text + "\n" })
}

/// Returns the file without the entry.
pub(super) fn without(text: &str, key: &str, name: &str) -> Option<String> {
    let root = CstRootNode::parse(text, &OPTIONS).ok()?;
    servers(&root, key)?.get(name)?.remove();
    Some(root.to_string())
}

fn servers(root: &CstRootNode, key: &str) -> Option<CstObject> {
    root.object_value()?.object_value(key)
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(it) => CstInputValue::Bool(*it),
        Value::Number(it) => CstInputValue::Number(it.to_string()),
        Value::String(it) => CstInputValue::String(it.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(map) => {
            CstInputValue::Object(map.iter().map(|(key, value)| (key.clone(), input(value))).collect())
        }
    }
}

/// Returns the maximum nesting depth of brackets. Brackets in strings count too, which only makes the check stricter.
fn depth(text: &str) -> usize {
    let (mut deep, mut deepest) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' => deep += 1,
            b']' | b'}' => deep = deep.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(deep);
    }
    deepest
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_comes_and_goes_and_leaves_the_rest_as_it_was_written() {
        let entry = json!({"command": "haft", "args": ["mcp"]});
        for before in [
            "{\n  // mine\n  \"mcpServers\": {\n    \"other\": {\"command\": \"x\"} // this too\n  },\n  \"z\": 1\n}\n",
            "{\n\t\"mcpServers\": {\n\t\t\"other\": {}\n\t}\n}\n",
            "{\r\n  \"mcpServers\": {\r\n    \"a\": {}\r\n  }\r\n}\r\n",
        ] {
            let after = with(before, "mcpServers", "haft", &entry).unwrap();
            assert_eq!(read(&after).unwrap()["mcpServers"]["haft"], entry, "{after}");
            let gone = without(&after, "mcpServers", "haft").unwrap();
            assert_eq!(read(&gone).unwrap(), read(before).unwrap());
            for line in before.lines().filter(|line| line.contains("//")) {
                assert!(after.contains(line.trim().trim_end_matches("// this too").trim()), "{after}");
            }
            assert_eq!(before.contains('\r'), after.contains('\r'));
        }
    }

    #[test]
    fn a_file_that_is_not_what_it_should_be_is_none_of_ours() {
        for broken in ["{", "{\"a\": }", "{a: 1}", "\u{0}"] {
            assert!(read(broken).is_err(), "{broken:?}");
        }
        for other in ["[]", "{\"mcpServers\": []}", "{\"mcpServers\": \"x\"}", "1"] {
            assert_eq!(with(other, "mcpServers", "haft", &json!({})), None, "{other}");
        }
        assert!(read(&"[".repeat(100_000)).is_err());
    }
}
