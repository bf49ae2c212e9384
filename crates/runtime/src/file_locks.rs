//! Cross-process file locks: two haft processes never write one file at once.
//!
//! The operating system locks a file in the store, chosen by the path's hash, and unlocks it when the process
//! ends in any way. The number of lock files is fixed, so sometimes two paths share one and wait for each
//! other needlessly.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use kit::{Fault, Kind};
use rustix::fs::{FlockOperation, flock};

const STRIPES: u64 = 1024;

/// The pause between two attempts: the first, and the longest.
const SOON: Duration = Duration::from_micros(500);
const LATER: Duration = Duration::from_millis(10);

/// Locks against other processes; dropping this releases them.
#[derive(Default)]
pub(crate) struct FileLocks {
    _files: Vec<File>,
}

/// Waits until no other process changes any of these paths.
///
/// # Errors
/// [`Kind::Unavailable`] when the lock files can't be made.
pub(crate) async fn lock(folder: &Path, paths: &[PathBuf]) -> Result<FileLocks, Fault> {
    let mut files = Vec::with_capacity(paths.len());
    for stripe in stripes(paths) {
        let file = open(folder, stripe)?;
        let mut pause = SOON;
        while !try_lock(folder, &file)? {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LATER);
        }
        files.push(file);
    }
    Ok(FileLocks { _files: files })
}

/// Locks one more path, for a call that has the locks of `held`. Blocks.
///
/// # Errors
/// Those of [`lock`], and [`Kind::Timeout`] after half a minute.
pub(crate) fn lock_blocking(folder: &Path, path: &Path, held: &[PathBuf]) -> Result<FileLocks, Fault> {
    const TIMEOUT: Duration = Duration::from_secs(30);
    let stripe = stripe(path);
    if stripes(held).contains(&stripe) {
        return Ok(FileLocks { _files: Vec::new() });
    }
    let file = open(folder, stripe)?;
    let asked = Instant::now();
    let mut pause = SOON;
    while !try_lock(folder, &file)? {
        if asked.elapsed() > TIMEOUT {
            return Err(Fault::new(
                Kind::Timeout,
                format!("another haft process holds on to `{}`", path.display()),
            ));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LATER);
    }
    Ok(FileLocks { _files: vec![file] })
}

/// Sorts the locks, so that two processes can't deadlock.
fn stripes(paths: &[PathBuf]) -> Vec<u64> {
    let mut stripes: Vec<u64> = paths.iter().map(|path| stripe(path)).collect();
    stripes.sort_unstable();
    stripes.dedup();
    stripes
}

fn try_lock(folder: &Path, file: &File) -> Result<bool, Fault> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(Fault::new(
            Kind::Unavailable,
            format!("can't lock a file in `{}`: {errno}", folder.display()),
        )),
    }
}

fn stripe(path: &Path) -> u64 {
    let hash = blake3::hash(path.as_os_str().as_encoded_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(hash.as_bytes().first_chunk::<8>().unwrap_or(&[0; 8]));
    u64::from_le_bytes(first) % STRIPES
}

fn open(folder: &Path, stripe: u64) -> Result<File, Fault> {
    use std::os::unix::fs::OpenOptionsExt;
    let path = folder.join(format!("{stripe:04}"));
    let open = || OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let opened = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(folder).and_then(|()| open())
        }
        other => other,
    };
    opened.map_err(|error| {
        Fault::new(Kind::Unavailable, format!("can't make a lock file in `{}`: {error}", folder.display()))
            .next("Check that the folder is writable, or choose another with HAFT_STATE_DIR.".to_owned())
            .caused_by(error)
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn path_lock_is_exclusive_and_passed_on() {
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
