//! Recovery of malformed lines: finds the id of a request that is not valid JSON, and repairs lone surrogates.
//!
//! A client whose request is answered with `id: null` waits for ever. So the id is read even if the rest
//! can't be parsed: too deep, a number too large, half an emoji.

use serde_json::Value;

/// The replacement of a lone surrogate.
const REPLACEMENT: &[u8] = b"\\ufffd";

/// Returns the id of the request on this line, if it can be found; otherwise null.
pub(crate) fn id(line: &[u8]) -> Value {
    let found = members(line).find(|(name, _)| *name == b"id").map(|(_, value)| value);
    let value = found
        .and_then(|it| serde_json::from_slice::<Value>(&repaired(it).unwrap_or_else(|| it.to_vec())).ok());
    value.filter(|it| it.is_string() || it.is_number()).unwrap_or_default()
}

/// Returns the line with U+FFFD in place of each escaped lone surrogate; `None`, if there is none.
pub(crate) fn repaired(line: &[u8]) -> Option<Vec<u8>> {
    let mut out: Vec<u8> = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(step) = line.get(at..)?.iter().position(|it| *it == b'\\') {
        let escape = at + step;
        let (unit, next) = (unit(line, escape), unit(line, escape + 6));
        at = match (unit, next) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => escape + 12,
            (Some(0xd800..=0xdfff), _) => {
                out.extend_from_slice(line.get(from..escape)?);
                out.extend_from_slice(REPLACEMENT);
                from = escape + 6;
                from
            }
            _ => (escape + 2).min(line.len()),
        };
    }
    if from == 0 {
        return None;
    }
    out.extend_from_slice(line.get(from..)?);
    Some(out)
}

/// Parses the UTF-16 unit of an escape: `\\uXXXX`.
fn unit(line: &[u8], at: usize) -> Option<u16> {
    let digits = line.get(at..at + 6)?.strip_prefix(b"\\u")?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Returns the members of an object, each with the bytes of its value, until they can't be parsed any more.
/// For an array of objects it returns none: an answer could name only one of them.
fn members(line: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = line.trim_ascii().strip_prefix(b"{");
    std::iter::from_fn(move || {
        let text = rest?.trim_ascii_start();
        let text = text.strip_prefix(b",").unwrap_or(text).trim_ascii_start();
        let name = text.get(1..string(text)?.checked_sub(1)?)?;
        let value = text.get(name.len() + 2..)?.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let end = value_end(value)?;
        rest = value.get(end..);
        Some((name, value.get(..end)?.trim_ascii_end()))
    })
}

/// Returns the end of the string at the beginning of the text, its quotes included.
fn string(text: &[u8]) -> Option<usize> {
    let mut bytes = text.strip_prefix(b"\"")?.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'"' => return Some(at + 2),
            _ => {}
        }
    }
    None
}

/// Returns the end of the value at the beginning of the text, at any depth: at a comma or bracket outside of it.
fn value_end(text: &[u8]) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => at += string(text.get(at..)?)? - 1,
            b'[' | b'{' => depth += 1,
            b']' | b'}' if depth == 0 => return Some(at),
            b']' | b'}' => depth -= 1,
            b',' if depth == 0 => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn id_is_found_wherever_the_line_is_broken() {
        let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
        for (line, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"params":{"a":1e999}}"#.to_owned(), json!(7)),
            (r#"{"params":{"a":1e999,"id":3}, "id" : "x\"y"}"#.to_owned(), json!("x\"y")),
            (format!(r#"{{"params":{deep},"id":-5}}"#), json!(-5)),
            (r#"{"id":7,"params":{"a":"#.to_owned(), json!(7)),
            (r#"{"id":"\ud83d","x":1e999}"#.to_owned(), json!("\u{fffd}")),
            (r#"{"params":{"id":3}"#.to_owned(), Value::Null),
            (r#"[{"id":3,"x":1e999}]"#.to_owned(), Value::Null),
            (r#"{"id":null,"x":1e999}"#.to_owned(), Value::Null),
            (r#"{"id":7"#.to_owned(), Value::Null),
            ("nonsense".to_owned(), Value::Null),
        ] {
            assert_eq!(id(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn half_an_emoji_becomes_a_replacement_character_and_a_whole_one_stays() {
        for (line, expected) in [
            (r#""a\ud83db""#, "a\u{fffd}b"),
            (r#""a\ude00b""#, "a\u{fffd}b"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (r#""\ud83d\n\\ud83d""#, "\u{fffd}\n\\ud83d"),
            (r#""x\uD83D""#, "x\u{fffd}"),
        ] {
            let repaired = repaired(line.as_bytes()).unwrap();
            assert_eq!(serde_json::from_slice::<Value>(&repaired).unwrap(), json!(expected), "{line}");
        }
        for line in [r#""\ud83d\ude00""#, r#""\\ud83d""#, "\"\\"] {
            assert!(repaired(line.as_bytes()).is_none(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_scanned_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (id(&bytes), repaired(&bytes));
        }

        #[test]
        fn json_that_has_an_id_has_it_here_too(name in ".*", value in any::<i64>(), number in any::<u32>()) {
            prop_assume!(name != "id");
            let line = json!({name: [{"id": value}, "}"], "id": number}).to_string();
            prop_assert_eq!(id(line.as_bytes()), json!(number));
        }
    }
}
