//! Specs of tools: what a model and a client are told about each.

use std::path::PathBuf;

use serde_json::Value;

use crate::Kinds;

/// What a model and a client are told about a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// The name the model calls.
    pub name: String,
    /// What it does, as the model reads it.
    pub description: String,
    /// The JSON schema of its arguments: always an object.
    pub schema: Value,
    /// How the result comes back.
    pub mode: Mode,
    /// The most that any call of it touches.
    pub at_most: Kinds,
    /// The JSON schema of its structured output, where it says what that is.
    pub output: Option<Value>,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a tool comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It is part of the program.
    Program,
    /// It is this file, which somebody put into a folder of tools.
    File(PathBuf),
    /// The provider of the model runs it: the model is told that it is there, and nobody calls it here.
    Provider,
    /// A server of this name has it, which haft is a client of.
    Server(String),
}

/// How the result of a call comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Awaited within the turn.
    Direct,
    /// The call gives a job at once; the result arrives in a later turn.
    Background,
    /// The tool yields and is continued with more input.
    Stateful,
}
