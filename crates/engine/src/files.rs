//! Blobs in files: `ab/abcdef…`, each named by the hash of its content, complete or not there.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tempfile::NamedTempFile;

use crate::{BlobId, Error, Result, Source};

/// Runs `work` in a thread that may wait for the disk.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|it| Error::Unreachable(format!("a thread of the engine ended: {it}")))?
}

pub(crate) struct Files {
    folder: PathBuf,
}

impl Files {
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(|it| of_file(folder, &it))?;
        Ok(Self { folder: folder.to_owned() })
    }

    pub(crate) async fn put(&self, source: Source) -> Result<BlobId> {
        let folder = self.folder.clone();
        blocking(move || store(&folder, source).map_err(|it| of_file(&folder, &it))).await
    }

    pub(crate) async fn has(&self, id: &BlobId) -> Result<bool> {
        let path = path_of(&self.folder, id);
        blocking(move || {
            let is_there = path.try_exists().map_err(|it| of_file(&path, &it))?;
            // It counts as used now, so that a sweep keeps it.
            if let Ok(file) = File::options().append(true).open(&path) {
                let _ = file.set_modified(SystemTime::now());
            }
            Ok(is_there)
        })
        .await
    }

    pub(crate) async fn get(&self, id: &BlobId) -> Result<Vec<u8>> {
        let (path, id) = (path_of(&self.folder, id), id.clone());
        blocking(move || {
            let bytes = fs::read(&path).map_err(|it| missing(&id, &path, &it))?;
            match BlobId::of(&bytes) == id {
                true => Ok(bytes),
                false => Err(damaged(&id)),
            }
        })
        .await
    }

    pub(crate) async fn fetch(&self, id: &BlobId, to: &Path) -> Result<()> {
        let (path, id, to) = (path_of(&self.folder, id), id.clone(), to.to_owned());
        blocking(move || {
            let mut from = File::open(&path).map_err(|it| missing(&id, &path, &it))?;
            let (file, hash) = copy(&mut from, &folder_of(&to)).map_err(|it| of_file(&to, &it))?;
            if hash != id {
                return Err(damaged(&id));
            }
            persist(file, &to).map_err(|it| of_file(&to, &it))
        })
        .await
    }

    /// Removes blobs that were not put for longer than `age`.
    pub(crate) async fn sweep(&self, age: Duration) -> Result<()> {
        let folder = self.folder.clone();
        blocking(move || sweep(&folder, age).map_err(|it| of_file(&folder, &it))).await
    }
}

fn path_of(folder: &Path, id: &BlobId) -> PathBuf {
    let start: String = id.as_str().chars().take(2).collect();
    folder.join(start).join(id.as_str())
}

pub(crate) fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn store(folder: &Path, source: Source) -> io::Result<BlobId> {
    let (file, id) = match source {
        Source::Bytes(bytes) => {
            let id = BlobId::of(&bytes);
            if renewed(&path_of(folder, &id), bytes.len() as u64) {
                return Ok(id);
            }
            copy(&mut &*bytes, folder)?
        }
        Source::File(path) => copy(&mut File::open(path)?, folder)?,
    };
    let path = path_of(folder, &id);
    if !renewed(&path, file.as_file().metadata()?.len()) {
        fs::create_dir_all(folder_of(&path))?;
        persist(file, &path)?;
    }
    Ok(id)
}

/// Returns whether the blob is there, and counts it as used now, so that [`sweep`] keeps it.
fn renewed(path: &Path, length: u64) -> bool {
    let Ok(file) = File::options().append(true).open(path) else { return false };
    let whole = file.metadata().is_ok_and(|it| it.len() == length);
    whole && file.set_modified(SystemTime::now()).is_ok()
}

/// Copies to a new file in `folder`, and returns the hash of what was copied.
pub(crate) fn copy(from: &mut impl io::Read, folder: &Path) -> io::Result<(NamedTempFile, BlobId)> {
    let mut file = NamedTempFile::new_in(folder)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 128 << 10];
    loop {
        let length = from.read(&mut buffer)?;
        let Some(part) = buffer.get(..length).filter(|it| !it.is_empty()) else { break };
        hasher.update(part);
        file.write_all(part)?;
    }
    Ok((file, BlobId::from_hash(hasher.finalize())))
}

/// Gives the file its name, durably.
pub(crate) fn persist(file: NamedTempFile, to: &Path) -> io::Result<()> {
    file.as_file().sync_all()?;
    file.persist(to)?;
    File::open(folder_of(to))?.sync_all()
}

fn sweep(folder: &Path, age: Duration) -> io::Result<()> {
    for part in fs::read_dir(folder)? {
        let part = part?.path();
        if !part.is_dir() {
            continue;
        }
        for blob in fs::read_dir(part)? {
            let blob = blob?;
            let modified = blob.metadata().and_then(|it| it.modified());
            if modified.is_ok_and(|it| it.elapsed().is_ok_and(|it| it > age)) {
                fs::remove_file(blob.path())?;
            }
        }
    }
    Ok(())
}

pub(crate) fn of_file(path: &Path, error: &io::Error) -> Error {
    Error::Unreachable(format!("{}: {error}", path.display()))
}

fn missing(id: &BlobId, path: &Path, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => no_blob(id),
        _ => of_file(path, error),
    }
}

pub(crate) fn no_blob(id: &BlobId) -> Error {
    Error::Unknown(format!("no blob {id}: it was never stored, or it was removed because nobody used it"))
}

pub(crate) fn damaged(id: &BlobId) -> Error {
    Error::Damaged(format!("the blob {id} is damaged: its content does not match its hash"))
}
