//! Landings of batches: which tasks had their changes land in this workspace, recorded beside its other records.
//!
//! The engine has the results of a task for all workspaces; only this one knows what landed in it.

use std::{
    collections::HashMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use engine::Key;
use kit::{Fault, Kind};
use serde::{Deserialize, Serialize};
use store::Store;

use crate::remote::Landed;

/// Maximum number of recorded tasks; with more, the older half is removed.
const MOST: usize = 20_000;

/// The landing of one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Landing {
    key: String,
    /// The number of files that are as the task made them.
    pub(super) landed: usize,
    /// The number of files that were refused.
    pub(super) refused: usize,
    /// The call that changed them.
    #[serde(default)]
    call: String,
    /// Whether it was undone since.
    #[serde(skip)]
    pub(super) is_undone: bool,
}

/// The landings of a workspace.
pub(super) struct Landings {
    file: PathBuf,
    known: HashMap<String, Landing>,
}

impl Landings {
    /// Reads the landings from the folder with the records of a workspace.
    pub(super) fn read(records: &Path) -> Self {
        let file = records.join("landed-tasks.jsonl");
        let text = fs::read_to_string(&file).unwrap_or_default();
        // Without a line that a full disk cut, its task counts as not landed, and landing it again changes nothing.
        let all: Vec<Landing> = text.lines().filter_map(|it| serde_json::from_str(it).ok()).collect();
        let newest = all.get(all.len() / 2..).filter(|_| all.len() > MOST);
        if let Some(newest) = newest {
            let lines: String = newest.iter().filter_map(|it| line(it).ok()).collect();
            let fresh = file.with_extension("new");
            // The file stays as it is if it can't be shortened.
            drop(fs::write(&fresh, lines).and_then(|()| fs::rename(&fresh, &file)));
        }
        // The last landing of a task counts.
        let known = all.into_iter().map(|it| (it.key.clone(), it)).collect();
        Self { file, known }
    }

    /// Returns the last landing of a task, and whether it was undone since.
    ///
    /// # Errors
    /// When the store can't be read.
    pub(super) fn of(&self, key: &Key, store: &Store) -> Result<Option<Landing>, Fault> {
        let Some(landing) = self.known.get(&key.text()) else { return Ok(None) };
        Ok(Some(Landing { is_undone: store.is_undone(&landing.call)?, ..landing.clone() }))
    }

    /// Records that the changes of a task landed.
    ///
    /// # Errors
    /// When the record can't be written; the changes landed all the same.
    pub(super) fn add(&self, key: &Key, files: &[Landed]) -> Result<(), Fault> {
        let refused = files.iter().filter(|it| it.refused.is_some()).count();
        let landing = Landing {
            key: key.text(),
            landed: files.len() - refused,
            refused,
            // What was so already landed before.
            call: files
                .iter()
                .find(|it| it.is_changed())
                .map(|it| it.call.clone())
                .or_else(|| self.known.get(&key.text()).map(|it| it.call.clone()))
                .unwrap_or_default(),
            is_undone: false,
        };
        let add = || {
            self.file.parent().map_or(Ok(()), fs::create_dir_all)?;
            let mut file = fs::OpenOptions::new().create(true).append(true).open(&self.file)?;
            file.write_all(line(&landing)?.as_bytes())
        };
        add().map_err(|error: std::io::Error| {
            let what = format!("can't record the landing of a task in `{}`: {error}", self.file.display());
            Fault::new(Kind::Unavailable, what).next("Its changes landed; `haft undo` takes them back.")
        })
    }
}

fn line(landing: &Landing) -> serde_json::Result<String> {
    Ok(serde_json::to_string(landing)? + "\n")
}
