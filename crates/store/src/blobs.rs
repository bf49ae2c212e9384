//! Before-images: contents of files before they were changed, by hash.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use kit::{Fault, text::Content};

use super::{error::Trouble, paths::create_folder};

/// Distinguishes the temporary files of this process.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The key of a content: its BLAKE3 hash.
pub type Hash = blake3::Hash;

/// Contents by their hash, each stored once, in `blobs/ab/abcdef…`.
pub struct Blobs {
    folder: PathBuf,
    instance: Arc<str>,
}

/// The result of a lookup.
pub enum Found {
    Bytes(Vec<u8>),
    /// It was too old and has been removed.
    Expired,
    /// The file no longer matches its hash.
    Damaged,
}

impl Blobs {
    pub(super) fn new(folder: PathBuf, instance: Arc<str>) -> Self {
        Self { folder, instance }
    }

    /// Stores `content`. When this returns it survives the death of this process, but not a loss of power,
    /// which would cost an fsync for each edit.
    pub(crate) fn put(&self, content: &Content) -> Result<Hash, Fault> {
        let hash = content.digest().into();
        self.write(&hash, content).map_err(|error| Trouble::of_file(&self.folder, &error))?;
        Ok(hash)
    }

    /// Returns the bytes of this hash.
    pub fn get(&self, hash: &Hash) -> Result<Found, Fault> {
        match fs::read(self.path(hash)) {
            Ok(bytes) if blake3::hash(&bytes) == *hash => Ok(Found::Bytes(bytes)),
            Ok(_) => Ok(Found::Damaged),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Expired),
            Err(error) => Err(Trouble::of_file(&self.folder, &error).into()),
        }
    }

    fn path(&self, hash: &Hash) -> PathBuf {
        let name = hash.to_hex();
        let start: String = name.chars().take(2).collect();
        self.folder.join(start).join(name.as_str())
    }

    fn write(&self, hash: &Hash, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(hash);
        if self.renew(&path, bytes.len() as u64) {
            return Ok(());
        }
        let Some(folder) = path.parent() else { return Err(io::ErrorKind::InvalidInput.into()) };
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let fresh = folder.join(format!(".{}-{count}", self.instance));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = match options.open(&fresh) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_folder(folder)?;
                options.open(&fresh)?
            }
            opened => opened?,
        };
        let written = file.write_all(bytes).and_then(|()| fs::rename(&fresh, &path));
        if written.is_err() {
            drop(fs::remove_file(&fresh));
        }
        written
    }

    /// Returns whether it exists already. Then its time is renewed, so that it is not pruned as old.
    fn renew(&self, path: &std::path::Path, bytes: u64) -> bool {
        let Ok(file) = File::open(path) else { return false };
        // After a loss of power a file may be empty or short.
        let whole = file.metadata().is_ok_and(|it| it.len() == bytes);
        whole && file.set_modified(SystemTime::now()).is_ok() && path.exists()
    }
}
