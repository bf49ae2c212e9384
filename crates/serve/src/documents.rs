//! Resources and prompts.

use std::sync::Arc;

use kit::{Body, Part, Spec};
use serde_json::Value;

use crate::client::Level;

/// A resource: the output of a job, an artifact, the journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document {
    /// Its address: `haft://jobs/job_3`.
    pub uri: String,
    /// Its name for programs.
    pub name: String,
    /// Its description, in one line.
    pub description: String,
    /// Its media type.
    pub mime: Option<String>,
    /// Its size in bytes, where that is known.
    pub bytes: Option<u64>,
}

/// A resource template: an address with `{names}` in it (RFC 6570, level 1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The address: `haft://jobs/{job}`.
    pub uri: String,
    /// Its name for programs.
    pub name: String,
    /// Its description, in one line.
    pub description: String,
    /// Its media type, if all have the same.
    pub mime: Option<String>,
}

/// The content of a resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    /// The address.
    pub uri: String,
    /// Its media type.
    pub mime: Option<String>,
    /// The content.
    pub body: Body,
}

/// A view that a host shows beside the calls of some tools: one HTML document (MCP Apps).
#[derive(Debug, Clone)]
pub struct View {
    /// Its address: `ui://haft/diff`.
    pub uri: String,
    /// Its name for programs.
    pub name: String,
    /// Its description, in one line.
    pub description: String,
    /// The document. It loads nothing.
    pub html: Arc<str>,
    /// The tools whose calls it shows.
    pub tools: Vec<String>,
    /// The tools that it calls itself. One that is not listed is listed for views alone.
    pub calls: Vec<Spec>,
}

/// A prompt that a person can start a message with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    /// Its name.
    pub name: String,
    /// Its purpose, in one line.
    pub description: String,
    /// Its arguments.
    pub arguments: Vec<Blank>,
}

/// An argument of a prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blank {
    /// Its name.
    pub name: String,
    /// Its description, in one line.
    pub description: String,
    /// Whether it is required.
    pub required: bool,
}

/// One message of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The speaker.
    pub by: Speaker,
    /// The content.
    pub part: Part,
}

/// The speaker of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The person.
    Person,
    /// The model.
    Model,
}

/// The prompt or resource template whose argument is completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A prompt, by its name.
    Prompt(String),
    /// Documents, by their [`Pattern`].
    Documents(String),
}

/// A log record for a client that belongs to none of its requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// Its severity.
    pub level: Level,
    /// The part of haft that it comes from: `jobs`.
    pub logger: String,
    /// Its content.
    pub data: Value,
}
