//! Environments on disk: locks those in use, and prunes unused ones.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use rustix::fs::{FlockOperation, flock};

use super::ready;
use crate::execution::ENVIRONMENTS;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Age since the last use at which an environment is removed.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Marks an environment as in use by this process, until it is dropped.
pub(crate) struct InUse(#[expect(dead_code, reason = "its lock is what matters")] File);

/// Marks an environment as in use, which keeps it from being removed.
pub(super) async fn hold(folder: &Path) -> io::Result<InUse> {
    let path = used(folder);
    let held = tokio::task::spawn_blocking(move || {
        let file = locked(&path, FlockOperation::LockShared)?;
        let age = file.metadata()?.modified()?.elapsed().unwrap_or_default();
        if age >= DAY {
            file.set_modified(SystemTime::now())?;
        }
        Ok(InUse(file))
    });
    held.await.map_err(io::Error::other)?
}

/// Waits until nobody else creates this environment, other processes included.
pub(super) async fn lock(folder: &Path) -> io::Result<File> {
    let path = making(folder);
    let locked = tokio::task::spawn_blocking(move || locked(&path, FlockOperation::LockExclusive));
    locked.await.map_err(io::Error::other)?
}

/// Removes the environments of this state folder that were unused for long, until `late`.
pub(crate) fn prune(state: &Path, late: Instant) {
    prune_unused(&state.join(ENVIRONMENTS), UNUSED, late);
}

fn prune_unused(environments: &Path, unused: Duration, late: Instant) {
    let entries = fs::read_dir(environments).into_iter().flatten().flatten();
    let all: BTreeSet<PathBuf> = entries.map(|it| it.path().with_extension("")).collect();
    for folder in all {
        if Instant::now() >= late {
            return;
        }
        if is_unused(&folder, unused)
            && let Err(error) = remove(&folder, unused)
            && error.kind() != io::ErrorKind::WouldBlock
        {
            tracing::warn!("{} is not used, and can't be removed: {error}", folder.display());
        }
    }
}

fn is_unused(folder: &Path, unused: Duration) -> bool {
    let about = [used(folder), ready(folder), making(folder), folder.to_owned()].map(fs::metadata);
    let newest = about.into_iter().flatten().filter_map(|it| it.modified().ok()).max();
    newest.is_some_and(|it| it.elapsed().unwrap_or_default() > unused)
}

/// Removes an environment that nobody creates or uses now.
fn remove(folder: &Path, unused: Duration) -> io::Result<()> {
    let about = used(folder);
    // Opening the file does not count as a use.
    let using =
        if about.exists() { Some(locked(&about, FlockOperation::NonBlockingLockExclusive)?) } else { None };
    let made = locked(&making(folder), FlockOperation::NonBlockingLockExclusive)?;
    if using.is_some() && !is_unused(folder, unused) {
        return Ok(());
    }
    // Without its ready file the folder is not an environment, even if the removal fails halfway.
    for file in [ready(folder), about] {
        gone(fs::remove_file(file))?;
    }
    gone(fs::remove_dir_all(folder))?;
    gone(fs::remove_file(making(folder)))?;
    drop((using, made));
    Ok(())
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Opens and locks the file at this path; creates it if it does not exist.
fn locked(path: &Path, how: FlockOperation) -> io::Result<File> {
    loop {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        flock(&file, how)?;
        // A lock on a file that was removed meanwhile excludes nobody.
        if file.metadata()?.nlink() > 0 {
            return Ok(file);
        }
    }
}

/// Returns the file that users of an environment lock, with the time of the last use.
fn used(folder: &Path) -> PathBuf {
    folder.with_extension("used")
}

/// Returns the file that the creator of an environment locks.
fn making(folder: &Path) -> PathBuf {
    folder.with_extension("lock")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Creates an environment last used this many days ago.
    fn environment(environments: &Path, name: &str, days: u32) -> PathBuf {
        let folder = environments.join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("module.py"), "x = 1").unwrap();
        let then = SystemTime::now() - DAY * days;
        for path in [used(&folder), ready(&folder), making(&folder)] {
            File::create(path).unwrap().set_modified(then).unwrap();
        }
        File::open(&folder).unwrap().set_modified(then).unwrap();
        folder
    }

    fn left(environments: &Path) -> Vec<String> {
        let entries = fs::read_dir(environments).unwrap();
        let mut left: Vec<String> =
            entries.map(|it| it.unwrap().file_name().to_string_lossy().into_owned()).collect();
        left.sort();
        left
    }

    #[tokio::test]
    async fn unused_environments_are_pruned_and_used_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let environments = dir.path();
        let late = Instant::now() + DAY;
        for (name, days) in [("old", 40), ("new", 20), ("held", 40), ("made", 40)] {
            environment(environments, name, days);
        }
        let held = locked(&used(&environments.join("held")), FlockOperation::LockShared).unwrap();
        let made = lock(&environments.join("made")).await.unwrap();
        prune_unused(environments, UNUSED, late);
        let stays =
            ["held", "held.lock", "held.ready", "held.used", "made", "made.lock", "made.ready", "made.used"];
        let new = ["new", "new.lock", "new.ready", "new.used"];
        assert_eq!(left(environments), [&stays[..], &new[..]].concat());
        drop((held, made));
        // Using an environment makes it new.
        drop(hold(&environments.join("held")).await.unwrap());
        prune_unused(environments, UNUSED, late);
        assert_eq!(left(environments), [&stays[..4], &new[..]].concat());
    }

    #[test]
    fn nothing_is_pruned_after_the_time_limit() {
        let dir = tempfile::tempdir().unwrap();
        environment(dir.path(), "old", 40);
        prune_unused(dir.path(), UNUSED, Instant::now());
        assert_eq!(left(dir.path()).len(), 4);
    }
}
