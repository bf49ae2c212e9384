//! Trust in a workspace's tools: exactly what a person trusts.

use std::{io, path::Path};

use super::{Folder, Section, Whose, attestation, folders, provenance_records::ProvenanceRecords};

/// A tool file, as shown to a person.
pub struct OwnFile {
    /// The file, relative to the workspace if it is in there.
    pub file: String,
    /// Whether a model wrote it or a tool made it, without an attestation by a person.
    pub by_model: bool,
}

/// The subject of an attestation of one tool.
pub struct Attestation {
    /// Its file, and the code beside it.
    pub files: Vec<String>,
    /// Its grants.
    pub section: Option<Section>,
}

/// Records that a person attests all code in a workspace's folders as it is now, and returns it: the tools,
/// then the code beside them.
///
/// # Errors
/// When the records can't be written in the state folder.
pub fn adopt(state: &Path, workspace: &Path, folders: &[Folder]) -> io::Result<Vec<OwnFile>> {
    let written = ProvenanceRecords::beneath(&state.join("tools"));
    let marks = written.marks();
    let own: Vec<Folder> = folders.iter().filter(|it| it.whose != Whose::Person).cloned().collect();
    let (mut all, mut files) = (Vec::new(), Vec::new());
    let shown = |path: &Path| path.strip_prefix(workspace).unwrap_or(path).display().to_string();
    for found in own.iter().flat_map(|folder| folders::read(folder, workspace, &mut |_, _| None).files) {
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
