//! What keeps two haft processes off one file?
//!
//! A lock of the operating system's on a file in the store, chosen by the path's hash:
//! it ends with the process, however that ends. There are a fixed number of them, so
//! now and then two paths share one; they then wait for each other needlessly.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use kit::{Fault, Kind};
use rustix::fs::{FlockOperation, flock};

const STRIPES: u64 = 1024;

/// How long to wait between two attempts, at first and at most.
const SOON: Duration = Duration::from_micros(500);
const LATER: Duration = Duration::from_millis(10);

/// Locks against other processes, held until this is dropped.
pub(crate) struct Beside {
    _files: Vec<File>,
}

/// Waits until no other process changes any of these paths.
///
/// # Errors
/// [`Kind::Unavailable`] when the lock files can't be made.
pub(crate) async fn lock(folder: &Path, paths: &[PathBuf]) -> Result<Beside, Fault> {
    let mut stripes: Vec<u64> = paths.iter().map(|path| stripe(path)).collect();
    // Always in the same order, so that two processes can't wait for each other.
    stripes.sort_unstable();
    stripes.dedup();
    let mut files = Vec::with_capacity(stripes.len());
    for stripe in stripes {
        let file = open(folder, stripe).map_err(|error| {
            Fault::new(
                Kind::Unavailable,
                format!("can't make a lock file in `{}`: {error}", folder.display()),
            )
            .next("Check that the folder is writable, or choose another with HAFT_STATE_DIR.".to_owned())
            .caused_by(error)
        })?;
        let mut pause = SOON;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LATER);
                }
                Err(errno) => {
                    return Err(Fault::new(
                        Kind::Unavailable,
                        format!("can't lock a file in `{}`: {errno}", folder.display()),
                    ));
                }
            }
        }
        files.push(file);
    }
    Ok(Beside { _files: files })
}

fn stripe(path: &Path) -> u64 {
    let hash = blake3::hash(path.as_os_str().as_encoded_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(hash.as_bytes().first_chunk::<8>().unwrap_or(&[0; 8]));
    u64::from_le_bytes(first) % STRIPES
}

fn open(folder: &Path, stripe: u64) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let path = folder.join(format!("{stripe:04}"));
    let open = || OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(folder)?;
            open()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_path_is_held_by_one_and_given_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = [PathBuf::from("/ws/a")];
        let held = lock(folder.path(), &path).await.unwrap();
        assert!(lock(folder.path(), &path).now_or_never().is_none());
        let waiting = tokio::spawn({
            let folder = folder.path().to_owned();
            async move { lock(&folder, &[PathBuf::from("/ws/a")]).await.is_ok() }
        });
        tokio::task::yield_now().await;
        drop(held);
        assert!(waiting.await.unwrap());
    }
}
