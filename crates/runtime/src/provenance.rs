//! Provenance of files in tool folders: made by a tool, or by a person.
//!
//! A tool may make files beside itself, and what is new can't be covered by a mount. So it is remembered when which folder
//! was open to a tool and what in it was closed. What was not closed and last changed in that time is nobody's word: the
//! kernel sets the time of the last change, and no program can.

use std::{
    collections::BTreeSet,
    fmt, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;

/// How much longer what ran in a sandbox may have been there, and how coarse the times of files are.
const AROUND: Duration = Duration::from_millis(2500);

/// How many times are remembered one by one.
const MOST: usize = 256;

/// Who put tools into a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The person who runs haft.
    Person,
    /// Whoever wrote what is in the workspace, which the person trusts.
    Workspace,
    /// The same, and the person does not trust it: only what was written here by [`Touch::Tool`](kit::Touch::Tool)
    /// is loaded.
    Untrusted,
}

/// The times in which folders of tools were open to tools. Cheap to clone; all clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Provenance {
    times: Arc<Mutex<Vec<Time>>>,
    told: Arc<OnceLock<Told>>,
}

/// Hears of a folder that was open, in which there is something now that a tool may have made.
type Told = Box<dyn Fn() + Send + Sync>;

impl fmt::Debug for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Appeared").field("times", &self.times).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Time {
    folder: PathBuf,
    /// What could not be changed: files and folders directly in it.
    closed: Arc<BTreeSet<PathBuf>>,
    begun: Duration,
    ended: Option<Duration>,
}

/// A folder is open to a tool for as long as this lives.
#[derive(Debug)]
pub(crate) struct Open {
    appeared: Provenance,
    begun: Duration,
    folder: PathBuf,
}

impl Provenance {
    /// Whoever keeps what is found out here is told when there is something to be found, once it is over.
    pub(crate) fn tell(&self, told: impl Fn() + Send + Sync + 'static) {
        // It is set once, when the runtime is made.
        let _ = self.told.set(Box::new(told));
    }

    /// Notes that this folder is open, but for what is closed in it.
    pub(crate) fn open(&self, folder: PathBuf, closed: BTreeSet<PathBuf>) -> Open {
        let begun = now();
        let mut times = self.times.lock();
        if times.len() >= MOST {
            forget_one(&mut times);
        }
        times.push(Time { folder: folder.clone(), closed: Arc::new(closed), begun, ended: None });
        Open { appeared: self.clone(), begun, folder }
    }

    /// May a tool have made this file, or what it is in? What a person changes afterwards is that person's.
    pub(crate) fn may_be_made_inside(&self, path: &Path) -> bool {
        if self.times.lock().is_empty() {
            return false;
        }
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        // The link as well as what it leads to.
        let places = [real.as_path(), path];
        self.times.lock().iter().any(|time| places.iter().any(|it| time.is_about(it)))
    }
}

impl Time {
    /// Is there anything new directly in the folder, or in a folder there, by a name that a tool may have?
    fn has_news(&self) -> bool {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut named = entries.filter(|it| !it.file_name().as_encoded_bytes().starts_with(b"_"));
        named.any(|it| self.is_about(&it.path()))
    }

    fn is_about(&self, path: &Path) -> bool {
        let Some(top) = path.strip_prefix(&self.folder).ok().and_then(|it| it.components().next()) else {
            return false;
        };
        if self.closed.contains(&self.folder.join(top)) {
            return false;
        }
        let Ok(about) = fs::symlink_metadata(path) else { return false };
        let changed = Duration::new(
            u64::try_from(about.ctime()).unwrap_or_default(),
            u32::try_from(about.ctime_nsec()).unwrap_or_default(),
        );
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
        let is_news = time.has_news();
        drop(times);
        if is_news && let Some(told) = self.appeared.told.get() {
            told();
        }
    }
}

/// Makes one time of the two oldest of a folder that are over: of what was closed, only what was closed in both.
fn forget_one(times: &mut Vec<Time>) {
    let over = |it: &&mut Time| it.ended.is_some();
    let Some(oldest) = times.iter().position(|it| it.ended.is_some()) else { return };
    let oldest = times.remove(oldest);
    if let Some(next) = times.iter_mut().filter(over).find(|it| it.folder == oldest.folder) {
        next.begun = next.begun.min(oldest.begun);
        next.ended = next.ended.max(oldest.ended);
        next.closed = Arc::new(next.closed.intersection(&oldest.closed).cloned().collect());
    } else {
        times.push(oldest);
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_is_new_while_a_folder_is_open_is_nobody_s_word() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        let (old, new) = (folder.join("old.py"), folder.join("new.py"));
        fs::write(&old, "").unwrap();
        let appeared = Provenance::default();
        assert!(!appeared.may_be_made_inside(&old));
        let open = appeared.open(folder.clone(), BTreeSet::from([old.clone()]));
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
    fn many_times_are_remembered_as_few() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        let new = folder.join("new.py");
        let appeared = Provenance::default();
        drop(appeared.open(folder.clone(), BTreeSet::new()));
        fs::write(&new, "").unwrap();
        (0..MOST * 2).for_each(|_| drop(appeared.open(folder.clone(), BTreeSet::from([new.clone()]))));
        assert_eq!(appeared.times.lock().len(), MOST);
        assert!(appeared.may_be_made_inside(&new));
    }
}
