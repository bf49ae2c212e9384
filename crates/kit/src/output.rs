//! The output of a call that worked.

use serde::Serialize;
use serde_json::Value;

/// What the model reads when a call worked. The same shape as an MCP tool
/// result, so nothing is lost at the door.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Output {
    /// The parts, in order.
    pub parts: Vec<Part>,
    /// The same facts for a program, where a client asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// The exit code, where a command ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// The tool has cut its text to a page itself and said how to go on, so the
    /// runtime's shorter bound (head and tail) would only break the page.
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
    /// A picture the model can look at.
    Image {
        /// Its media type, such as `image/png`.
        mime: String,
        /// Its bytes, as they are in the file; as base64 in JSON.
        #[serde(serialize_with = "crate::base64::serialize")]
        data: Vec<u8>,
    },
    /// Something to listen to.
    Audio {
        /// Its media type, such as `audio/wav`.
        mime: String,
        /// Its bytes, as they are in the file; as base64 in JSON.
        #[serde(serialize_with = "crate::base64::serialize")]
        data: Vec<u8>,
    },
    /// What stands at an address, with the address.
    Resource {
        /// Where it stands.
        uri: String,
        /// Its media type, such as `text/markdown`.
        mime: Option<String>,
        /// What stands there.
        body: Body,
    },
    /// A file that the client may open.
    Link {
        /// Where it is.
        uri: String,
        /// What to call it.
        name: String,
        /// Its media type, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime: Option<String>,
        /// How many bytes it has, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
    },
}

/// What stands at an address.
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
    /// A text, which the runtime cuts if it is too long.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::Text { text: text.into() }], ..Self::default() }
    }

    /// A text that the tool has already cut to a page, with the next call named.
    pub fn page(text: impl Into<String>) -> Self {
        Self { paged: true, ..Self::text(text) }
    }

    /// The text parts, joined by line breaks.
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
