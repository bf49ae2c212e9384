//! How is what was said written down?

use serde::{Deserialize, Serialize};

use crate::model::{Item, ResultOf, Said};

/// One row of what a model is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "row", rename_all = "snake_case")]
pub(super) enum Row {
    /// A piece, complete. One of a model takes the place of the calls that began before it.
    Item {
        /// The piece.
        item: Item,
    },
    /// A call of an answer that is not complete yet is about to begin.
    Began {
        /// What the answer had said by then.
        before: Vec<Said>,
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
}

/// A line of what a person is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "who", rename_all = "snake_case")]
pub enum Message {
    /// The person said this.
    Person {
        /// The text.
        text: String,
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
        /// What came of it, in a line.
        line: String,
        /// How long it took, in milliseconds.
        ms: f64,
    },
    /// Something happened.
    Note {
        /// One line.
        text: String,
    },
}
