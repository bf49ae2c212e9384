//! Stored tool definitions: what is known of a server that does not run, and what was accepted.

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

/// More than this nobody wrote.
const LARGEST: u64 = 64 << 20;

/// What is known of one server, kept in the state folder.
///
/// Invariant: what a model is shown was accepted: it was said the first time, or a person accepted it since.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The server's name, for a person who looks into the file.
    server: String,
    /// How it begins.
    pub(super) lifecycle: Lifecycle,
    /// Its definitions as they were accepted.
    pub(super) accepted: Vec<Definition>,
    /// Its definitions as it says them now, where those are others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pending: Option<Vec<Definition>>,
}

impl Manifest {
    /// Of a server that was met for the first time.
    pub(super) fn first(server: &str, lifecycle: Lifecycle, said: Vec<Definition>) -> Self {
        Self { server: server.to_owned(), lifecycle, accepted: said, pending: None }
    }

    /// The same once the server has said these.
    pub(super) fn told(&self, lifecycle: Lifecycle, said: Vec<Definition>) -> Self {
        let is_same = said.len() == self.accepted.len() && self.accepted.iter().all(|it| said.contains(it));
        Self { lifecycle, pending: (!is_same).then_some(said), ..self.clone() }
    }

    /// The same with what the server says now accepted.
    pub(super) fn with_pending(&self) -> Self {
        let accepted = self.pending.clone().unwrap_or_else(|| self.accepted.clone());
        Self { accepted, pending: None, ..self.clone() }
    }

    /// The definitions that may be used: those that were accepted, and are what the server says.
    pub(super) fn usable(&self) -> impl Iterator<Item = &Definition> {
        self.accepted.iter().filter(|it| self.pending.as_ref().is_none_or(|said| said.contains(it)))
    }

    /// Is the tool of this name as it was accepted?
    pub(super) fn is_usable(&self, tool: &Definition) -> bool {
        self.usable().any(|it| it == tool)
    }

    /// What is not accepted, all of it, for a person who is to accept it.
    pub(super) fn difference(&self) -> Option<String> {
        self.pending.as_ref().map(|said| difference(&self.accepted, said))
    }
}

/// Where it is kept. A server that is started in another way is another one, and so is one of another workspace.
pub(super) fn place(folder: &Path, server: &Server, workspace: &Path) -> PathBuf {
    folder.join(format!("{}.json", key(server, workspace)))
}

/// By which a server is told from others: its name, what starts it, and whose it is.
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

/// What is kept there, and when it was written.
pub(super) fn read(path: &Path) -> Option<(Manifest, Option<SystemTime>)> {
    let about = fs::metadata(path).ok().filter(|it| it.len() <= LARGEST)?;
    let manifest = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    Some((manifest, about.modified().ok()))
}

/// Keeps it there. Gives when.
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
