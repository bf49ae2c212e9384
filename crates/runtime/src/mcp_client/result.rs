//! Results of a server's tool, as a model reads them.

use kit::{Body, Fault, Kind, Output, Part, base64};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use crate::result_parts::{self, Piece, note};

/// Limit of audio or a file that haft passes on, in bytes.
const LARGEST: usize = 10 << 20;
/// Limit of parts per result.
const MOST: usize = 200;

/// Converts a call's result.
///
/// # Errors
/// [`Kind::Failed`], if the result is marked as an error.
pub(super) fn output(tool: &str, result: CallToolResult) -> Result<Output, Fault> {
    let is_error = result.is_error == Some(true);
    let left = result.content.len().saturating_sub(MOST);
    let mut parts: Vec<Part> = result.content.into_iter().take(MOST).map(part).collect();
    if left > 0 {
        parts.push(note(&format!("{left} more parts are left out")));
    }
    let structured = result.structured_content.filter(|it| !it.is_null());
    if parts.is_empty() {
        let text = structured.as_ref().map(Value::to_string).unwrap_or_default();
        parts.push(Part::Text { text });
    }
    let output = Output { parts, structured, ..Output::default() };
    if !is_error {
        return Ok(output);
    }
    let said = output.as_text();
    let said = said.trim();
    if !said.is_empty() && !said.contains('\n') && said.len() <= 500 && output.parts.len() == 1 {
        return Err(Fault::new(Kind::Failed, said));
    }
    Err(Fault::new(Kind::Failed, format!("`{tool}` says that it failed")).seen(output))
}

fn part(block: ContentBlock) -> Part {
    match block {
        ContentBlock::Text(text) => Part::Text { text: text.text },
        ContentBlock::Image(image) => {
            result_parts::part(Piece::Image { mime: Some(image.mime_type), data: image.data })
        }
        ContentBlock::Audio(audio) => match bytes(&audio.data) {
            Ok(data) => Part::Audio { mime: audio.mime_type, data },
            Err(why) => left_out("a sound", &why),
        },
        ContentBlock::ResourceLink(link) => {
            Part::Link { uri: link.uri, name: link.name, mime: link.mime_type, bytes: link.size }
        }
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
                Part::Resource { uri, mime: mime_type, body: Body::Text(text) }
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => match bytes(&blob) {
                Ok(data) => Part::Resource { uri, mime: mime_type, body: Body::Bytes(data) },
                Err(why) => left_out(&uri, &why),
            },
            _ => left_out("a resource", "it is of no kind that is known"),
        },
        _ => left_out("a part", "it is of no kind that is known"),
    }
}

fn bytes(data: &str) -> Result<Vec<u8>, String> {
    if data.len() / 4 * 3 > LARGEST {
        return Err(format!("it has more than {} MB", LARGEST >> 20));
    }
    base64::decoded(data).ok_or_else(|| "it is not base64".to_owned())
}

fn left_out(what: &str, why: &str) -> Part {
    Part::Text { text: format!("[{what} is left out: {why}]") }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    fn made(value: Value) -> Result<Output, Fault> {
        output("x", serde_json::from_value(value).unwrap())
    }

    #[test]
    fn every_kind_of_part_arrives_without_metadata() {
        let output = made(json!({
            "content": [
                {"type": "text", "text": "one", "_meta": {"secret": 1}},
                {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
                {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
                {"type": "resource_link", "uri": "file:///a", "name": "a"},
                {"type": "resource", "resource": {"uri": "x://t", "mimeType": "text/plain", "text": "body"}},
                {"type": "resource", "resource": {"uri": "x://b", "blob": "AAAA"}},
                {"type": "audio", "mimeType": "audio/wav", "data": "!"},
            ],
            "structuredContent": {"n": 1}, "_meta": {"more": 2},
        }))
        .unwrap();
        let kinds: Vec<&str> = output
            .parts
            .iter()
            .map(|it| match it {
                Part::Text { .. } => "text",
                Part::Image { .. } => "image",
                Part::Audio { .. } => "audio",
                Part::Resource { .. } => "resource",
                Part::Link { .. } => "link",
            })
            .collect();
        assert_eq!(kinds, ["text", "image", "audio", "link", "resource", "resource", "text"]);
        assert_eq!(output.structured, Some(json!({"n": 1})));
        assert!(!serde_json::to_string(&output).unwrap().contains("meta"));
    }

    #[test]
    fn without_a_text_there_is_the_json_and_an_error_is_a_fault() {
        assert_eq!(
            made(json!({"content": [], "structuredContent": {"n": 1}})).unwrap().as_text(),
            r#"{"n":1}"#
        );
        let fault =
            made(json!({"content": [{"type": "text", "text": "no such row"}], "isError": true})).unwrap_err();
        assert_eq!((fault.kind, fault.what.as_str()), (Kind::Failed, "no such row"));
        let fault =
            made(json!({"content": [{"type": "text", "text": "a\nb"}], "isError": true})).unwrap_err();
        assert_eq!(fault.as_text(), "`x` says that it failed\na\nb");
    }
}
