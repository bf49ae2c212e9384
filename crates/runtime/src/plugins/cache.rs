//! Cache of the declarations of tool files.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use super::{
    Source,
    declaration::{Declaration, Summary},
    folders::{FileContent, Stamp},
};
use store::{create_folder, replace_file};

/// The file with the declarations in the folder of a cache.
const FILE: &str = "about.json";

/// Entries that no load has used for this long are removed: seven days, in seconds.
const MAX_AGE: u64 = 7 * 24 * 3600;

/// Resolution of the time of last use, in seconds.
const DAY: u64 = 24 * 3600;

/// Time after which haft describes a failed file again, in seconds.
const RETRY_AFTER: u64 = 60;

/// The cached declarations of one tool folder, in the state folder. Only speed depends on it: a damaged cache
/// counts as an empty one.
pub(super) struct Cache {
    folder: Arc<Path>,
    asked_by: String,
    /// The versions of each file, by its name, oldest first.
    files: BTreeMap<String, Vec<Known>>,
    dirty: bool,
}

/// The declarations of one version of a file.
struct Known {
    hash: blake3::Hash,
    met: u64,
    /// The stamp of the file with this content: then it need not be read.
    stamp: Option<Stamp>,
    tools: Declarations,
    failed: Option<Failed>,
}

/// The tools of one version of a file.
type Declarations = Vec<Arc<Declaration>>;

/// The first line of a cache. The JSON texts of the declarations follow, one a line: a start parses none of them.
#[derive(Serialize, Deserialize)]
struct Index {
    /// The rules by which the files were described: another haft version may have others.
    asked_by: String,
    /// The hash of the texts.
    texts: String,
    /// The versions of each file, by its name, in the order of the texts.
    files: Vec<(String, Vec<Entry>)>,
}

/// One version of a file in the index.
#[derive(Serialize, Deserialize)]
struct Entry {
    hash: String,
    met: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stamp: Option<Stamp>,
    /// The name of each tool, the bytes of its text, the bytes that it takes in a list, and whether it has more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tools: Vec<(String, usize, usize, bool)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<Failed>,
}

/// Parses a cache. `None`, if it is damaged or was made under other rules.
fn parse(bytes: &[u8], asked_by: &str) -> Option<BTreeMap<String, Vec<Known>>> {
    let end = memchr::memchr(b'\n', bytes)?;
    let (index, texts) = bytes.split_at_checked(end + 1)?;
    let index: Index = serde_json::from_slice(index).ok()?;
    if index.asked_by != asked_by || blake3::hash(texts).to_hex().as_str() != index.texts {
        return None;
    }
    let texts: Arc<[u8]> = texts.into();
    let mut at = 0;
    let mut declaration = |(name, length, bytes, has_more): (String, usize, usize, bool)| {
        let range = at..at + length;
        // A line break follows each.
        at = range.end + 1;
        Declaration::cached(Summary { name, bytes, has_more }, &texts, range).map(Arc::new)
    };
    let mut known = |entry: Entry| {
        let Entry { hash, met, stamp, tools, failed } = entry;
        let tools = tools.into_iter().map(&mut declaration).collect::<Option<Vec<_>>>()?;
        Some(Known { hash: blake3::Hash::from_hex(hash).ok()?, met, stamp, tools, failed })
    };
    let versions = |(file, entries): (String, Vec<Entry>)| {
        Some((file, entries.into_iter().map(&mut known).collect::<Option<Vec<_>>>()?))
    };
    index.files.into_iter().map(versions).collect()
}

/// Returns a cache as it is stored.
fn text_of(asked_by: &str, files: &BTreeMap<String, Vec<Known>>) -> serde_json::Result<Vec<u8>> {
    let mut texts = Vec::new();
    let mut entry = |known: &Known| {
        let mut tools = Vec::with_capacity(known.tools.len());
        for tool in &known.tools {
            let text = tool.text()?;
            let Summary { name, bytes, has_more } = &tool.summary;
            tools.push((name.clone(), text.len(), *bytes, *has_more));
            texts.extend(text);
            texts.push(b'\n');
        }
        let hash = known.hash.to_hex().to_string();
        Ok(Entry { hash, met: known.met, stamp: known.stamp, tools, failed: known.failed.clone() })
    };
    let mut versions = Vec::with_capacity(files.len());
    for (file, known) in files {
        versions.push((file.clone(), known.iter().map(&mut entry).collect::<serde_json::Result<_>>()?));
    }
    let hash = blake3::hash(&texts).to_hex().to_string();
    let mut all = serde_json::to_vec(&Index { asked_by: asked_by.to_owned(), texts: hash, files: versions })?;
    all.push(b'\n');
    all.extend(texts);
    Ok(all)
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
        let files = fs::read(folder.join(FILE)).ok().and_then(|bytes| parse(&bytes, asked_by));
        let (folder, files) = (folder.into(), files.unwrap_or_default());
        Self { folder, asked_by: asked_by.to_owned(), files, dirty: false }
    }

    /// Returns the cached result for this version of this file.
    pub(super) fn get(&mut self, file: &str, hash: &blake3::Hash) -> Option<Result<Declarations, Failed>> {
        let known = self.files.get_mut(file)?.iter_mut().find(|it| it.hash == *hash)?;
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
        let known = self.files.get(file)?;
        let known = known.iter().find(|it| it.failed.is_none() && it.stamp.as_ref() == Some(stamp))?;
        let source = Source::stored(known.hash, self.folder.clone(), path.to_owned());
        Some(FileContent { source: Arc::new(source), hash: known.hash })
    }

    /// Records that this file with this stamp has this content.
    pub(super) fn has_stamp(&mut self, file: &str, hash: &blake3::Hash, stamp: &Stamp) {
        if !stamp.is_settled() {
            return;
        }
        for known in self.files.get_mut(file).into_iter().flatten() {
            let is_this = known.hash == *hash;
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
    ) -> Option<(Arc<[u8]>, blake3::Hash, Declarations)> {
        let known = self.files.get(file)?;
        known.iter().rev().filter(|it| it.failed.is_none()).find_map(|it| {
            let source = fs::read(self.folder.join(it.hash.to_hex().as_str())).ok()?;
            let hash = blake3::hash(&source);
            (hash == it.hash && may(&hash)).then(|| (source.into(), hash, it.tools.clone()))
        })
    }

    /// Records the result for a version of a file, and stores the source of one that worked.
    pub(super) fn learn(
        &mut self,
        file: &str,
        hash: &blake3::Hash,
        said: &Result<Declarations, Failed>,
        source: Option<&[u8]>,
    ) {
        let known = self.files.entry(file.to_owned()).or_default();
        known.retain(|it| it.hash != *hash);
        let (tools, failed) = match said {
            Ok(tools) => (tools.clone(), None),
            Err(failed) => (Vec::new(), Some(failed.clone())),
        };
        if let (Some(source), None) = (source, &failed) {
            let path = self.folder.join(hash.to_hex().as_str());
            // Without the source there is no older version to fall back to; nothing else fails.
            let _ = create_folder(&self.folder).and_then(|()| replace_file(&path, source));
        }
        known.push(Known { hash: *hash, met: seconds(), stamp: None, tools, failed });
        self.dirty = true;
    }

    /// Writes the cache if it has changed, without entries that were unused for long.
    pub(super) fn save(&mut self) {
        if !std::mem::take(&mut self.dirty) {
            return;
        }
        let now = seconds();
        for known in self.files.values_mut() {
            known.retain(|it| now.abs_diff(it.met) < MAX_AGE);
        }
        self.files.retain(|_, known| !known.is_empty());
        let write = || {
            create_folder(&self.folder)?;
            replace_file(&self.folder.join(FILE), &text_of(&self.asked_by, &self.files)?)
        };
        if let Err(error) = write() {
            tracing::warn!(
                "what tools say of themselves is not kept in `{}`: {error}",
                self.folder.display()
            );
        }
        let kept: HashSet<blake3::Hash> = self.files.values().flatten().map(|it| it.hash).collect();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_hash = name.len() == 64;
            let hash = blake3::Hash::from_hex(name.as_bytes()).ok();
            if is_hash && hash.is_none_or(|it| !kept.contains(&it)) {
                // Another process may have removed it already.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}
