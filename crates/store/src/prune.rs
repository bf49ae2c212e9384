//! Pruning: removes before-images and spill files that are too old or too many.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use kit::Fault;

use super::{
    error::Trouble,
    paths::{Place, private_file},
};

/// Removes expired files in the state folder or in a workspace's files, until a time.
pub type Upkeep = fn(&Tended<'_>, Instant);

/// The folders on which [`Upkeep`] works.
pub struct Tended<'a> {
    /// The state folder.
    pub state: &'a Path,
    /// The folder of the files that the workspace's sessions share.
    pub files: &'a Path,
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Minimum age of a removed file: the row that refers to it may not be written yet.
const IN_USE: Duration = Duration::from_secs(10 * 60);

/// Limits of before-images and of spills, each.
#[derive(Debug, Clone, Copy)]
pub struct PruneLimits {
    /// Maximum age.
    pub age: Duration,
    /// Maximum size in bytes; above it, the oldest are removed first.
    pub bytes: u64,
}

impl Default for PruneLimits {
    fn default() -> Self {
        Self { age: 30 * DAY, bytes: 2 << 30 }
    }
}

/// The removed files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Their number.
    pub files: usize,
    /// Their size in bytes.
    pub bytes: u64,
}

/// Prunes, unless that was done within the last day. Stops after `within`.
pub(super) fn prune_daily(place: &Place, within: Duration, upkeep: &[Upkeep]) {
    let marker = place.locks().join("pruned");
    let last = fs::metadata(&marker).and_then(|it| it.modified()).ok();
    if last.and_then(|it| it.elapsed().ok()).is_some_and(|it| it < DAY) {
        return;
    }
    let late = Instant::now() + within;
    let kept = Tended { state: &place.state, files: &place.files() };
    upkeep.iter().for_each(|it| it(&kept, late));
    match prune(place, PruneLimits::default(), Some(late)) {
        Ok(pruned) => {
            tracing::debug!(pruned.files, pruned.bytes, "pruned");
            let now = private_file(&marker).and_then(|it| it.set_modified(SystemTime::now()));
            if let Err(error) = now {
                tracing::warn!(%error, "when it was pruned could not be noted");
            }
        }
        Err(fault) => tracing::warn!(%fault, "could not prune"),
    }
}

/// Removes what exceeds `limits`, the oldest first.
pub(super) fn prune(place: &Place, limits: PruneLimits, deadline: Option<Instant>) -> Result<Pruned, Fault> {
    let mut pruned = Pruned::default();
    for (folder, last) in [(place.blobs(), Last::Remove), (place.spill(), Last::Empty)] {
        let trouble = |error: io::Error| Trouble::of_file(&folder, &error);
        prune_folder(&folder, last, limits, deadline, &mut pruned).map_err(trouble)?;
    }
    Ok(pruned)
}

/// The treatment of the newest file of each folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Remove,
    /// Keep it, without its content: the numbers of handles go on from it, so that a handle never gets
    /// another meaning.
    Empty,
}

struct StoredFile {
    path: PathBuf,
    changed: SystemTime,
    bytes: u64,
}

fn prune_folder(
    folder: &Path,
    last: Last,
    limits: PruneLimits,
    deadline: Option<Instant>,
    pruned: &mut Pruned,
) -> io::Result<()> {
    let late = || deadline.is_some_and(|it| Instant::now() >= it);
    let mut files = Vec::new();
    for entry in read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !late() {
            files_in(&path, &mut files)?;
        }
    }
    files.sort_by_key(|it: &StoredFile| it.changed);
    let mut bytes: u64 = files.iter().map(|it| it.bytes).sum();
    for file in files {
        // A time in the future is meaningless; such a file counts as new.
        let age = file.changed.elapsed().unwrap_or_default();
        if (age <= limits.age && bytes <= limits.bytes) || late() {
            break;
        }
        if age < IN_USE {
            continue;
        }
        match last {
            Last::Empty if is_last(&file.path) => fs::write(&file.path, b"")?,
            Last::Empty | Last::Remove => match fs::remove_file(&file.path) {
                // Another process prunes at the same time.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => done?,
            },
        }
        bytes = bytes.saturating_sub(file.bytes);
        pruned.files += 1;
        pruned.bytes += file.bytes;
    }
    Ok(())
}

fn files_in(folder: &Path, files: &mut Vec<StoredFile>) -> io::Result<()> {
    for entry in read_dir(folder)? {
        let entry = entry?;
        let Ok(metadata) = entry.metadata() else { continue };
        if !metadata.is_file() || (metadata.len() == 0 && number(&entry.path()).is_some()) {
            continue;
        }
        files.push(StoredFile { path: entry.path(), changed: metadata.modified()?, bytes: metadata.len() });
    }
    Ok(())
}

fn read_dir(folder: &Path) -> io::Result<impl Iterator<Item = io::Result<fs::DirEntry>>> {
    match fs::read_dir(folder) {
        Ok(entries) => Ok(Some(entries).into_iter().flatten()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None.into_iter().flatten()),
        Err(error) => Err(error),
    }
}

/// Returns whether no handle of this folder has a higher number.
fn is_last(path: &Path) -> bool {
    let Some(entries) = path.parent().and_then(|it| read_dir(it).ok()) else { return false };
    entries.filter_map(|it| number(&it.ok()?.path())).max() == number(path)
}

fn number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str().and_then(super::spill_number)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Creates before-images of a hundred bytes each, with these ages in hours.
    fn place(ages: &[u64]) -> (tempfile::TempDir, Place) {
        let state = tempfile::tempdir().unwrap();
        let place = Place::of(state.path(), Path::new("/nowhere"));
        place.create().unwrap();
        let folder = place.blobs().join("ab");
        fs::create_dir(&folder).unwrap();
        for age in ages {
            let file = private_file(&folder.join(age.to_string())).unwrap();
            file.set_len(100).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age * 3600)).unwrap();
        }
        (state, place)
    }

    fn left(place: &Place) -> Vec<u64> {
        let entries = fs::read_dir(place.blobs().join("ab")).unwrap();
        let mut left: Vec<u64> =
            entries.map(|it| it.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
        left.sort_unstable();
        left
    }

    #[test]
    fn removes_expired_files_then_the_oldest_beyond_the_size() {
        let (_state, place) = place(&[0, 1, 2, 3, 4, 5]);
        let limits = PruneLimits { age: Duration::from_secs(4 * 3600 + 1800), bytes: 300 };
        let pruned = super::prune(&place, limits, None).unwrap();
        assert_eq!(pruned, Pruned { files: 3, bytes: 300 });
        assert_eq!(left(&place), [0, 1, 2]);
    }

    #[test]
    fn files_in_use_stay_whatever_the_limit() {
        let (_state, place) = place(&[0, 9]);
        super::prune(&place, PruneLimits { age: Duration::ZERO, bytes: 0 }, None).unwrap();
        assert_eq!(left(&place), [0]);
    }

    #[test]
    fn happens_once_a_day_and_not_beyond_its_time() {
        let (_state, place) = place(&[24 * 40, 24 * 50]);
        prune_daily(&place, Duration::ZERO, &[]);
        assert_eq!(left(&place).len(), 2, "no time was given");
        prune_daily(&place, DAY, &[]);
        assert_eq!(left(&place).len(), 2, "it was this day's turn");
        fs::remove_file(place.locks().join("pruned")).unwrap();
        prune_daily(&place, DAY, &[]);
        assert_eq!(left(&place), [0_u64; 0]);
    }
}
