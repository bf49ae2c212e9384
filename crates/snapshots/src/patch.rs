//! Patch: the files that changed between a manifest and a folder made from it.

use kit::Fault;
use serde::{Deserialize, Serialize};

use crate::{
    BlobHash, Blobs, Manifest, Source,
    manifest::{FORMAT, LeftOut, Node, check, check_format},
    survey,
};

/// The files that work has changed: for each, its state in the snapshot and its state now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patch {
    pub(crate) format: u32,
    /// The [`id`](crate::Manifest::id) of the manifest that it was made on.
    pub base: BlobHash,
    /// The changes, in the order of their paths, each path once.
    pub changes: Vec<Change>,
    /// Changed files that do not travel back, and why.
    pub left_out: Vec<LeftOut>,
}

/// The change of one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Its path below the workspace.
    pub path: String,
    /// Its state in the snapshot; `None` if it did not exist.
    pub before: Option<Node>,
    /// Its state after the work; `None` if it was removed.
    pub after: Option<Node>,
}

impl Patch {
    /// Compares a folder with the manifest that it was made from. Stores the contents that changed and that `blobs` lacks.
    /// Files that the manifest's rules ignore are not in the patch unless the manifest names them. Blocks.
    ///
    /// # Errors
    /// Those of [`take`](crate::take).
    pub fn between(base: &Manifest, source: &Source, blobs: &dyn Blobs) -> Result<Self, Fault> {
        let named: Vec<String> = base.files.keys().cloned().collect();
        let mut survey = survey::survey(source, &base.ignores, &named)?;
        survey::store(source, &mut survey, blobs, |path, node| base.files.get(path) != Some(node))?;
        let is_left_out = |path: &str| survey.left_out.iter().any(|it| it.path == path);
        let mut changes = Vec::new();
        for (path, before) in &base.files {
            let after = survey.files.get(path);
            if after != Some(before) && !is_left_out(path) {
                changes.push(Change {
                    path: path.clone(),
                    before: Some(before.clone()),
                    after: after.cloned(),
                });
            }
        }
        for (path, after) in survey.files.iter().filter(|(path, _)| !base.files.contains_key(*path)) {
            changes.push(Change { path: path.clone(), before: None, after: Some(after.clone()) });
        }
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Self { format: FORMAT, base: base.id(), changes, left_out: survey.left_out })
    }

    /// Returns whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns its text, in which it is sent: JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Lists of plain values can't fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Parses the text of a patch, and checks each path and link in it: the worker may be hostile.
    ///
    /// # Errors
    /// [`Kind::BadArgs`](kit::Kind::BadArgs) when it is none, or names a path outside of the workspace.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Fault> {
        let patch: Self = serde_json::from_slice(bytes)
            .map_err(|error| Fault::bad_args(format!("this is not a patch of a snapshot: {error}")))?;
        check_format(patch.format)?;
        for Change { path, before, after } in &patch.changes {
            check(path, before.as_ref())?;
            check(path, after.as_ref())?;
        }
        let mut paths: Vec<&str> = patch.changes.iter().map(|it| it.path.as_str()).collect();
        paths.sort_unstable();
        match paths
            .windows(2)
            .find_map(|it| if let [one, other] = it { (one == other).then_some(*one) } else { None })
        {
            Some(twice) => Err(Fault::bad_args(format!("the patch changes `{twice}` twice"))),
            None => Ok(patch),
        }
    }
}
