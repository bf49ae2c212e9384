//! Mounts: what a sandboxed command sees at a path, and what it may do there.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One thing that a command sees at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Where: an absolute path without links.
    pub at: PathBuf,
    /// What is there.
    pub what: What,
}

/// What is at a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// What this path is outside, with all that is mounted below it.
    Bind {
        /// The path outside.
        from: PathBuf,
        /// What may be done with it.
        access: Access,
    },
    /// A folder that begins empty, belongs to the session, and is gone with it.
    Private {
        /// How much fits into it.
        bytes: u64,
        /// Its mode.
        mode: u32,
        /// Nothing can be written once all other mounts are made.
        sealed: bool,
        /// What fits is for all folders together that share it.
        shared: bool,
    },
    /// An empty file or folder in place of what is there.
    Hidden {
        /// It is a folder.
        folder: bool,
        /// Nobody may open it. Most programs take a configuration that is empty, and fail at one that they can't open;
        /// what holds passwords is not to be taken for empty.
        shut: bool,
    },
    /// A symbolic link.
    Link(PathBuf),
    /// A file with this text.
    Text(String),
    /// The processes of the sandbox.
    Processes,
    /// Terminals of the sandbox's own.
    Terminals,
}

/// What may be done with what is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and changing.
    Write,
    /// What the device allows.
    Device,
}
