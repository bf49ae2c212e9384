//! Items of a conversation, in the form that is sent to a model.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One item of a conversation. Every call of an [`Item::Model`] has its result in the [`Item::Results`] that
/// follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "item", rename_all = "snake_case")]
pub enum Item {
    /// A message of the person, or events since the last turn.
    Person {
        /// The pieces, in order.
        pieces: Vec<Piece>,
    },
    /// An answer of the model.
    Model {
        /// Its parts, in order.
        said: Vec<MessagePart>,
    },
    /// The results of the model's calls, in the order of the calls.
    Results {
        /// One for each call.
        results: Vec<ResultOf>,
    },
}

/// A piece of the model's input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "piece", rename_all = "snake_case")]
pub enum Piece {
    /// A text.
    Text {
        /// The text itself.
        text: String,
    },
    /// A picture, by its handle. Only a request has its bytes, and only where they are sent; otherwise the
    /// model gets [`line`](Self::line).
    Image {
        /// The media type, such as `image/png`.
        mime: String,
        /// The handle of the stored bytes, such as `out_12`.
        handle: String,
        /// The bytes.
        #[serde(skip)]
        data: Option<Arc<[u8]>>,
    },
}

/// A part of a model's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "snake_case")]
pub enum MessagePart {
    /// A text.
    Text {
        /// The text itself.
        text: String,
    },
    /// A call.
    Call {
        /// The id for its result.
        id: String,
        /// The tool.
        tool: String,
        /// The arguments as the model wrote them. They may not be JSON: models make mistakes.
        arguments: String,
    },
    /// A part that only its provider understands, and that is sent back unchanged.
    Opaque {
        /// Its wire format: `anthropic`, `responses`, `chat`.
        wire: String,
        /// The value, unchanged.
        value: Value,
    },
}

/// The result of one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultOf {
    /// The call's id.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// Whether the call succeeded.
    pub ok: bool,
    /// The pieces for the model.
    pub pieces: Vec<Piece>,
}

impl Item {
    /// Creates a message of the person with this text.
    pub fn person(text: impl Into<String>) -> Self {
        Self::Person { pieces: vec![Piece::text(text)] }
    }
}

impl Piece {
    /// Creates a piece of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Returns the piece as text: the text itself, or the line in place of a picture.
    pub fn line(&self) -> String {
        match self {
            Self::Text { text } => text.clone(),
            Self::Image { mime, handle, .. } => format!("[picture {handle}: {mime}]"),
        }
    }

    /// Returns the pieces as one text.
    pub fn lines(pieces: &[Self]) -> String {
        pieces.iter().map(Self::line).collect::<Vec<_>>().join("\n")
    }
}
