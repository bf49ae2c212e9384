//! Manifest: all files of a workspace with the hashes of their contents.

use std::collections::BTreeMap;

use kit::{Fault, Kind};
use serde::{Deserialize, Serialize};

use crate::BlobHash;

/// The form of manifests and patches. One of another form is refused.
pub(crate) const FORMAT: u32 = 1;

/// The files of a workspace at one moment, by their paths below it. Its own [`id`](Self::id) is the hash of its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The form of this manifest.
    pub(crate) format: u32,
    /// The commit that is checked out, for a person; `None` outside of a repository. No content is taken from it.
    pub git: Option<Git>,
    /// Each file, by its path below the workspace, with `/` between names.
    pub files: BTreeMap<String, Node>,
    /// Files that do not travel though git does not ignore them, and why. No path of them is changed by a patch.
    pub left_out: Vec<LeftOut>,
    /// The ignore rules that lie outside of the workspace or in `.git`, lowest precedence first, each with the path from
    /// where it applies down to the workspace: the worker ignores the same files.
    pub(crate) ignores: Vec<(String, String)>,
}

/// The state of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Git {
    /// The commit that `HEAD` names; `None` before the first commit.
    pub commit: Option<String>,
    /// The branch that is checked out.
    pub branch: Option<String>,
}

/// A file or a symlink. Folders exist through what is in them; empty ones don't travel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Node {
    /// A regular file.
    File {
        /// The hash of its content.
        hash: BlobHash,
        /// Its length in bytes.
        len: u64,
        /// Whether its owner may execute it.
        executable: bool,
    },
    /// A symlink whose target is relative and lies in the workspace.
    Link {
        /// The text of the link.
        target: String,
    },
}

impl Node {
    /// Returns the hash of a file's content.
    pub fn hash(&self) -> Option<BlobHash> {
        match self {
            Self::File { hash, .. } => Some(*hash),
            Self::Link { .. } => None,
        }
    }
}

/// A path that does not travel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Its path below the workspace.
    pub path: String,
    /// The reason.
    pub why: Why,
}

/// The reason why a path does not travel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It is larger than [`Limits::file`](crate::Limits::file).
    TooLarge {
        /// Its length in bytes.
        len: u64,
    },
    /// It contains the value of a secret.
    Secret,
    /// It is a symlink that leads out of the workspace, or an absolute one.
    LeadsOut,
    /// It is a pipe, a socket or a device.
    Special,
    /// It changed each time that it was read.
    Changing,
    /// It can't be read, or has names outside of the workspace.
    Unreadable,
    /// Its name is not UTF-8.
    Name,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let why = match &self.why {
            Why::TooLarge { len } => return write!(f, "`{}` is too large ({len} bytes)", self.path),
            Why::Secret => "contains a secret",
            Why::LeadsOut => "is a symlink that leads out of the workspace",
            Why::Special => "is a pipe, a socket or a device",
            Why::Changing => "is being written to all the time",
            Why::Unreadable => "can't be read, or has other names outside of the workspace",
            Why::Name => "has a name that is not UTF-8",
        };
        write!(f, "`{}` {why}", self.path)
    }
}

impl Manifest {
    /// Returns its text, in which it is sent: JSON, the same bytes for the same manifest.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Maps with text keys and plain values can't fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Parses the text of a manifest, and checks each path and link in it: the sender may be hostile.
    ///
    /// # Errors
    /// [`Kind::BadArgs`] when it is none, or names a path outside of the workspace.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Fault> {
        let manifest: Self = serde_json::from_slice(bytes)
            .map_err(|error| Fault::bad_args(format!("this is not a snapshot's manifest: {error}")))?;
        check_format(manifest.format)?;
        for (path, node) in &manifest.files {
            check(path, Some(node))?;
        }
        check_folders(manifest.files.keys())?;
        Ok(manifest)
    }

    /// Returns the hash of its text.
    pub fn id(&self) -> BlobHash {
        BlobHash::of(&self.to_bytes())
    }

    /// Returns the hashes of all contents, each once.
    pub fn hashes(&self) -> Vec<BlobHash> {
        let mut hashes: Vec<BlobHash> = self.files.values().filter_map(Node::hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes
    }
}

pub(crate) fn check_format(format: u32) -> Result<(), Fault> {
    if format == FORMAT {
        return Ok(());
    }
    Err(Fault::new(
        Kind::Unavailable,
        format!("a snapshot of form {format} can't be read; this haft reads form {FORMAT}"),
    )
    .next("Use the same version of haft on both machines."))
}

/// Checks that a path is one below a folder, and that a link stays in it.
pub(crate) fn check(path: &str, node: Option<&Node>) -> Result<(), Fault> {
    let sound = |name: &str| !name.is_empty() && name != "." && name != ".." && !name.contains('\0');
    let is_git = |name: &str| name.eq_ignore_ascii_case(".git");
    if !path.split('/').all(sound) || path.split('/').any(is_git) || path.len() > MAX_PATH {
        return Err(Fault::bad_args(format!("a snapshot can't have the path `{path}`")));
    }
    match node {
        Some(Node::Link { target }) if !stays(path, target) => {
            Err(Fault::bad_args(format!("the symlink `{path}` leads out of the workspace, to `{target}`")))
        }
        _ => Ok(()),
    }
}

/// Checks that no file lies below another file or a link.
pub(crate) fn check_folders<'a>(paths: impl Iterator<Item = &'a String>) -> Result<(), Fault> {
    let all: std::collections::HashSet<&str> = paths.map(String::as_str).collect();
    for path in &all {
        let mut above = *path;
        while let Some((folder, _)) = above.rsplit_once('/') {
            if all.contains(folder) {
                return Err(Fault::bad_args(format!(
                    "a snapshot can't have `{path}` below the file `{folder}`"
                )));
            }
            above = folder;
        }
    }
    Ok(())
}

/// Limit of a path, in bytes.
const MAX_PATH: usize = 4096;

/// Returns whether a symlink's target lies in the workspace by its text alone: relative, and never above the workspace.
pub(crate) fn stays(path: &str, target: &str) -> bool {
    if target.is_empty() || target.starts_with('/') || target.contains('\0') || target.len() > MAX_PATH {
        return false;
    }
    // `..` only at the start: after a name it would lead elsewhere if that name were a symlink. The folders of a manifest are
    // none, and so each step stays inside.
    let up = target
        .split('/')
        .take_while(|name| matches!(*name, ".." | "." | ""))
        .filter(|name| *name == "..")
        .count();
    let mut rest = target.split('/').skip_while(|name| matches!(*name, ".." | "." | ""));
    // Through `.git` a link would show what does not travel.
    up < path.split('/').count() && !rest.any(|name| name == ".." || name.eq_ignore_ascii_case(".git"))
}
