//! Messages between haft and the host script: one JSON value per line.

use kit::{Fault, Kind, OrFault};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::Mode;
use crate::{
    plugins::{Described, questions::Question},
    result_parts::Piece,
};

/// A message of a process.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::plugins) struct HostMessage {
    pub(in crate::plugins) op: String,
    pub(in crate::plugins) id: u64,
    pub(in crate::plugins) ok: bool,
    #[serde(deserialize_with = "filled")]
    pub(in crate::plugins) parts: Vec<Piece>,
    pub(in crate::plugins) structured: Option<Value>,
    pub(in crate::plugins) exit: Option<i32>,
    /// Whether it may have started processes.
    pub(in crate::plugins) started: bool,
    /// Whether this is an intermediate result of a generator, which waits for input.
    pub(in crate::plugins) more: bool,
    #[serde(deserialize_with = "filled")]
    pub(in crate::plugins) notes: Vec<String>,
    #[serde(deserialize_with = "filled")]
    pub(in crate::plugins) error: String,
    #[serde(deserialize_with = "filled")]
    pub(in crate::plugins) traceback: String,
    #[serde(deserialize_with = "filled")]
    pub(in crate::plugins) tools: Vec<Described>,
    pub(in crate::plugins) tool: Option<Described>,
    #[serde(deserialize_with = "filled")]
    pub(in crate::plugins) missing: Vec<String>,
    pub(super) done: Option<f64>,
    pub(super) total: Option<f64>,
    #[serde(deserialize_with = "filled")]
    pub(super) message: String,
    #[serde(deserialize_with = "filled")]
    pub(in crate::plugins) executable: String,
    #[serde(deserialize_with = "filled")]
    pub(super) compiled_by: String,
    #[serde(deserialize_with = "filled")]
    pub(super) code: String,
    /// The number that ties an answer to its question.
    pub(super) number: u64,
    pub(super) question: Option<Question>,
}

/// Reads `null` as the default value.
fn filled<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

#[derive(Serialize)]
pub(super) struct Stop {
    pub(super) op: &'static str,
    pub(super) id: u64,
}

#[derive(Serialize)]
pub(super) struct First<'a> {
    pub(super) token: &'a str,
    pub(super) mode: Mode,
    /// Whether haft wants the script's bytecode, if it had to be compiled.
    pub(super) keep: bool,
}

/// Encodes a message as a line.
pub(super) fn line(message: &impl Serialize) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::with_capacity(256);
    serde_json::to_writer(&mut bytes, message).or_fault(Kind::Bug, "a message to a tool can't be written")?;
    bytes.push(b'\n');
    Ok(bytes)
}
