//! Tool specs: the definition of each tool, as models and clients see it.

use std::path::PathBuf;

use serde_json::Value;

use crate::Kinds;

/// A tool's definition, as models and clients see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// The name the model calls.
    pub name: String,
    /// Its description, as the model reads it.
    pub description: String,
    /// The JSON schema of its arguments: always an object.
    pub schema: Value,
    /// Whether its result comes within the turn or later.
    pub mode: Mode,
    /// The most that any call of it may touch.
    pub at_most: Kinds,
    /// The JSON schema of its structured output, if it declares one.
    pub output: Option<Value>,
    /// The source of the tool.
    pub origin: Origin,
}

/// The source of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Built into the program.
    Program,
    /// This file, in a folder of tools.
    File(PathBuf),
    /// Run by the model's provider: the model sees its definition, and haft never calls it.
    Provider,
    /// An MCP server of this name, of which haft is a client.
    Server(String),
}

/// Whether the result of a call comes within the turn or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Awaited within the turn.
    Direct,
    /// The call returns a job at once; the result arrives in a later turn.
    Background,
    /// The tool yields and is continued with more input.
    Stateful,
}
