//! The answer of an executable, parsed from its output.

use kit::{Fault, Kind, Output, Part};
use serde_json::{Map, Value};

use crate::result_parts::{self, Piece};

/// Parses the output of a program that succeeded: MCP content, JSON, or text.
///
/// # Errors
/// [`Kind::Failed`], if the output says that the call failed.
pub(super) fn answer(tool: &str, text: String) -> Result<Output, Fault> {
    let Some(value) = json(&text) else { return Ok(Output::text(plain(text))) };
    let Value::Object(mut object) = value else { return Ok(Output::text(plain(text))) };
    if let Some(error) = error(&object) {
        return Err(Fault::new(Kind::Failed, error));
    }
    let Some(parts) = content(&object) else {
        return Ok(Output { structured: Some(Value::Object(object)), ..Output::text(plain(text)) });
    };
    let is_error = object.get("isError") == Some(&Value::Bool(true));
    let structured = object.remove("structuredContent").filter(Value::is_object);
    let mut output = Output { parts, structured, ..Output::default() };
    if output.parts.is_empty() {
        let text = output.structured.as_ref().map_or_else(|| plain(String::new()), Value::to_string);
        output.parts.push(Part::Text { text });
    }
    if !is_error {
        return Ok(output);
    }
    let said = output.as_text();
    match said.lines().next() {
        // The line is the whole output.
        Some(line) if line.len() == said.trim_end().len() && output.parts.len() == 1 => {
            Err(Fault::new(Kind::Failed, line))
        }
        _ => Err(Fault::new(Kind::Failed, format!("`{tool}` says that it failed")).seen(output)),
    }
}

/// Returns the error message of a program that failed: `{"error": "…"}`.
pub(super) fn error_in(text: &str) -> Option<String> {
    error(json(text)?.as_object()?)
}

fn json(text: &str) -> Option<Value> {
    let text = text.trim();
    // A lone number or word is text.
    text.starts_with(['{', '[']).then(|| serde_json::from_str(text).ok())?
}

fn error(object: &Map<String, Value>) -> Option<String> {
    match object.get("error")? {
        Value::String(error) if object.len() == 1 && !error.trim().is_empty() => {
            Some(error.trim_end().to_owned())
        }
        _ => None,
    }
}

/// Parses MCP content, if the object has that shape.
fn content(object: &Map<String, Value>) -> Option<Vec<Part>> {
    let items = object.get("content")?.as_array()?;
    items.iter().map(|item| part(item.as_object()?)).collect()
}

fn part(item: &Map<String, Value>) -> Option<Part> {
    let text = |key: &str| item.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(match item.get("type")?.as_str()? {
        "text" => Part::Text { text: text("text")? },
        "image" => result_parts::part(Piece::Image { mime: text("mimeType"), data: text("data")? }),
        "resource_link" => result_parts::part(Piece::Link { uri: text("uri")?, name: text("name") }),
        "resource" => {
            let resource = item.get("resource")?.as_object()?;
            match resource.get("text").and_then(Value::as_str) {
                Some(text) => Part::Text { text: text.to_owned() },
                None => {
                    let uri = resource.get("uri")?.as_str()?.to_owned();
                    result_parts::part(Piece::Link { uri, name: None })
                }
            }
        }
        other => Part::Text { text: format!("[a part that can't be shown: {other}]") },
    })
}

/// Removes the line breaks at the end.
pub(super) fn plain(mut text: String) -> String {
    text.truncate(text.trim_end().len());
    if text.is_empty() { "(no output)".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<Output, Fault> {
        answer("t", text.to_owned())
    }

    #[test]
    fn output_other_than_a_json_object_is_text() {
        for (text, shown) in
            [("a\n\nb\n", "a\n\nb"), ("", "(no output)"), ("42", "42"), ("{a", "{a"), ("[1, 2]\n", "[1, 2]")]
        {
            assert_eq!(read(text).unwrap(), Output::text(shown));
        }
    }

    #[test]
    fn any_other_object_is_shown_as_it_is_and_kept() {
        for text in [
            r#"{"b": 1, "a": [2]}"#,
            r#"{"content": "text"}"#,
            r#"{"content": [1]}"#,
            r#"{"error": "x", "more": 1}"#,
        ] {
            let output = read(text).unwrap();
            assert_eq!(output.as_text(), text);
            assert_eq!(output.structured.unwrap(), serde_json::from_str::<Value>(text).unwrap());
        }
    }

    #[test]
    fn mcp_content_becomes_parts() {
        let output = read(
            &json!({"content": [
            {"type": "text", "text": "a"},
            {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
            {"type": "resource_link", "uri": "file:///x/y.txt"},
            {"type": "resource", "resource": {"uri": "file:///z", "text": "inside"}},
            {"type": "audio", "data": ""},
        ], "structuredContent": {"n": 1}})
            .to_string(),
        )
        .unwrap();
        assert_eq!(output.structured, Some(json!({"n": 1})));
        assert!(
            matches!(output.parts.get(1).unwrap(), Part::Image { mime, data } if mime == "image/png" && data.len() == 8)
        );
        assert!(matches!(output.parts.get(2).unwrap(), Part::Link { name, .. } if name == "y.txt"));
        assert_eq!(output.as_text(), "a\ninside\n[a part that can't be shown: audio]");
        assert_eq!(
            read(r#"{"content": [], "structuredContent": {"n": 1}}"#).unwrap().as_text(),
            r#"{"n":1}"#
        );
    }

    #[test]
    fn output_that_reports_an_error_is_a_fault() {
        let fault = read("{\"error\": \"no such disk\"}\n").unwrap_err();
        assert_eq!((fault.kind, fault.what.as_str()), (Kind::Failed, "no such disk"));
        let fault = read(r#"{"content": [{"type": "text", "text": "no"}], "isError": true}"#).unwrap_err();
        assert_eq!((fault.kind, fault.as_text().as_str()), (Kind::Failed, "no"));
        let fault = read(r#"{"content": [{"type": "text", "text": "a\nb"}], "isError": true}"#).unwrap_err();
        assert_eq!(fault.as_text(), "`t` says that it failed\na\nb");
    }
}
