//! What is it that a person trusts of a workspace's tools?

use std::{io, path::Path};

use super::{Folder, folders, written::Written};

/// A file that is meant to be a tool, as a person is shown it.
pub struct OwnFile {
    /// The file, relative to the workspace where it lies there.
    pub file: String,
    /// A model wrote it, and nobody had vouched for it.
    pub by_model: bool,
}

/// The files in these folders of a workspace; from now on a person vouches for what a model wrote of them.
///
/// # Errors
/// When that can't be kept in the state folder.
pub fn adopt(state: &Path, workspace: &Path, folders: &[Folder]) -> io::Result<Vec<OwnFile>> {
    let written = Written::beneath(&state.join("tools"));
    let marks = written.marks();
    let mut files = Vec::new();
    for found in folders.iter().flat_map(|folder| folders::read(folder, workspace).files) {
        let hash = found.held.as_ref().ok().map(|it| it.hash);
        let by_model = hash.filter(|hash| marks.has(&found.path, hash));
        if let Some(hash) = by_model {
            written.adopt(&found.path, &hash)?;
        }
        let file = found.path.strip_prefix(workspace).unwrap_or(&found.path).display().to_string();
        files.push(OwnFile { file, by_model: by_model.is_some() });
    }
    Ok(files)
}
