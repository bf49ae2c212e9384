//! The protocol on an owner's socket: lines of JSON, a request and its answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

use crate::{fault::Failure, operation::Operation, owner::State};

/// The version of the protocol, which both ends name.
pub(crate) const VERSION: u32 = 1;

/// The longest line, in bytes: a prompt has pictures.
pub(crate) const LONGEST: usize = 32 << 20;

/// A client's request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    pub(crate) version: u32,
    pub(crate) session: String,
    pub(crate) ask: Ask,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    /// How the session stands.
    State,
    /// An operation.
    Act { key: String, by: String, operation: Operation },
    /// A message was posted to the inbox of this session or of an agent below it.
    Message { recipient: String },
    /// The head of the log now and whenever it grows, until the connection ends. With `attends` somebody there can be asked.
    Follow { attends: bool },
}

/// An owner's answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    State(Box<State>),
    Ok(Value),
    Fault(Failure),
    Head(u64),
    /// The session is not run by this process, or no longer.
    NotHere,
}

/// Why there is no line.
#[derive(Debug)]
pub(crate) enum NoLine {
    /// The connection ended.
    End,
    /// The line is too long.
    TooLong,
}

/// The next line, without its end; at most [`LONGEST`] bytes.
pub(crate) async fn line(from: &mut (impl AsyncBufRead + Unpin)) -> Result<Vec<u8>, NoLine> {
    let mut line = Vec::new();
    let most = LONGEST as u64 + 1;
    match from.take(most).read_until(b'\n', &mut line).await {
        Ok(_) if line.last() == Some(&b'\n') => {
            line.pop();
            Ok(line)
        }
        Ok(_) if line.len() > LONGEST => Err(NoLine::TooLong),
        // What is left of a line whose sender died is none.
        Ok(_) | Err(_) => Err(NoLine::End),
    }
}

/// A line for the wire.
pub(crate) fn written(value: &impl Serialize) -> Vec<u8> {
    // These have no way to fail.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}
