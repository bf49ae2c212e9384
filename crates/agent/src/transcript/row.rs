//! The rows of a conversation, as they are written to the disk: `Row` for the model's side, [`Message`] for the person's.

use serde::{Deserialize, Serialize};

use crate::model::{Item, Piece, ResultOf, Said};

/// One row of what a model is sent. What a conversation is follows from its rows alone, in their order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "row", rename_all = "snake_case")]
pub(super) enum Row {
    /// A piece, complete. One of a model takes the place of the calls that began before it.
    Item {
        /// The piece.
        item: Item,
        /// Where it begins a turn of the person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<Begins>,
    },
    /// A call of an answer that is not complete yet is about to begin.
    Began {
        /// What the answer has said before it and no earlier row has, each with its place in the answer.
        before: Vec<(usize, Said)>,
        /// The call's place in the answer: calls may be written by turns.
        place: usize,
        /// The call.
        call: Said,
        /// Its id in the journal.
        journal: String,
    },
    /// A call of the newest answer is over.
    Ended {
        /// What came of it.
        result: ResultOf,
    },
    /// The model is to be told this when the person speaks next.
    Note {
        /// One line.
        text: String,
    },
    /// The model is to be shown this when the person speaks next: a picture that a tool of the provider's made.
    Shown {
        /// In order.
        pieces: Vec<Piece>,
    },
    /// These pieces take the place of others from here on: a part of the conversation was summed up, or cut short.
    Instead {
        /// The first of those that they take the place of, counted from 0.
        from: usize,
        /// How many those are.
        count: usize,
        /// What stands there now.
        items: Vec<Item>,
    },
    /// The person took back so many turns, the newest ones, and all that was said and done in them.
    Rewound {
        /// How many.
        turns: usize,
        /// What the model is to be told when the person speaks next, in the place of what it was to be told before.
        notes: Vec<Piece>,
    },
}

/// What is known of an item that begins a turn of the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begins {
    /// How many of its pieces are news, before what the person gave.
    #[serde(default)]
    pub(super) news: usize,
    /// The number of the person's line among the messages.
    pub(super) message: u64,
}

/// A row of the messages that is not a line: it takes others back.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "who", rename_all = "snake_case")]
pub(super) enum Mark {
    /// The lines from this number on don't count.
    Rewound {
        /// The first of them.
        since: u64,
    },
}

/// A line of what a person is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "who", rename_all = "snake_case")]
pub enum Message {
    /// The person said this.
    Person {
        /// The text.
        text: String,
        /// What they gave beside it, a line each: `file src/a.rs, 123 bytes`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attached: Vec<String>,
    },
    /// The model said this.
    Model {
        /// The text.
        text: String,
    },
    /// A tool was called.
    Tool {
        /// Its name.
        tool: String,
        /// What it was called with, in short.
        title: String,
        /// Whether it worked.
        ok: bool,
        /// The exit code, where a command ran.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<i32>,
        /// What came of it, in a line.
        line: String,
        /// The handles of the pictures that came of it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pictures: Vec<String>,
        /// How long it took, in milliseconds.
        ms: f64,
    },
    /// Something happened.
    Note {
        /// One line.
        text: String,
    },
}
