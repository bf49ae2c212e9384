//! Stored tool definitions: the known definitions of a server that does not run, and the accepted ones.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use kit::{Fault, Kind};
use serde::{Deserialize, Serialize};
use store::{create_folder, replace_file};

use super::{
    Server,
    connect::Lifecycle,
    definition::{Definition, difference},
};

/// Limit of a file, in bytes; haft never writes a larger one.
const LARGEST: u64 = 64 << 20;

/// The state folder's record of one server.
///
/// Invariant: a person accepted each definition that a model is shown, or it is the first that the server
/// declared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The server's name, for a person who looks into the file.
    server: String,
    /// The lifecycle with which it begins.
    pub(super) lifecycle: Lifecycle,
    /// The accepted definitions.
    pub(super) accepted: Vec<Definition>,
    /// The present definitions, where they differ from the accepted ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pending: Option<Vec<Definition>>,
}

impl Manifest {
    /// Creates the record of a new server.
    pub(super) fn first(server: &str, lifecycle: Lifecycle, said: Vec<Definition>) -> Self {
        Self { server: server.to_owned(), lifecycle, accepted: said, pending: None }
    }

    /// Returns the record after the server declared these definitions.
    pub(super) fn updated(&self, lifecycle: Lifecycle, said: Vec<Definition>) -> Self {
        let is_same = said.len() == self.accepted.len() && self.accepted.iter().all(|it| said.contains(it));
        Self { lifecycle, pending: (!is_same).then_some(said), ..self.clone() }
    }

    /// Returns the record with the pending definitions accepted.
    pub(super) fn with_pending(&self) -> Self {
        let accepted = self.pending.clone().unwrap_or_else(|| self.accepted.clone());
        Self { accepted, pending: None, ..self.clone() }
    }

    /// Returns the usable definitions: accepted, and still what the server declares.
    pub(super) fn usable(&self) -> impl Iterator<Item = &Definition> {
        self.accepted.iter().filter(|it| self.pending.as_ref().is_none_or(|said| said.contains(it)))
    }

    /// Returns whether the tool is as it was accepted.
    pub(super) fn is_usable(&self, tool: &Definition) -> bool {
        self.usable().any(|it| it == tool)
    }

    /// Renders everything that is not accepted, for the person who is to accept it.
    pub(super) fn difference(&self) -> Option<String> {
        self.pending.as_ref().map(|said| difference(&self.accepted, said))
    }
}

/// Returns the path of a server's record. A server with another command or address has another record, and a
/// workspace's server has one per workspace.
pub(super) fn place(folder: &Path, server: &Server, workspace: &Path) -> PathBuf {
    folder.join(format!("{}.json", key(server, workspace)))
}

/// Returns the key that identifies a server: its name, what starts it, and whose it is.
pub(super) fn key(server: &Server, workspace: &Path) -> String {
    let section = &server.section;
    let of = match server.whose {
        super::Whose::Person => None,
        super::Whose::Workspace | super::Whose::Untrusted => Some(workspace),
    };
    let text = format!(
        "{:?}",
        (
            &server.name,
            &section.command,
            &section.args,
            &section.env,
            &section.cwd,
            &section.url,
            &section.headers,
            of
        )
    );
    blake3::hash(text.as_bytes()).to_hex().chars().take(16).collect()
}

/// Reads a record, and the time at which it was written.
pub(super) fn read(path: &Path) -> Option<(Manifest, Option<SystemTime>)> {
    let about = fs::metadata(path).ok().filter(|it| it.len() <= LARGEST)?;
    let manifest = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    Some((manifest, about.modified().ok()))
}

/// Writes a record, and returns the time.
///
/// # Errors
/// When it can't be written.
pub(super) fn write(path: &Path, manifest: &Manifest) -> Result<Option<SystemTime>, Fault> {
    let write = || {
        create_folder(path.parent().unwrap_or(Path::new("/")))?;
        replace_file(path, &serde_json::to_vec(manifest)?)?;
        fs::metadata(path)?.modified()
    };
    write().map(Some).map_err(|error: std::io::Error| {
        Fault::new(
            Kind::Unavailable,
            format!("what a server says of its tools can't be kept in `{}`: {error}", path.display()),
        )
        .caused_by(error)
    })
}
