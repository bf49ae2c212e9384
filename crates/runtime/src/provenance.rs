//! Provenance of files in tool folders: made by a tool, or by a person.
//!
//! A tool may create files beside itself, and a mount can't protect files that don't exist yet. So haft
//! records when each folder was writable for a tool, and which of its entries were protected. A file that was
//! not protected and whose metadata changed in that time counts as made by a tool: the kernel sets that time,
//! and no program can.

use std::{
    fmt, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use sandbox::layout::Entries;

/// Tolerance around a period: the time that a sandbox takes to end, and the granularity of file times.
const AROUND: Duration = Duration::from_millis(2500);

/// Limit of periods that are recorded one by one.
const MOST: usize = 256;

/// The owner of the tools in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The person who runs haft.
    Person,
    /// The author of the workspace, which the person trusts.
    Workspace,
    /// The author of the workspace, which the person does not trust: haft loads only what
    /// [`Touch::Tool`](kit::Touch::Tool) wrote here.
    Untrusted,
}

/// The periods in which tool folders were writable for tools. Cheap to clone; all clones share one list.
#[derive(Clone, Default)]
pub(crate) struct Provenance {
    times: Arc<Mutex<Vec<Time>>>,
    on_ended: Arc<OnceLock<OnEnded>>,
}

/// Called when a period has ended in which a tool may have made files.
type OnEnded = Box<dyn Fn() + Send + Sync>;

impl fmt::Debug for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Appeared").field("times", &self.times).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Time {
    folder: PathBuf,
    /// The files and folders directly in it that a tool could make or change.
    entries: Arc<Entries>,
    begun: Duration,
    ended: Option<Duration>,
}

/// A folder that is writable for a tool until this is dropped.
#[derive(Debug)]
pub(crate) struct Open {
    appeared: Provenance,
    begun: Duration,
    folder: PathBuf,
}

impl Provenance {
    /// Sets the callback for a period that has ended and left files that a tool may have made.
    pub(crate) fn on_ended(&self, on_ended: impl Fn() + Send + Sync + 'static) {
        // The runtime sets it once, at the start.
        let _ = self.on_ended.set(Box::new(on_ended));
    }

    /// Records that tools can make or change these entries of the folder.
    pub(crate) fn open(&self, folder: PathBuf, entries: Entries) -> Open {
        let begun = now();
        let mut times = self.times.lock();
        if times.len() >= MOST {
            forget_one(&mut times);
        }
        times.push(Time { folder: folder.clone(), entries: Arc::new(entries), begun, ended: None });
        Open { appeared: self.clone(), begun, folder }
    }

    /// Returns whether a tool may have made this file, or the folder that it is in. A file that a person
    /// changes afterwards is that person's.
    pub(crate) fn may_be_made_inside(&self, path: &Path) -> bool {
        if self.times.lock().is_empty() {
            return false;
        }
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        // Both the link and its target.
        let places = [real.as_path(), path].map(|it| (it, changed(it)));
        let times = self.times.lock();
        times.iter().any(|time| places.iter().any(|(it, changed)| time.is_about(it, *changed)))
    }
}

impl Time {
    /// Returns whether the folder, or a folder in it, has a new entry with a name that a tool may have.
    fn has_new_entry(&self) -> bool {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let named = entries.filter(|it| !it.file_name().as_encoded_bytes().starts_with(b"_"));
        let mut open = named.map(|it| it.path()).filter(|it| self.entries.include(it));
        open.any(|it| self.is_about(&it, changed(&it)))
    }

    fn is_about(&self, path: &Path, changed: Option<Duration>) -> bool {
        let Some(changed) = changed else { return false };
        let Some(top) = path.strip_prefix(&self.folder).ok().and_then(|it| it.components().next()) else {
            return false;
        };
        if !self.entries.include(&self.folder.join(top)) {
            return false;
        }
        changed + AROUND >= self.begun && self.ended.is_none_or(|ended| changed <= ended + AROUND)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut times = self.appeared.times.lock();
        let mut open = times.iter_mut();
        let Some(time) =
            open.find(|it| it.ended.is_none() && it.begun == self.begun && it.folder == self.folder)
        else {
            return;
        };
        time.ended = Some(now());
        let has_new_entry = time.has_new_entry();
        drop(times);
        if has_new_entry && let Some(on_ended) = self.appeared.on_ended.get() {
            on_ended();
        }
    }
}

/// Merges the two oldest periods of one folder that are over: an entry stays protected only if it was in
/// both.
fn forget_one(times: &mut Vec<Time>) {
    let over = |it: &&mut Time| it.ended.is_some();
    let Some(oldest) = times.iter().position(|it| it.ended.is_some()) else { return };
    let oldest = times.remove(oldest);
    if let Some(next) = times.iter_mut().filter(over).find(|it| it.folder == oldest.folder) {
        next.begun = next.begun.min(oldest.begun);
        next.ended = next.ended.max(oldest.ended);
        next.entries = Arc::new(next.entries.or(&oldest.entries));
    } else {
        times.push(oldest);
    }
}

/// Returns the time of the last change of the file's metadata; none, if there is no such file.
fn changed(path: &Path) -> Option<Duration> {
    let about = fs::symlink_metadata(path).ok()?;
    let seconds = u64::try_from(about.ctime()).unwrap_or_default();
    Some(Duration::new(seconds, u32::try_from(about.ctime_nsec()).unwrap_or_default()))
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn new_file_in_a_writable_folder_counts_as_made_by_a_tool() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        let (old, new) = (folder.join("old.py"), folder.join("new.py"));
        fs::write(&old, "").unwrap();
        let appeared = Provenance::default();
        assert!(!appeared.may_be_made_inside(&old));
        let open = appeared.open(folder.clone(), Entries::AllBut(BTreeSet::from([old.clone()])));
        fs::write(&new, "").unwrap();
        assert!(appeared.may_be_made_inside(&new) && !appeared.may_be_made_inside(&old));
        drop(open);
        assert!(appeared.may_be_made_inside(&new) && !appeared.may_be_made_inside(&old));
        // Long before, and long after.
        for (begun, ended) in [(0, 1), (1 << 40, 1 << 41)] {
            for time in appeared.times.lock().iter_mut() {
                (time.begun, time.ended) = (Duration::from_secs(begun), Some(Duration::from_secs(ended)));
            }
            assert!(!appeared.may_be_made_inside(&new));
        }
    }

    #[test]
    fn many_periods_are_merged_into_few() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        let new = folder.join("new.py");
        let appeared = Provenance::default();
        drop(appeared.open(folder.clone(), Entries::AllBut(BTreeSet::new())));
        fs::write(&new, "").unwrap();
        let closed = Entries::AllBut(BTreeSet::from([new.clone()]));
        (0..MOST * 2).for_each(|_| drop(appeared.open(folder.clone(), closed.clone())));
        assert_eq!(appeared.times.lock().len(), MOST);
        assert!(appeared.may_be_made_inside(&new));
    }
}
