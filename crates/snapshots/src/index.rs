//! Index: the hashes of files that have not changed since the last snapshot, so that they need not be read again.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use kit::files::Identity;
use serde::{Deserialize, Serialize};

use crate::manifest::Node;

/// A file that changed less than this before it was read is not remembered: it may change again within the resolution of its
/// time.
const RACY: Duration = Duration::from_secs(2);

/// The remembered files.
#[derive(Default)]
pub(crate) struct Index {
    path: Option<PathBuf>,
    known: HashMap<String, Known>,
}

/// A file, and the identity that it had when it was read.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Known {
    pub(crate) identity: Identity,
    pub(crate) node: Node,
}

impl Index {
    /// Reads the index of this file. One that is missing or damaged is empty: it only saves time.
    pub(crate) fn open(path: Option<&Path>) -> Self {
        let known = path.and_then(|it| fs::read(it).ok()).and_then(|it| serde_json::from_slice(&it).ok());
        Self { path: path.map(Path::to_owned), known: known.unwrap_or_default() }
    }

    /// Returns the state of the file of this identity.
    pub(crate) fn get(&self, path: &str, identity: &Identity) -> Option<&Node> {
        self.known.get(path).filter(|it| it.identity == *identity).map(|it| &it.node)
    }

    /// Remembers these files, which were read after `began`.
    pub(crate) fn save(&self, began: SystemTime, files: HashMap<String, Known>) {
        let Some(path) = &self.path else { return };
        let settled = began.checked_sub(RACY).and_then(|it| it.duration_since(UNIX_EPOCH).ok());
        let settled = i128::try_from(settled.unwrap_or_default().as_nanos()).unwrap_or(i128::MAX);
        let is_settled = |it: &Known| it.identity.modified_ns.max(it.identity.changed_ns) < settled;
        let files: HashMap<String, Known> = files.into_iter().filter(|(_, it)| is_settled(it)).collect();
        if let Err(error) = write(path, &files) {
            tracing::warn!("the index of a snapshot is not kept: {error}");
        }
    }
}

fn write(path: &Path, files: &HashMap<String, Known>) -> io::Result<()> {
    let bytes = serde_json::to_vec(files).map_err(io::Error::other)?;
    crate::blobs::write(path, &bytes)
}
