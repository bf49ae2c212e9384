//! Cache of what tool files declare.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use super::Described;
use store::{create_folder, replace_file};

/// What was not met with for this long is forgotten: seven days, in seconds.
const KEPT: u64 = 7 * 24 * 3600;

/// That something was met with is written down once in this many seconds.
const DAY: u64 = 24 * 3600;

/// A file that failed is asked again after this many seconds.
const PATIENCE: u64 = 60;

/// What is known of the files of one folder of tools, kept in the state folder. Nothing depends on it but time:
/// one that is broken is the same as one that is empty.
pub(super) struct Cache {
    folder: PathBuf,
    about: About,
    dirty: bool,
}

#[derive(Default, Serialize, Deserialize)]
struct About {
    /// Who asked: another haft may ask for more.
    asked_by: String,
    /// By the name of the file, oldest first.
    files: BTreeMap<String, Vec<Known>>,
}

/// What a version of a file said.
#[derive(Serialize, Deserialize)]
struct Known {
    hash: String,
    met: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Described>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<Failed>,
}

/// That a file failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failed {
    /// Why: the traceback.
    pub(super) why: String,
    /// When, in seconds since 1970.
    at: u64,
    /// What was in the folder then.
    among: String,
}

impl Failed {
    /// It failed just now, in a folder of this fingerprint.
    pub(super) fn now(why: String, among: &str) -> Self {
        Self { why, at: seconds(), among: among.to_owned() }
    }

    /// Might it work by now? What it lacked may have been put there.
    pub(super) fn is_due(&self, among: &str) -> bool {
        self.among != among || seconds().abs_diff(self.at) >= PATIENCE
    }
}

impl Cache {
    /// What is known of the files of `folder`; `asked_by` stands for whoever asks.
    pub(super) fn read(state: &Path, folder: &Path, asked_by: &str) -> Self {
        let name: String = blake3::hash(folder.as_os_str().as_bytes()).to_hex().chars().take(16).collect();
        let folder = state.join(name);
        let about = fs::read(folder.join("about.json")).ok();
        let about = about.and_then(|bytes| serde_json::from_slice::<About>(&bytes).ok());
        let about = about.filter(|it| it.asked_by == asked_by);
        let about = about.unwrap_or_else(|| About { asked_by: asked_by.to_owned(), ..About::default() });
        Self { folder, about, dirty: false }
    }

    /// What this version of this file said when it was asked.
    pub(super) fn get(&mut self, file: &str, hash: &blake3::Hash) -> Option<Result<Vec<Described>, Failed>> {
        let known = self.about.files.get_mut(file)?;
        let hash = hash.to_hex();
        let known = known.iter_mut().find(|it| it.hash == hash.as_str())?;
        let now = seconds();
        if now.abs_diff(known.met) > DAY {
            known.met = now;
            self.dirty = true;
        }
        Some(match &known.failed {
            Some(failed) => Err(failed.clone()),
            None => Ok(known.tools.clone()),
        })
    }

    /// The newest version of this file that worked, with what it said; of those that `may` be taken.
    pub(super) fn last_good(
        &self,
        file: &str,
        may: impl Fn(&blake3::Hash) -> bool,
    ) -> Option<(Arc<[u8]>, blake3::Hash, Vec<Described>)> {
        let known = self.about.files.get(file)?;
        known.iter().rev().filter(|it| it.failed.is_none()).find_map(|it| {
            let source = fs::read(self.folder.join(&it.hash)).ok()?;
            let hash = blake3::hash(&source);
            (hash.to_hex().as_str() == it.hash && may(&hash)).then(|| (source.into(), hash, it.tools.clone()))
        })
    }

    /// Takes note of what a version of a file said. The source of what worked is kept where one is given.
    pub(super) fn learn(
        &mut self,
        file: &str,
        hash: &blake3::Hash,
        said: &Result<Vec<Described>, Failed>,
        source: Option<&[u8]>,
    ) {
        let name = hash.to_hex();
        let known = self.about.files.entry(file.to_owned()).or_default();
        known.retain(|it| it.hash != name.as_str());
        let (tools, failed) = match said {
            Ok(tools) => (tools.clone(), None),
            Err(failed) => (Vec::new(), Some(failed.clone())),
        };
        if let (Some(source), None) = (source, &failed) {
            let path = self.folder.join(name.as_str());
            // Without it there is no older version to go on with, and nothing worse.
            let _ = create_folder(&self.folder).and_then(|()| replace_file(&path, source));
        }
        known.push(Known { hash: name.to_string(), met: seconds(), tools, failed });
        self.dirty = true;
    }

    /// Writes it down, if there is anything new, without what was not met with for long.
    pub(super) fn save(mut self) {
        if !self.dirty {
            return;
        }
        let now = seconds();
        for known in self.about.files.values_mut() {
            known.retain(|it| now.abs_diff(it.met) < KEPT);
        }
        self.about.files.retain(|_, known| !known.is_empty());
        let write = || {
            create_folder(&self.folder)?;
            replace_file(&self.folder.join("about.json"), &serde_json::to_vec(&self.about)?)
        };
        if let Err(error) = write() {
            tracing::warn!(
                "what tools say of themselves is not kept in `{}`: {error}",
                self.folder.display()
            );
        }
        let kept: HashSet<&str> = self.about.files.values().flatten().map(|it| it.hash.as_str()).collect();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_hash = name.len() == 64;
            if is_hash && name.to_str().is_none_or(|it| !kept.contains(it)) {
                // Another process may have been quicker.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}
