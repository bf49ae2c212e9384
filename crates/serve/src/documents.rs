//! Resources and prompts.

use kit::{Body, Part};
use serde_json::Value;

use crate::client::Level;

/// A document that can be read: the output of a job, an artifact, the journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document {
    /// Its address: `haft://jobs/job_3`.
    pub uri: String,
    /// What a program calls it.
    pub name: String,
    /// What it is, in one line.
    pub description: String,
    /// Its media type.
    pub mime: Option<String>,
    /// Its length in bytes, where that is known.
    pub bytes: Option<u64>,
}

/// What documents of one kind are called: an address with `{names}` in it (RFC 6570, level 1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The address: `haft://jobs/{job}`.
    pub uri: String,
    /// What a program calls this kind.
    pub name: String,
    /// What stands there, in one line.
    pub description: String,
    /// Its media type, if all have the same.
    pub mime: Option<String>,
}

/// What stands at an address.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    /// The address.
    pub uri: String,
    /// Its media type.
    pub mime: Option<String>,
    /// What stands there.
    pub body: Body,
}

/// What a person can begin a message with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    /// Its name.
    pub name: String,
    /// What it is for, in one line.
    pub description: String,
    /// What is filled in.
    pub arguments: Vec<Blank>,
}

/// An argument of a prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blank {
    /// Its name.
    pub name: String,
    /// What it is, in one line.
    pub description: String,
    /// There is no prompt without it.
    pub required: bool,
}

/// One message of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Who says it.
    pub by: Speaker,
    /// What is said.
    pub part: Part,
}

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The person.
    Person,
    /// The model.
    Model,
}

/// What an argument belongs to that is to be completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A prompt, by its name.
    Prompt(String),
    /// Documents, by their [`Pattern`].
    Documents(String),
}

/// Something that a client may want to hear of, which belongs to no request of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// How much it matters.
    pub level: Level,
    /// What of haft says so: `jobs`.
    pub logger: String,
    /// What is to be said.
    pub data: Value,
}
