//! One call, start to finish.

use std::{sync::Arc, time::Duration};

use kit::{Fault, Output, services::Progress};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A tool that a model asks for by name.
pub struct Call {
    /// The tool's name.
    pub tool: String,
    /// Its arguments, as they came.
    pub arguments: Arguments,
    /// Stops the call.
    pub cancel: CancellationToken,
    /// Hears how far it has come.
    pub progress: Option<Arc<dyn Progress>>,
}

/// The arguments of a call, as they came through the door.
pub enum Arguments {
    /// Parsed already.
    Json(Value),
    /// As the model wrote them. Broken JSON is a fault, never an empty object.
    Raw(String),
}

/// What came of a call: exactly one for each call.
#[derive(Debug)]
pub struct Answer {
    /// The call's id, as the journal has it.
    pub id: String,
    /// The output, or why there is none.
    pub result: Result<Output, Fault>,
    /// What the runtime did to the call that the model should know of, such as a repaired argument.
    pub notes: Vec<String>,
    /// From the door to the answer.
    pub took: Duration,
}

impl Call {
    /// A call with parsed arguments, which nothing stops and nobody watches.
    pub fn new(tool: impl Into<String>, arguments: Value) -> Self {
        Self {
            tool: tool.into(),
            arguments: Arguments::Json(arguments),
            cancel: CancellationToken::new(),
            progress: None,
        }
    }
}

impl Answer {
    /// What the model reads.
    pub fn as_text(&self) -> String {
        let mut text = match &self.result {
            Ok(output) => output.as_text(),
            Err(fault) => fault.as_text(),
        };
        for note in &self.notes {
            text.push_str("\nnote: ");
            text.push_str(note);
        }
        text
    }
}
