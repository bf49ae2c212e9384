//! Pruning: removes before-images and spill files that are too old or too many.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
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
    let tracked = place.tracked();
    prune_tracked(&tracked, limits, deadline, &mut pruned)
        .map_err(|error| Trouble::of_file(&tracked, &error))?;
    Ok(pruned)
}

/// The space that the store takes on the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Before-images of edits, in bytes.
    pub edits: u64,
    /// Before-images of commands, in bytes.
    pub commands: u64,
    /// Long outputs, in bytes.
    pub outputs: u64,
}

/// Returns what the store holds on the disk.
pub(super) fn held(place: &Place) -> io::Result<DiskUse> {
    let sum = |folder: &Path| -> io::Result<u64> {
        let mut files = Vec::new();
        for entry in read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                files_in(&path, &mut files)?;
            }
        }
        Ok(files.iter().map(|it| it.bytes).sum())
    };
    let calls = tracked_calls(&place.tracked())?;
    Ok(DiskUse {
        edits: sum(&place.blobs())?,
        commands: calls.iter().map(|it| it.bytes).sum(),
        outputs: sum(&place.spill())?,
    })
}

/// The log of one call, with its images.
struct TrackedFolder {
    path: PathBuf,
    /// The time of its newest record.
    changed: SystemTime,
    /// The space that its removal would free.
    bytes: u64,
    images: Vec<PathBuf>,
    is_settled: bool,
}

/// Returns the folders of calls with their images. An image that is another name of a file in the workspace
/// holds nothing.
fn tracked_calls(folder: &Path) -> io::Result<Vec<TrackedFolder>> {
    let mut calls = Vec::new();
    for entry in read_dir(folder)? {
        let path = entry?.path();
        let Ok(changed) = fs::metadata(path.join("log")).and_then(|it| it.modified()) else { continue };
        let is_settled = path.join("settled").exists();
        let mut call = TrackedFolder { path, changed, bytes: 0, images: Vec::new(), is_settled };
        for file in read_dir(&call.path)? {
            let file = file?;
            let Ok(about) = file.metadata() else { continue };
            if about.nlink() <= 1 {
                call.bytes += about.blocks() * 512;
            }
            if file.file_name().to_str().is_some_and(|it| it.parse::<u64>().is_ok()) {
                call.images.push(file.path());
            }
        }
        calls.push(call);
    }
    Ok(calls)
}

/// Removes the images of the oldest calls beyond the limits; with the log where that is too old. Without its
/// images a call still says what it changed.
fn prune_tracked(
    folder: &Path,
    limits: PruneLimits,
    deadline: Option<Instant>,
    pruned: &mut Pruned,
) -> io::Result<()> {
    let mut calls = tracked_calls(folder)?;
    calls.sort_by_key(|it| it.changed);
    let mut bytes: u64 = calls.iter().map(|it| it.bytes).sum();
    for call in calls {
        let age = call.changed.elapsed().unwrap_or_default();
        let is_old = age > limits.age;
        if (!is_old && bytes <= limits.bytes) || deadline.is_some_and(|it| Instant::now() >= it) {
            break;
        }
        // A call that is not settled may still run.
        if age < IN_USE || (!is_old && !call.is_settled) {
            continue;
        }
        pruned.files += call.images.len();
        pruned.bytes += call.bytes;
        bytes = bytes.saturating_sub(call.bytes);
        let gone = |done: io::Result<()>| match done {
            // Another process prunes at the same time.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        };
        if is_old {
            gone(fs::remove_dir_all(&call.path))?;
        } else {
            call.images.iter().try_for_each(|it| gone(fs::remove_file(it)))?;
        }
    }
    Ok(())
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
    fn images_of_commands_count_by_the_age_of_their_call_and_links_hold_nothing() {
        let (state, place) = place(&[]);
        let call = |name: &str, hours: u64, bytes: usize| {
            let folder = place.tracked().join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("1"), vec![7; bytes]).unwrap();
            fs::write(folder.join("settled"), "").unwrap();
            let log = private_file(&folder.join("log")).unwrap();
            log.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600)).unwrap();
            folder
        };
        let (old, large, new) = (call("a", 100, 10), call("b", 5, 1 << 20), call("c", 0, 1 << 20));
        let linked = call("d", 4, 1 << 20);
        fs::hard_link(linked.join("1"), state.path().join("file")).unwrap();
        let before = held(&place).unwrap().commands;
        assert!((2 << 20..3 << 20).contains(&before), "{before}");
        let limits = PruneLimits { age: Duration::from_secs(50 * 3600), bytes: (1 << 20) + (1 << 19) };
        assert_eq!(super::prune(&place, limits, None).unwrap().files, 2);
        assert!(!old.exists() && large.join("log").exists() && !large.join("1").exists());
        assert!(new.join("1").exists() && linked.join("1").exists());
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
