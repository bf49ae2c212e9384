//! Tools of the suite that answer by themselves.

use std::time::Duration;

use kit::{Body, Fault, Kind, Output, Part, Spec, base64, services::Progress};
use serde_json::{Map, Value, json};
use serve::{Client, Level};
use tokio::{sync::watch, time::sleep};

use super::{Changing, spec};

/// A red pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

/// An empty sound, at 8 kHz.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

/// The server sends at most ten progress notifications a second, and the last one.
const BETWEEN_STEPS: Duration = Duration::from_millis(150);

const BETWEEN_LOGS: Duration = Duration::from_millis(50);

pub(super) fn specs() -> Vec<Spec> {
    let none = || json!({"type": "object", "properties": {}});
    vec![
        spec("test_simple_text", "Answers with text.", none()),
        spec("test_image_content", "Answers with an image.", none()),
        spec("test_audio_content", "Answers with sound.", none()),
        spec("test_embedded_resource", "Answers with a resource.", none()),
        spec("test_multiple_content_types", "Answers with text, an image and a resource.", none()),
        spec("test_tool_with_logging", "Logs while it runs.", none()),
        spec("test_logging_tool", "Logs while it runs.", none()),
        spec("test_tool_with_progress", "Tells how far it has come.", none()),
        spec("test_error_handling", "Always fails.", none()),
        spec("test_reconnection", "Takes its time.", none()),
        spec("test_trigger_tool_change", "Adds a tool, or takes it away again.", none()),
        spec("test_trigger_prompt_change", "Adds a prompt, or takes it away again.", none()),
        spec("test_trigger_resource_change", "Changes test://watched-resource.", none()),
        spec("json_schema_2020_12_tool", "Has a schema of many keywords.", schema_2020_12()),
        spec("test_x_mcp_header", "Takes an argument that is repeated in a header.", with_header()),
    ]
}

/// Returns the tool that is added and removed.
pub(super) fn sometimes() -> Spec {
    spec("test_sometimes", "Is there since the list of tools changed.", json!({"type": "object"}))
}

pub(super) async fn run(
    tool: &str,
    arguments: &Map<String, Value>,
    client: &Client,
    progress: Option<&dyn Progress>,
    changing: &Changing,
) -> Result<Output, Fault> {
    match tool {
        "test_simple_text" => Ok(Output::text("This is a simple text response for testing.")),
        "test_image_content" => Ok(parts([image()])),
        "test_audio_content" => Ok(parts([Part::Audio { mime: "audio/wav".to_owned(), data: bytes(WAV) }])),
        "test_embedded_resource" => {
            let text = "This is an embedded resource content.";
            Ok(parts([resource("test://embedded-resource", "text/plain", text)]))
        }
        "test_multiple_content_types" => Ok(parts([
            Part::Text { text: "Multiple content types test:".to_owned() },
            image(),
            resource("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ])),
        "test_tool_with_logging" | "test_logging_tool" => {
            client.log(Level::Info, "fixture", json!("Tool execution started"));
            sleep(BETWEEN_LOGS).await;
            client.log(Level::Info, "fixture", json!("Tool processing data"));
            sleep(BETWEEN_LOGS).await;
            client.log(Level::Info, "fixture", json!("Tool execution completed"));
            Ok(Output::text("It has logged three lines."))
        }
        "test_tool_with_progress" => {
            for done in [0.0, 50.0, 100.0] {
                if let Some(progress) = progress {
                    progress.report(done, Some(100.0), &format!("Completed step {done} of 100"));
                }
                sleep(BETWEEN_STEPS).await;
            }
            Ok(Output::text("It has come to its end."))
        }
        "test_error_handling" => {
            Err(Fault::new(Kind::Failed, "This tool intentionally returns an error for testing"))
        }
        "test_reconnection" => {
            sleep(BETWEEN_STEPS).await;
            Ok(Output::text("It has come to its end."))
        }
        "test_trigger_tool_change" => Ok(changed(&changing.tools)),
        "test_trigger_prompt_change" => Ok(changed(&changing.prompts)),
        "test_trigger_resource_change" => Ok(changed(&changing.watched)),
        "json_schema_2020_12_tool" | "test_x_mcp_header" | "test_sometimes" => {
            Ok(Output::text(Value::Object(arguments.clone()).to_string()))
        }
        other => Err(Fault::bug(format!("`{other}` is listed, and nothing runs it"))),
    }
}

/// Returns a red pixel.
pub(super) fn image() -> Part {
    Part::Image { mime: "image/png".to_owned(), data: png() }
}

/// Returns the bytes of a red pixel.
pub(super) fn png() -> Vec<u8> {
    bytes(PNG)
}

pub(super) fn resource(uri: &str, mime: &str, text: &str) -> Part {
    Part::Resource { uri: uri.to_owned(), mime: Some(mime.to_owned()), body: Body::Text(text.to_owned()) }
}

fn bytes(base64: &str) -> Vec<u8> {
    base64::decoded(base64).unwrap_or_default()
}

fn parts<const COUNT: usize>(parts: [Part; COUNT]) -> Output {
    Output { parts: parts.into(), ..Output::default() }
}

fn changed(count: &watch::Sender<u64>) -> Output {
    count.send_modify(|count| *count += 1);
    Output::text("It has changed.")
}

fn schema_2020_12() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

fn with_header() -> Value {
    json!({
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    })
}
