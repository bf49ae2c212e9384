//! Items of a conversation, as a model is sent it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One piece of a conversation. Every call of an [`Item::Model`] has its result in the [`Item::Results`] that follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "item", rename_all = "snake_case")]
pub enum Item {
    /// What the person said, or what happened meanwhile.
    Person {
        /// In order.
        pieces: Vec<Piece>,
    },
    /// What the model said and did.
    Model {
        /// In order.
        said: Vec<Said>,
    },
    /// What came of its calls, in the order in which it made them.
    Results {
        /// One for each call.
        results: Vec<ResultOf>,
    },
}

/// A piece of what a model is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "piece", rename_all = "snake_case")]
pub enum Piece {
    /// A text.
    Text {
        /// The text itself.
        text: String,
    },
    /// A picture, by its handle. Its bytes are there only in a request, and only where they are to be sent again;
    /// otherwise the model reads [`line`](Self::line).
    Image {
        /// Such as `image/png`.
        mime: String,
        /// Under which the bytes are kept, such as `out_12`.
        handle: String,
        /// The bytes.
        #[serde(skip)]
        data: Option<Arc<[u8]>>,
    },
}

/// A part of what a model said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "snake_case")]
pub enum Said {
    /// A text.
    Text {
        /// The text itself.
        text: String,
    },
    /// A call.
    Call {
        /// The id that its result goes back under.
        id: String,
        /// The tool.
        tool: String,
        /// The arguments as they were written. Not always JSON: models err.
        arguments: String,
    },
    /// Something that only the provider it came from understands, and wants to see again as it was.
    Opaque {
        /// The wire format it belongs to: `anthropic`, `responses`, `chat`.
        wire: String,
        /// As it came.
        value: Value,
    },
}

/// What came of one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultOf {
    /// The call's id.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// Whether it worked.
    pub ok: bool,
    /// What the model reads and sees.
    pub pieces: Vec<Piece>,
}

impl Item {
    /// What a person said, as text.
    pub fn person(text: impl Into<String>) -> Self {
        Self::Person { pieces: vec![Piece::text(text)] }
    }
}

impl Piece {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// It as text: the text itself, or the line that stands for a picture.
    pub fn line(&self) -> String {
        match self {
            Self::Text { text } => text.clone(),
            Self::Image { mime, handle, .. } => format!("[picture {handle}: {mime}]"),
        }
    }

    /// These as one text.
    pub fn lines(pieces: &[Self]) -> String {
        pieces.iter().map(Self::line).collect::<Vec<_>>().join("\n")
    }
}
