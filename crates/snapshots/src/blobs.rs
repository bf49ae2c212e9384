//! Contents by their hash: the trait of a place that holds them, and a folder on this machine that does.

use std::{
    fmt, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    str::FromStr,
    time::{Duration, SystemTime},
};

use kit::{Fault, Kind};
use serde::{Deserialize, Serialize};

/// The BLAKE3 hash of a content. As text it has 64 hexadecimal digits, like the blob ids of the crate `engine`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BlobHash([u8; 32]);

impl BlobHash {
    /// Returns the hash of this content.
    pub fn of(content: &[u8]) -> Self {
        Self(*blake3::hash(content).as_bytes())
    }

    /// Returns the 32 bytes of the hash.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for BlobHash {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let hash = blake3::Hash::from_hex(text);
        hash.map(|it| Self(*it.as_bytes()))
            .map_err(|_| Fault::bad_args(format!("`{text}` is not a content hash: 64 hexadecimal digits")))
    }
}

impl TryFrom<String> for BlobHash {
    type Error = Fault;

    fn try_from(text: String) -> Result<Self, Fault> {
        text.parse()
    }
}

impl From<BlobHash> for String {
    fn from(hash: BlobHash) -> Self {
        hash.to_string()
    }
}

/// A place that holds contents by their hash: the engine, or a [`Cache`]. Called from one thread at a time, except for [`get`](Self::get); it may block.
pub trait Blobs: Send + Sync {
    /// Returns those of these hashes whose contents are not here.
    ///
    /// # Errors
    /// When the place can't be reached.
    fn lacking(&self, hashes: &[BlobHash]) -> Result<Vec<BlobHash>, Fault>;

    /// Does the same for contents whose lengths are known.
    ///
    /// # Errors
    /// Those of [`lacking`](Self::lacking).
    fn lacking_contents(&self, contents: &[(BlobHash, u64)]) -> Result<Vec<BlobHash>, Fault> {
        self.lacking(&contents.iter().map(|it| it.0).collect::<Vec<_>>())
    }

    /// Stores a content under its hash. Storing it twice changes nothing.
    ///
    /// # Errors
    /// When it can't be stored.
    fn put(&self, hash: &BlobHash, content: &[u8]) -> Result<(), Fault>;

    /// Returns a content. Whoever calls it compares it with its hash.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when it is not here, and when the place can't be reached.
    fn get(&self, hash: &BlobHash) -> Result<Vec<u8>, Fault>;
}

/// Returns a content from this place, compared with its hash.
///
/// # Errors
/// Those of [`Blobs::get`], and [`Kind::Failed`] when the content has another hash.
pub(crate) fn verified(blobs: &dyn Blobs, hash: &BlobHash) -> Result<Vec<u8>, Fault> {
    let content = blobs.get(hash)?;
    if BlobHash::of(&content) == *hash {
        return Ok(content);
    }
    Err(Fault::new(Kind::Failed, format!("the content stored as {hash} is damaged: it has another hash"))
        .next("Take the snapshot again."))
}

/// A folder of contents by their hash, which many processes may share.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// Opens the cache in this folder, which is created when it is first written to.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    fn path(&self, hash: &BlobHash) -> PathBuf {
        let name = hash.to_string();
        let start: String = name.chars().take(2).collect();
        self.folder.join(start).join(name)
    }

    /// Removes contents that were not used for longer than `age`.
    ///
    /// # Errors
    /// When the folder can't be read.
    pub fn prune(&self, age: Duration) -> Result<(), Fault> {
        let folders = match fs::read_dir(&self.folder) {
            Ok(folders) => folders,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(trouble(&self.folder, &error)),
        };
        let oldest = SystemTime::now().checked_sub(age);
        for folder in folders.flatten() {
            for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                let used = file.metadata().and_then(|it| it.modified()).ok();
                if used.zip(oldest).is_some_and(|(used, oldest)| used < oldest) {
                    drop(fs::remove_file(file.path()));
                }
            }
        }
        Ok(())
    }
}

impl Blobs for Cache {
    fn lacking(&self, hashes: &[BlobHash]) -> Result<Vec<BlobHash>, Fault> {
        Ok(hashes.iter().filter(|it| !self.path(it).is_file()).copied().collect())
    }

    fn put(&self, hash: &BlobHash, content: &[u8]) -> Result<(), Fault> {
        let path = self.path(hash);
        if path.is_file() {
            return Ok(());
        }
        write(&path, content).map_err(|error| trouble(&path, &error))
    }

    /// A damaged content is removed, and counts as one that is not here.
    fn get(&self, hash: &BlobHash) -> Result<Vec<u8>, Fault> {
        let path = self.path(hash);
        match fs::read(&path) {
            Ok(content) if BlobHash::of(&content) == *hash => {
                // The time of use, for `prune`.
                let opened = fs::File::options().write(true).open(&path);
                drop(opened.and_then(|it| it.set_modified(SystemTime::now())));
                Ok(content)
            }
            Ok(_) => {
                drop(fs::remove_file(&path));
                Err(absent(hash))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(absent(hash)),
            Err(error) => Err(trouble(&path, &error)),
        }
    }
}

fn absent(hash: &BlobHash) -> Fault {
    Fault::not_found(format!("the content {hash} is not stored here"))
}

/// Writes a file whole or not at all.
pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let Some(folder) = path.parent() else { return Err(io::ErrorKind::InvalidInput.into()) };
    fs::create_dir_all(folder)?;
    let mut name = [0; 8];
    getrandom::fill(&mut name).map_err(io::Error::other)?;
    let fresh = folder.join(format!(".{:016x}", u64::from_le_bytes(name)));
    let written = fs::File::create_new(&fresh)
        // Without fsync: a content that a loss of power damaged has another hash, and is fetched again.
        .and_then(|mut file| file.write_all(content))
        .and_then(|()| fs::rename(&fresh, path));
    if written.is_err() {
        drop(fs::remove_file(&fresh));
    }
    written
}

pub(crate) fn trouble(path: &Path, error: &io::Error) -> Fault {
    Fault::new(Kind::Unavailable, format!("can't use `{}`: {error}", path.display()))
}
