//! What is it that a person trusts of a workspace's tools?

use std::{io, path::Path};

use super::{
    Folder, Whose, folders,
    written::{Author, Written},
};

/// A file that is meant to be a tool, as a person is shown it.
pub struct OwnFile {
    /// The file, relative to the workspace where it lies there.
    pub file: String,
    /// A model wrote it or a tool made it, and nobody had vouched for it.
    pub by_model: bool,
}

/// The files in these folders that a person vouches for from now on: all those of a workspace; of a person's own folders
/// what a model or a tool wrote there, as the rest is the person's anyway.
///
/// # Errors
/// When that can't be kept in the state folder.
pub fn adopt(state: &Path, workspace: &Path, folders: &[Folder]) -> io::Result<Vec<OwnFile>> {
    let written = Written::beneath(&state.join("tools"));
    let marks = written.marks();
    let mut files = Vec::new();
    for folder in folders {
        for found in folders::read(folder, workspace).files {
            let by_model = found.held.as_ref().is_ok_and(|it| marks.has(&found.path, &it.hash));
            if folder.whose == Whose::Person && !by_model {
                continue;
            }
            // Also of what nobody knows to be a model's: a haft that runs may be about to find that out.
            if let Ok(held) = &found.held {
                written.note(&found.path, &held.hash, Author::Person)?;
            }
            let file = found.path.strip_prefix(workspace).unwrap_or(&found.path).display().to_string();
            files.push(OwnFile { file, by_model });
        }
    }
    Ok(files)
}

/// Is there anything in these folders that a person has not vouched for yet?
pub fn has_strange(state: &Path, workspace: &Path, folders: &[Folder]) -> bool {
    let marks = Written::beneath(&state.join("tools")).marks();
    let files = folders.iter().flat_map(|folder| folders::read(folder, workspace).files);
    files.into_iter().any(|it| it.held.is_ok_and(|held| marks.has(&it.path, &held.hash)))
}
