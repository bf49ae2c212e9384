//! The output of a successful call.

use serde::Serialize;
use serde_json::Value;

/// The result of a successful call. It has the same shape as an MCP tool result, so nothing is lost in the
/// conversion.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Output {
    /// The parts, in order.
    pub parts: Vec<Part>,
    /// The same facts as JSON, for clients that want structured content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// The exit code, where a command ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// Whether the tool has already cut its text to a page that names the next call; the runtime's shorter
    /// limit (head and tail) would only break the page.
    #[serde(skip)]
    pub paged: bool,
}

/// One part of an output.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Plain text.
    Text {
        /// The text itself.
        text: String,
    },
    /// A picture for the model.
    Image {
        /// Its media type, such as `image/png`.
        mime: String,
        /// Its bytes, as they are in the file; as base64 in JSON.
        #[serde(serialize_with = "crate::base64::serialize")]
        data: Vec<u8>,
    },
    /// An audio recording.
    Audio {
        /// Its media type, such as `audio/wav`.
        mime: String,
        /// Its bytes, as they are in the file; as base64 in JSON.
        #[serde(serialize_with = "crate::base64::serialize")]
        data: Vec<u8>,
    },
    /// The content of an address, with the address.
    Resource {
        /// Its address.
        uri: String,
        /// Its media type, such as `text/markdown`.
        mime: Option<String>,
        /// Its content.
        body: Body,
    },
    /// A file that the client may open.
    Link {
        /// Its address.
        uri: String,
        /// Its name.
        name: String,
        /// Its media type, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime: Option<String>,
        /// Its size in bytes, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
    },
}

/// The content of a resource.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// Text.
    Text(String),
    /// Bytes; as base64 in JSON.
    #[serde(serialize_with = "crate::base64::serialize")]
    Bytes(Vec<u8>),
}

impl Output {
    /// Creates a text, which the runtime truncates if it is too long.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::Text { text: text.into() }], ..Self::default() }
    }

    /// Creates a text that the tool has already cut to a page, and that names the next call.
    pub fn page(text: impl Into<String>) -> Self {
        Self { paged: true, ..Self::text(text) }
    }

    /// Returns the text parts, joined by line breaks.
    pub fn as_text(&self) -> String {
        let texts: Vec<&str> = self
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Text { text } => Some(text.as_str()),
                Part::Image { .. } | Part::Audio { .. } | Part::Resource { .. } | Part::Link { .. } => None,
            })
            .collect();
        texts.join("\n")
    }
}
