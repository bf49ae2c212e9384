//! Cache of the declarations of tool files.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use super::{
    Described, Source,
    folders::{FileContent, Stamp},
};
use store::{create_folder, replace_file};

/// Entries that no load has used for this long are removed: seven days, in seconds.
const MAX_AGE: u64 = 7 * 24 * 3600;

/// Resolution of the time of last use, in seconds.
const DAY: u64 = 24 * 3600;

/// Time after which haft describes a failed file again, in seconds.
const RETRY_AFTER: u64 = 60;

/// The cached declarations of one tool folder, in the state folder. Only speed depends on it: a damaged cache
/// counts as an empty one.
pub(super) struct Cache {
    folder: PathBuf,
    about: About,
    dirty: bool,
}

#[derive(Default, Serialize, Deserialize)]
struct About {
    /// The rules by which the files were described: another haft version may have others.
    asked_by: String,
    /// The versions of each file, by its name, oldest first.
    files: BTreeMap<String, Vec<Known>>,
}

/// The declaration of one version of a file.
#[derive(Serialize, Deserialize)]
struct Known {
    hash: String,
    met: u64,
    /// The stamp of the file with this content: then it need not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stamp: Option<Stamp>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Described>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<Failed>,
}

/// A failure to load a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failed {
    /// The reason: the traceback.
    pub(super) why: String,
    /// The time, in Unix seconds.
    at: u64,
    /// The fingerprint of the folder at that time.
    among: String,
}

impl Failed {
    /// Creates a failure of this moment, in a folder with this fingerprint.
    pub(super) fn now(why: String, among: &str) -> Self {
        Self { why, at: seconds(), among: among.to_owned() }
    }

    /// Returns whether the file may work by now: the folder has changed, or enough time has passed.
    pub(super) fn is_due(&self, among: &str) -> bool {
        self.among != among || seconds().abs_diff(self.at) >= RETRY_AFTER
    }
}

impl Cache {
    /// Reads the cache of `folder`. Ignores entries that were made under rules other than `asked_by`.
    pub(super) fn read(state: &Path, folder: &Path, asked_by: &str) -> Self {
        let name: String = blake3::hash(folder.as_os_str().as_bytes()).to_hex().chars().take(16).collect();
        let folder = state.join(name);
        let about = fs::read(folder.join("about.json")).ok();
        let about = about.and_then(|bytes| serde_json::from_slice::<About>(&bytes).ok());
        let about = about.filter(|it| it.asked_by == asked_by);
        let about = about.unwrap_or_else(|| About { asked_by: asked_by.to_owned(), ..About::default() });
        Self { folder, about, dirty: false }
    }

    /// Returns the cached result for this version of this file.
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

    /// Returns the content of `path`, which is this file with this stamp, if it is known: without reading it.
    pub(super) fn content(&self, file: &str, path: &Path, stamp: &Stamp) -> Option<FileContent> {
        let known = self.about.files.get(file)?;
        let known = known.iter().find(|it| it.failed.is_none() && it.stamp.as_ref() == Some(stamp))?;
        let hash = blake3::Hash::from_hex(&known.hash).ok()?;
        let places = vec![self.folder.join(&known.hash), path.to_owned()];
        Some(FileContent { source: Arc::new(Source::stored(hash, places)), hash })
    }

    /// Records that this file with this stamp has this content.
    pub(super) fn has_stamp(&mut self, file: &str, hash: &blake3::Hash, stamp: &Stamp) {
        if !stamp.is_settled() {
            return;
        }
        let hash = hash.to_hex();
        let known = self.about.files.get_mut(file).into_iter().flatten();
        for known in known {
            let is_this = known.hash == hash.as_str();
            if is_this && known.stamp.as_ref() != Some(stamp) {
                known.stamp = Some(*stamp);
                self.dirty = true;
            }
            if !is_this && known.stamp.take().is_some() {
                self.dirty = true;
            }
        }
    }

    /// Returns the newest version of this file that worked and that `may` accepts, with its declaration.
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

    /// Records the result for a version of a file, and stores the source of one that worked.
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
            // Without the source there is no older version to fall back to; nothing else fails.
            let _ = create_folder(&self.folder).and_then(|()| replace_file(&path, source));
        }
        known.push(Known { hash: name.to_string(), met: seconds(), stamp: None, tools, failed });
        self.dirty = true;
    }

    /// Writes the cache if it has changed, without entries that were unused for long.
    pub(super) fn save(&mut self) {
        if !std::mem::take(&mut self.dirty) {
            return;
        }
        let now = seconds();
        for known in self.about.files.values_mut() {
            known.retain(|it| now.abs_diff(it.met) < MAX_AGE);
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
                // Another process may have removed it already.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}
