//! Tools and results as MCP types, fitted to the client's revision.

use std::sync::Arc;

use kit::{Body, Kinds, Output, Part, Spec, base64, json_bytes};
use rmcp::model::{
    CallToolResult, ContentBlock, ListToolsResult, Resource, ResourceContents, Tool, ToolAnnotations,
};
use runtime::Answer;
use serde_json::{Map, Value};

/// Converts a tool for `tools/list`.
pub(crate) fn tool(spec: &Spec) -> Tool {
    described(spec, spec.schema.as_object().cloned().unwrap_or_default())
}

fn described(spec: &Spec, schema: Map<String, Value>) -> Tool {
    let tool =
        Tool::new(spec.name.clone(), spec.description.clone(), schema).with_annotations(hints(spec.at_most));
    // Revisions until 2025-11-25 know no structured output but objects.
    match spec.output.as_ref().and_then(Value::as_object) {
        Some(output) if output.get("type").is_some_and(|it| it == "object") => {
            tool.with_raw_output_schema(Arc::new(output.clone()))
        }
        _ => tool,
    }
}

/// Returns the size of a tool in the answer to `tools/list`, in bytes, with the bytes of its [schema](Spec::schema_bytes).
pub fn tool_bytes(spec: &Spec, schema: usize) -> usize {
    // The schema is most of a tool, and is not copied only to be measured.
    let schema = if spec.schema.is_object() { schema.saturating_sub("{}".len()) } else { 0 };
    json_bytes(&described(spec, Map::new())).saturating_add(schema)
}

/// Returns the size of the answer to `tools/list` with these tools, in bytes.
pub fn list_bytes(specs: &[Spec]) -> usize {
    let list = ListToolsResult::with_all_items(specs.iter().map(tool).collect());
    json_bytes(&list)
}

/// Converts an answer for `tools/call`, before it is [fitted](fit) to a client.
pub(crate) fn result(answer: &Answer) -> CallToolResult {
    let mut result = in_words(answer);
    result.structured_content =
        answer.result.as_ref().ok().and_then(|output| output.structured.clone()).filter(Value::is_object);
    result
}

/// Drops content that the client's revision does not know, and content that the model would never see.
///
/// Clients show `structuredContent` to the model in place of the text. So it is kept only if the text is that
/// same JSON, or if the tool declares it: then the client expects it.
pub(crate) fn fit(result: &mut CallToolResult, revision: &str, declares: impl FnOnce() -> bool) {
    if let Some(structured) = &result.structured_content {
        let is_known = revision >= "2025-06-18" && result.is_error != Some(true);
        if !is_known || !(is_text_of(&result.content, structured) || declares()) {
            result.structured_content = None;
        }
    }
    for block in &mut result.content {
        *block = as_of(revision, block.clone());
    }
}

/// Returns the block, or a text in its place if the revision does not know its kind.
pub(crate) fn as_of(revision: &str, block: ContentBlock) -> ContentBlock {
    match block {
        ContentBlock::Audio(audio) if revision < "2025-03-26" => {
            let bytes = audio.data.len() / 4 * 3;
            ContentBlock::text(format!(
                "[a sound, {}, about {bytes} bytes: revision {revision} of MCP has no sounds]",
                audio.mime_type
            ))
        }
        ContentBlock::ResourceLink(link) if revision < "2025-06-18" => {
            ContentBlock::text(format!("[{}]({})", link.name, link.uri))
        }
        other => other,
    }
}

/// Returns whether the only text is this JSON.
fn is_text_of(content: &[ContentBlock], structured: &Value) -> bool {
    let [ContentBlock::Text(text)] = content else { return false };
    serde_json::from_str::<Value>(&text.text).is_ok_and(|said| said == *structured)
}

fn in_words(answer: &Answer) -> CallToolResult {
    match &answer.result {
        Ok(output) if output.parts.iter().all(is_text) => CallToolResult::success(text(answer.as_text())),
        Ok(output) => {
            let mut content: Vec<ContentBlock> = output.parts.iter().map(block).collect();
            content.extend(answer.notes.iter().map(|note| ContentBlock::text(format!("note: {note}"))));
            CallToolResult::success(content)
        }
        Err(fault) => {
            let mut content = text(answer.as_text());
            // The fault's message already contains the text of the partial output.
            content.extend(fault.seen.iter().flat_map(|seen| other_than_text(seen)));
            CallToolResult::error(content)
        }
    }
}

fn hints(at_most: Kinds) -> ToolAnnotations {
    let hints = ToolAnnotations::new()
        .read_only(at_most.is_read_only())
        .destructive(at_most.covers(Kinds::WRITE) || at_most.covers(Kinds::RUN))
        .open_world([Kinds::NET, Kinds::WEB, Kinds::RUN].into_iter().any(|it| at_most.covers(it)));
    // Waiting, asking a person or storing a note is not idempotent.
    if at_most == Kinds::READ { hints.idempotent(true) } else { hints }
}

fn is_text(part: &Part) -> bool {
    matches!(part, Part::Text { .. })
}

/// Returns one text block, or none: some model APIs refuse an empty block.
fn text(text: String) -> Vec<ContentBlock> {
    if text.is_empty() { Vec::new() } else { vec![ContentBlock::text(text)] }
}

fn other_than_text(output: &Output) -> impl Iterator<Item = ContentBlock> {
    output.parts.iter().filter(|part| !is_text(part)).map(block)
}

/// Converts a part to a block.
pub(crate) fn block(part: &Part) -> ContentBlock {
    match part {
        Part::Text { text } => ContentBlock::text(text.clone()),
        Part::Image { mime, data } => ContentBlock::image(base64::encoded(data), mime.clone()),
        Part::Audio { mime, data } => ContentBlock::audio(base64::encoded(data), mime.clone()),
        Part::Resource { uri, mime, body } => ContentBlock::resource(contents(uri, mime.as_deref(), body)),
        Part::Link { uri, name, mime, bytes } => {
            let mut link = Resource::new(uri.clone(), name.clone());
            link.mime_type.clone_from(mime);
            link.size = *bytes;
            ContentBlock::resource_link(link)
        }
    }
}

/// Converts the content of a resource.
pub(crate) fn contents(uri: &str, mime: Option<&str>, body: &Body) -> ResourceContents {
    let contents = match body {
        Body::Text(text) => ResourceContents::text(text.clone(), uri),
        Body::Bytes(data) => ResourceContents::blob(base64::encoded(data), uri),
    };
    match mime {
        Some(mime) => contents.with_mime_type(mime),
        None => contents,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kit::Fault;
    use serde_json::json;

    use super::*;

    fn check(result: Result<Output, Fault>, notes: &[&str], expected: &Value) {
        let notes = notes.iter().map(|&note| note.to_owned()).collect();
        let answer =
            Answer { id: "call_1".to_owned(), result, notes, changes: Vec::new(), took: Duration::ZERO };
        let mut result = super::result(&answer);
        fit(&mut result, "2026-07-28", || false);
        let wire = serde_json::to_value(result).map_err(|error| error.to_string());
        assert_eq!(wire.as_ref(), Ok(expected));
    }

    fn structured(text: &str, note: Option<&str>, revision: &str, declares: bool) -> Option<Value> {
        let output = Output { structured: Some(json!({"a": [1, 2.5]})), ..Output::text(text) };
        let notes = note.into_iter().map(str::to_owned).collect();
        let answer = Answer {
            id: "call_1".to_owned(),
            result: Ok(output),
            notes,
            changes: Vec::new(),
            took: Duration::ZERO,
        };
        let mut result = super::result(&answer);
        fit(&mut result, revision, || declares);
        result.structured_content
    }

    #[test]
    fn structured_content_is_sent_if_declared_or_equal_to_the_text() {
        let json = Some(json!({"a": [1, 2.5]}));
        assert_eq!(structured(r#"{ "a": [1, 2.5] }"#, None, "2025-06-18", false), json);
        assert_eq!(
            structured(r#"{"a": [1]}"#, None, "2025-06-18", false),
            None,
            "the text says something else"
        );
        assert_eq!(structured("one, two and a half", None, "2025-06-18", false), None);
        assert_eq!(structured(r#"{"a": [1, 2.5]}"#, Some("repaired"), "2025-06-18", false), None);
        assert_eq!(structured("one, two and a half", None, "2025-06-18", true), json);
        assert_eq!(
            structured(r#"{"a": [1, 2.5]}"#, None, "2025-03-26", true),
            None,
            "it knows of no such thing"
        );
    }

    #[test]
    fn content_kinds_that_a_revision_lacks_become_text() {
        let sound = || block(&Part::Audio { mime: "audio/wav".to_owned(), data: vec![0; 3] });
        let link = || {
            block(&Part::Link {
                uri: "haft://outputs/out_1".to_owned(),
                name: "out_1".to_owned(),
                mime: None,
                bytes: None,
            })
        };
        let text = |block: ContentBlock| block.as_text().map(|it| it.text.clone());
        assert_eq!(text(as_of("2025-06-18", link())), None);
        assert_eq!(text(as_of("2025-03-26", link())).as_deref(), Some("[out_1](haft://outputs/out_1)"));
        assert_eq!(text(as_of("2025-03-26", sound())), None);
        assert!(text(as_of("2024-11-05", sound())).is_some_and(|it| it.contains("audio/wav, about 3 bytes")));
    }

    #[test]
    fn an_output_schema_is_listed_if_it_is_an_object() {
        let spec = |output: Option<Value>| Spec {
            output,
            origin: kit::Origin::Program,
            name: "x".to_owned(),
            description: String::new(),
            schema: json!({"type": "object"}),
            mode: kit::Mode::Direct,
            at_most: Kinds::READ,
        };
        let listed = |output| {
            serde_json::to_value(tool(&spec(output))).ok().and_then(|it| it.get("outputSchema").cloned())
        };
        assert_eq!(listed(Some(json!({"type": "object"}))), Some(json!({"type": "object"})));
        assert_eq!(listed(Some(json!({"type": "string"}))), None);
        assert_eq!(listed(None), None);
    }

    #[test]
    fn text_is_one_block_with_the_notes() {
        let mut output = Output::text("a");
        output.parts.push(Part::Text { text: "b".to_owned() });
        output.structured = Some(json!({"for": "programs"}));
        check(
            Ok(output),
            &["read `path` for `file`"],
            &json!({"resultType": "complete", "isError": false,
                "content": [{"type": "text", "text": "a\nb\nnote: read `path` for `file`"}]}),
        );
        check(
            Ok(Output::default()),
            &[],
            &json!({"resultType": "complete", "isError": false, "content": []}),
        );
    }

    #[test]
    fn pictures_and_links_keep_their_place() {
        let mut output = Output::text("before");
        output.parts.push(Part::Image { mime: "image/png".to_owned(), data: vec![1, 2, 3] });
        output.parts.push(Part::Link {
            uri: "file:///x".to_owned(),
            name: "x".to_owned(),
            mime: Some("model/stl".to_owned()),
            bytes: Some(684),
        });
        check(
            Ok(output),
            &["n"],
            &json!({"resultType": "complete", "isError": false, "content": [
                {"type": "text", "text": "before"},
                {"type": "image", "data": "AQID", "mimeType": "image/png"},
                {"type": "resource_link", "uri": "file:///x", "name": "x", "mimeType": "model/stl", "size": 684},
                {"type": "text", "text": "note: n"}]}),
        );
    }

    #[test]
    fn a_fault_is_an_error_with_the_seen_content() {
        let mut seen = Output::text("so far");
        seen.parts.push(Part::Image { mime: "image/png".to_owned(), data: vec![0] });
        let fault = Fault::not_found("no file `x`").next("use `glob`").seen(seen);
        check(
            Err(fault),
            &[],
            &json!({"resultType": "complete", "isError": true, "content": [
                {"type": "text", "text": "no file `x`\nuse `glob`\nso far"},
                {"type": "image", "data": "AA==", "mimeType": "image/png"}]}),
        );
    }

    #[test]
    fn hints_follow_from_what_a_tool_may_touch() {
        let check = |at_most: Kinds, expected: Value| {
            assert_eq!(serde_json::to_value(hints(at_most)).map_err(|error| error.to_string()), Ok(expected));
        };
        check(
            Kinds::READ,
            json!({"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false}),
        );
        let noted = json!({"readOnlyHint": true, "destructiveHint": false, "openWorldHint": false});
        check(Kinds::READ.with(Kinds::SESSION), noted.clone());
        check(Kinds::NONE, noted);
        check(Kinds::WRITE, json!({"readOnlyHint": false, "destructiveHint": true, "openWorldHint": false}));
        check(Kinds::NET, json!({"readOnlyHint": false, "destructiveHint": false, "openWorldHint": true}));
        check(Kinds::ALL, json!({"readOnlyHint": false, "destructiveHint": true, "openWorldHint": true}));
    }
}
