//! Trust in a workspace's tools: what exactly is trusted.

use std::{io, path::Path};

use super::{Folder, Section, Whose, attestation, folders, provenance_records::Written};

/// A file that is meant to be a tool, as a person is shown it.
pub struct OwnFile {
    /// The file, relative to the workspace where it lies there.
    pub file: String,
    /// A model wrote it or a tool made it, and nobody had vouched for it.
    pub by_model: bool,
}

/// What a person vouches for who vouches for one tool.
pub struct Attestation {
    /// Its file, and the code beside it.
    pub files: Vec<String>,
    /// What is granted to it.
    pub section: Option<Section>,
}

/// The code in a workspace's folders, for all of which a person vouches from now on, as it is: the tools, then what lies
/// beside them.
///
/// # Errors
/// When that can't be kept in the state folder.
pub fn adopt(state: &Path, workspace: &Path, folders: &[Folder]) -> io::Result<Vec<OwnFile>> {
    let written = Written::beneath(&state.join("tools"));
    let marks = written.marks();
    let own: Vec<Folder> = folders.iter().filter(|it| it.whose != Whose::Person).cloned().collect();
    let (mut all, mut files) = (Vec::new(), Vec::new());
    let shown = |path: &Path| path.strip_prefix(workspace).unwrap_or(path).display().to_string();
    for found in own.iter().flat_map(|folder| folders::read(folder, workspace).files) {
        let hash = found.held.ok().map(|it| it.hash);
        let by_model = hash.is_some_and(|hash| marks.has(&found.path, &hash));
        files.push(OwnFile { file: shown(&found.path), by_model });
        all.extend(hash.map(|hash| (found.path, hash)));
    }
    for (path, hash) in attestation::all_code(&own, workspace) {
        let file = shown(&path);
        if !files.iter().any(|it| it.file == file) {
            files.push(OwnFile { file, by_model: marks.has(&path, &hash) });
        }
        all.push((path, hash));
    }
    written.vouch(&all)?;
    Ok(files)
}
