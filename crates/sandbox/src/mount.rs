//! Mounts: the content of one path in the sandbox, and the permitted access.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Its path: absolute, without symlinks.
    pub at: PathBuf,
    /// Its content.
    pub what: What,
}

/// The content of a mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// This path of the machine, with all mounts below it.
    Bind {
        /// The path outside.
        from: PathBuf,
        /// The permitted access.
        access: Access,
    },
    /// This folder of the machine as it is. Changes are kept apart from it, and end with the sandbox.
    Overlay {
        /// The path outside.
        from: PathBuf,
    },
    /// The folder that the mounts before it show here, as a mount of its own: a mount point can't be renamed.
    Pinned,
    /// A folder that begins empty, belongs to the session, and is deleted with it.
    Private {
        /// Its size limit.
        bytes: u64,
        /// Its mode.
        mode: u32,
        /// Whether it becomes read-only once all other mounts are made.
        sealed: bool,
        /// Whether the size limit is for all shared folders together.
        shared: bool,
    },
    /// An empty file or folder that covers the real one.
    Hidden {
        /// Whether it is a folder.
        folder: bool,
        /// Whether opening it fails. Most programs accept an empty configuration but fail at one that they
        /// can't open; a file with passwords must not look empty.
        shut: bool,
    },
    /// A symbolic link.
    Link(PathBuf),
    /// A file with this text.
    Text(String),
    /// A `/proc` with the sandbox's processes.
    Processes,
    /// A `devpts` of the sandbox's own.
    Terminals,
}

/// The access to a bind mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and changing.
    Write,
    /// Reading and changing as far as the device allows.
    Device,
}
