//! The rows of a conversation on the disk: `Row` for the model's side, [`Message`] for the person's.

use serde::{Deserialize, Serialize};

use crate::model::{Item, MessagePart, Piece, ResultOf};

/// One row of the model's conversation. The conversation follows from its rows alone, in their order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "row", rename_all = "snake_case")]
pub(super) enum Row {
    /// A complete item. An item of the model replaces the calls that began before it.
    Item {
        /// The item.
        item: Item,
        /// Its data as the beginning of a turn of the person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<Begins>,
    },
    /// A call of an unfinished answer is about to begin.
    Began {
        /// The parts of the answer before it that no earlier row has, each with its place in the answer.
        before: Vec<(usize, MessagePart)>,
        /// The call's place in the answer: calls may be interleaved.
        place: usize,
        /// The call.
        call: MessagePart,
        /// Its id in the journal.
        journal: String,
    },
    /// A call of the newest answer has ended.
    Ended {
        /// The result of the call.
        result: ResultOf,
    },
    /// A note that the model gets with the person's next message.
    Note {
        /// One line.
        text: String,
    },
    /// Pieces that the model gets with the person's next message: a picture that a provider's own tool made.
    Shown {
        /// The pieces, in order.
        pieces: Vec<Piece>,
    },
    /// Items that replace others from here on: a part of the conversation was summarized, or cut.
    Instead {
        /// The index of the first replaced item.
        from: usize,
        /// The number of replaced items.
        count: usize,
        /// The items in their place.
        items: Vec<Item>,
    },
    /// The person removed their newest turns, with everything said and done in them.
    Rewound {
        /// The number of turns.
        turns: usize,
        /// The notes that the model gets with the person's next message, in place of the earlier ones.
        notes: Vec<Piece>,
    },
}

/// The beginning of a turn of the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begins {
    /// The number of its pieces that come before the person's input.
    #[serde(default)]
    pub(super) news: usize,
    /// The number of the person's line among the messages.
    pub(super) message: u64,
}

/// A row of the messages that is not a line for the person: it removes others.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "who", rename_all = "snake_case")]
pub(super) enum RewindMark {
    /// The lines from this number on were rewound.
    Rewound {
        /// The number of the first one.
        since: u64,
    },
}

/// The mark below a text of the model that the end of its process cut off.
pub const CUT_OFF: &str = "[cut off: haft's process ended here]";

/// A line for the person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "who", rename_all = "snake_case")]
pub enum Message {
    /// A message of the person.
    Person {
        /// The text.
        text: String,
        /// The attachments, one line each: `file src/a.rs, 123 bytes`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attached: Vec<String>,
    },
    /// A text of the model.
    Model {
        /// The text.
        text: String,
        /// Whether the process ended before the answer was complete: [`CUT_OFF`] marks it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cut_off: bool,
    },
    /// A tool call.
    Tool {
        /// The tool's name.
        tool: String,
        /// Its arguments, in short.
        title: String,
        /// Whether the call succeeded.
        ok: bool,
        /// The exit code, where a command ran.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<i32>,
        /// The result, in a line.
        line: String,
        /// The handles of the pictures in the result.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pictures: Vec<String>,
        /// Duration in milliseconds.
        ms: f64,
    },
    /// A notice.
    Note {
        /// One line.
        text: String,
    },
}

impl Message {
    /// Creates a complete text of the model.
    pub(crate) fn model(text: String) -> Self {
        Self::Model { text, cut_off: false }
    }
}
