//! Spilled outputs: the whole of each truncated output, by session, within a limit per session.

use std::{
    collections::HashMap,
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use kit::{Fault, Kind, procs::SpillSpace};
use parking_lot::Mutex;

use crate::{SPILL_PREFIX, Store, create_folder, spill_number};

/// The spills of one workspace: `spill/<session>/out_<n>`. Cheap to clone.
#[derive(Clone)]
pub struct Spills {
    folder: PathBuf,
    /// The next number, by session.
    next: Arc<Mutex<HashMap<String, u64>>>,
    /// The stored size of each session.
    kept: Arc<Mutex<HashMap<String, SessionSpills>>>,
    /// Maximum size per session, in bytes.
    most: u64,
    /// How often this process has made sure that the folder of a session is there.
    made: Arc<AtomicU64>,
}

/// The stored outputs of a session.
#[derive(Default)]
struct SessionSpills {
    bytes: u64,
    /// The outputs that are still being written, each as long as its reservation lives.
    growing: Vec<Weak<OfOutput>>,
}

/// The reservation of one output within the limit of its session.
struct OfOutput {
    spills: Spills,
    session: String,
    number: u64,
}

impl SpillSpace for OfOutput {
    fn take(&self, bytes: u64) -> u64 {
        self.spills.reserve(&self.session, bytes)
    }
}

impl Store {
    /// Returns the spills of this workspace. Keep one and clone it: it caches the numbers.
    pub fn spills(&self) -> Spills {
        Spills {
            folder: self.spill_folder(),
            next: Arc::default(),
            kept: Arc::default(),
            most: u64::MAX,
            made: Arc::default(),
        }
    }
}

impl Spills {
    /// Limits the size per session: a session's oldest outputs are deleted for new ones.
    pub fn bounded(self, most: u64) -> Self {
        Self { most, ..self }
    }

    /// Returns the reservation of an output that is being written.
    pub fn space(&self, session: &str, handle: &str) -> Arc<dyn SpillSpace> {
        let number = spill_number(handle).unwrap_or(0);
        let space = Arc::new(OfOutput { spills: self.clone(), session: session.to_owned(), number });
        let mut all = self.kept.lock();
        let kept = all.entry(session.to_owned()).or_insert_with(|| self.counted(session));
        kept.growing.retain(|it| it.strong_count() > 0);
        kept.growing.push(Arc::downgrade(&space));
        space
    }

    /// Reserves space for more bytes, and deletes the oldest finished outputs for it; returns how many bytes fit.
    fn reserve(&self, session: &str, bytes: u64) -> u64 {
        let mut all = self.kept.lock();
        let kept = all.entry(session.to_owned()).or_insert_with(|| self.counted(session));
        if kept.bytes.saturating_add(bytes) > self.most {
            // Another process may store outputs of this session too, and old ones expire.
            kept.bytes = self.counted(session).bytes;
            self.delete_oldest(session, kept, bytes);
        }
        let fits = bytes.min(self.most.saturating_sub(kept.bytes));
        kept.bytes += fits;
        fits
    }

    /// Empties the oldest outputs until this many bytes fit.
    fn delete_oldest(&self, session: &str, kept: &mut SessionSpills, bytes: u64) {
        let growing: Vec<u64> = kept.growing.iter().filter_map(Weak::upgrade).map(|it| it.number).collect();
        let folder = self.folder_of(session);
        for (handle, length) in self.list(session).unwrap_or_default() {
            if kept.bytes.saturating_add(bytes) <= self.most {
                return;
            }
            if spill_number(&handle).is_some_and(|it| growing.contains(&it)) {
                continue;
            }
            // Replaced by an empty file: the handle must not come to mean another output, and a session that
            // took it over keeps its own.
            let empty = folder.join(format!(".{handle}"));
            let made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&empty);
            if made.and_then(|_| fs::rename(&empty, folder.join(&handle))).is_ok() {
                kept.bytes = kept.bytes.saturating_sub(length);
            }
        }
    }

    /// Reads the stored size of a session.
    fn counted(&self, session: &str) -> SessionSpills {
        let bytes = self.list(session).unwrap_or_default().iter().map(|it| it.1).sum();
        SessionSpills { bytes, growing: Vec::new() }
    }

    /// Stores `bytes` and returns their handle. Handles count up within a session, also when two processes
    /// work in one session. Blocks while writing.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn keep(&self, session: &str, bytes: &[u8]) -> Result<String, Fault> {
        self.write(session, bytes).map_err(|error| {
            let folder = self.folder.display();
            Fault::new(Kind::Unavailable, format!("the output can't be kept in {folder}: {error}"))
                .caused_by(error)
        })
    }

    /// Returns the file of a handle, which exists.
    ///
    /// # Errors
    /// [`Kind::BadArgs`] for an invalid handle, [`Kind::NotFound`] for one that this session does not have.
    pub fn path(&self, session: &str, handle: &str) -> Result<PathBuf, Fault> {
        let Some(number) = spill_number(handle) else {
            return Err(Fault::bad_args(format!(
                "`{handle}` is not a handle of an output; they look like out_12"
            )));
        };
        let path = self.folder_of(session).join(format!("{SPILL_PREFIX}{number}"));
        match fs::symlink_metadata(&path) {
            Ok(it) if it.is_file() && it.len() > 0 => Ok(path),
            Ok(it) if it.is_file() => Err(Fault::not_found(format!("{handle} was too old to be kept"))),
            _ => Err(Fault::not_found(format!("this session has no output {handle}"))),
        }
    }

    /// Returns the bytes of a handle.
    ///
    /// # Errors
    /// Those of [`path`](Self::path), and when the file can't be read.
    pub fn read(&self, session: &str, handle: &str) -> Result<Vec<u8>, Fault> {
        let path = self.path(session, handle)?;
        let mut bytes = Vec::new();
        let read = OpenOptions::new().read(true).open(&path).and_then(|mut it| it.read_to_end(&mut bytes));
        read.map_err(|error| {
            Fault::new(Kind::Unavailable, format!("{handle} can't be read: {error}")).caused_by(error)
        })?;
        Ok(bytes)
    }

    /// Copies an output of another session under a handle of its own, which it returns. Blocks.
    pub fn take_over(&self, from: &str, handle: &str, to: &str) -> Option<String> {
        let (path, folder) = (self.path(from, handle).ok()?, self.folder_of(to));
        self.make_folder(&folder).ok()?;
        loop {
            let number = self.take_number(to, &folder).ok()?;
            let handle = format!("{SPILL_PREFIX}{number}");
            match fs::hard_link(&path, folder.join(&handle)) {
                Ok(()) => return Some(handle),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.next.lock().remove(to);
                }
                Err(_) => return None,
            }
        }
    }

    /// Gives a session all that another one has kept, under the same handles; gives how many outputs that is. Blocks.
    ///
    /// # Errors
    /// When one can't be given.
    pub fn share_all(&self, from: &str, to: &str) -> Result<usize, Fault> {
        let handles = self.list(from)?;
        let (source, folder) = (self.folder_of(from), self.folder_of(to));
        for (handle, _) in &handles {
            let linked = self
                .make_folder(&folder)
                .and_then(|()| fs::hard_link(source.join(handle), folder.join(handle)));
            match linked {
                // It may be too old to be kept by now.
                Err(error)
                    if [io::ErrorKind::AlreadyExists, io::ErrorKind::NotFound].contains(&error.kind()) => {}
                Err(error) => {
                    let what = format!("{handle} can't be given to the session `{to}`: {error}");
                    return Err(Fault::new(Kind::Unavailable, what).caused_by(error));
                }
                Ok(()) => {}
            }
        }
        Ok(handles.len())
    }

    /// Returns the handles of a session's stored outputs, each with its size in bytes, in the order of their numbers.
    ///
    /// # Errors
    /// When their folder can't be read.
    pub fn list(&self, session: &str) -> Result<Vec<(String, u64)>, Fault> {
        let Some(folder) = self.folder(session) else { return Ok(Vec::new()) };
        let unread = |error: io::Error| {
            Fault::new(Kind::Unavailable, format!("the kept outputs can't be listed: {error}"))
                .caused_by(error)
        };
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).map_err(unread)? {
            let entry = entry.map_err(unread)?;
            let Some(number) = entry.file_name().to_str().and_then(spill_number) else { continue };
            // An expired output is empty; one that is deleted meanwhile is not an error.
            if let Ok(about) = entry.metadata()
                && about.is_file()
                && about.len() > 0
            {
                found.push((number, about.len()));
            }
        }
        found.sort_unstable();
        Ok(found.into_iter().map(|(number, bytes)| (format!("{SPILL_PREFIX}{number}"), bytes)).collect())
    }

    /// Creates a file for an output that is still being written; returns it and its handle.
    ///
    /// # Errors
    /// When it can't be created.
    pub fn create(&self, session: &str) -> Result<(String, fs::File), Fault> {
        self.open_new(session).map_err(|error| {
            let folder = self.folder.display();
            Fault::new(Kind::Unavailable, format!("the output can't be kept in {folder}: {error}"))
                .caused_by(error)
        })
    }

    fn write(&self, session: &str, bytes: &[u8]) -> io::Result<String> {
        if self.reserve(session, bytes.len() as u64) < bytes.len() as u64 {
            return Err(io::Error::other(format!(
                "the outputs of a session may have {} MiB together",
                self.most >> 20
            )));
        }
        let (handle, mut file) = self.open_new(session)?;
        if let Err(error) = file.write_all(bytes) {
            drop(fs::remove_file(self.folder_of(session).join(&handle)));
            return Err(error);
        }
        Ok(handle)
    }

    fn open_new(&self, session: &str) -> io::Result<(String, fs::File)> {
        let folder = self.folder_of(session);
        self.make_folder(&folder)?;
        loop {
            let number = self.take_number(session, &folder)?;
            let handle = format!("{SPILL_PREFIX}{number}");
            let path = folder.join(&handle);
            match OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => return Ok((handle, file)),
                // Another process works in this session: read the numbers again.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.next.lock().remove(session);
                    continue;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn take_number(&self, session: &str, folder: &Path) -> io::Result<u64> {
        let mut next = self.next.lock();
        let number = match next.get(session) {
            Some(number) => *number,
            None => {
                let mut last = 0;
                for entry in fs::read_dir(folder)? {
                    last = last.max(entry?.file_name().to_str().and_then(spill_number).unwrap_or(0));
                }
                last + 1
            }
        };
        next.insert(session.to_owned(), number + 1);
        Ok(number)
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        create_folder(folder)?;
        self.made.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Returns a number that grows whenever this process stores an output. Costs nothing, unlike a look for the folder.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Acquire)
    }

    /// Returns the folder of a session's outputs, once it has any.
    pub fn folder(&self, session: &str) -> Option<PathBuf> {
        Some(self.folder_of(session)).filter(|folder| folder.is_dir())
    }

    /// Returns the folder of a session.
    pub fn folder_of(&self, session: &str) -> PathBuf {
        folder_of(&self.folder, session)
    }
}

/// Returns the folder of a session below this one, whatever characters its name has.
pub fn folder_of(all: &Path, session: &str) -> PathBuf {
    let plain = session.len() <= 64
        && session.starts_with(|it: char| it.is_ascii_alphanumeric())
        && session.chars().all(|it| it.is_ascii_alphanumeric() || "-_.".contains(it));
    if plain {
        return all.join(session);
    }
    let hash = blake3::hash(session.as_bytes()).to_hex();
    all.join(format!("={hash}"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::{os::unix::fs::PermissionsExt, time::Duration};

    use super::*;
    use crate::PruneLimits;
    use kit::redact::Secrets;

    fn store(state: &tempfile::TempDir) -> Store {
        Store::open(state.path(), state.path(), Arc::new(Secrets::none()))
    }

    #[test]
    fn counts_up_within_a_session_and_over_restarts() {
        let state = tempfile::tempdir().unwrap();
        let first = store(&state).spills();
        assert_eq!(first.keep("s", b"one").unwrap(), "out_1");
        // Two values that don't share their state.
        let second = store(&state).spills();
        assert_eq!(second.keep("s", b"two").unwrap(), "out_2");
        assert_eq!(first.keep("s", b"three").unwrap(), "out_3");
        assert_eq!(first.keep("other", b"x").unwrap(), "out_1");
        assert_eq!(second.read("s", "out_3").unwrap(), b"three");
    }

    #[test]
    fn stays_in_its_folder_and_its_session() {
        let state = tempfile::tempdir().unwrap();
        let spills = store(&state).spills();
        for session in ["../../x", "..", ".", "", "a/b", "a\0b", &"long".repeat(99)] {
            assert_eq!(spills.keep(session, b"x").unwrap(), "out_1", "{session}");
            let path = spills.path(session, "out_1").unwrap();
            assert!(path.starts_with(&spills.folder), "{}", path.display());
            assert!(!path.to_string_lossy().contains(".."), "{}", path.display());
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        for handle in ["out_", "out_01", "out_+1", "out_0", "../haft.db", "out_1/../out_1", "out_1\0"] {
            assert_eq!(spills.read("", handle).unwrap_err().kind, Kind::BadArgs, "{handle}");
        }
        assert_eq!(spills.read("nobody", "out_1").unwrap_err().kind, Kind::NotFound);
    }

    #[test]
    fn oldest_outputs_are_deleted_also_while_one_grows() {
        let state = tempfile::tempdir().unwrap();
        let spills = store(&state).spills().bounded(100);
        assert_eq!(spills.keep("s", &[b'a'; 60]).unwrap(), "out_1");
        let (handle, mut file) = spills.create("s").unwrap();
        let space = spills.space("s", &handle);
        for _ in 0..4 {
            let fits = space.take(30);
            file.write_all(&vec![b'b'; usize::try_from(fits).unwrap()]).unwrap();
        }
        assert_eq!(file.metadata().unwrap().len(), 100, "what grows is not emptied, and stops at the bound");
        assert_eq!(spills.read("s", "out_1").unwrap_err().what, "out_1 was too old to be kept");
        assert!(spills.keep("s", b"x").is_err(), "there is nothing left to make room");
        drop(space);
        assert_eq!(spills.keep("s", b"x").unwrap(), "out_3");
        assert_eq!(spills.list("s").unwrap(), [("out_3".to_owned(), 1)]);
        assert_eq!(spills.keep("other", &[b'a'; 100]).unwrap(), "out_1");
    }

    #[test]
    fn a_handle_is_never_reused() {
        let state = tempfile::tempdir().unwrap();
        let store = store(&state);
        let spills = store.spills();
        let old = std::time::SystemTime::now() - Duration::from_secs(100 * 24 * 3600);
        for text in ["one", "two"] {
            let handle = spills.keep("s", text.as_bytes()).unwrap();
            let path = spills.path("s", &handle).unwrap();
            fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
        }
        assert_eq!(store.prune(PruneLimits::default()).unwrap().files, 2);
        assert_eq!(spills.read("s", "out_1").unwrap_err().kind, Kind::NotFound);
        assert_eq!(spills.read("s", "out_2").unwrap_err().what, "out_2 was too old to be kept");
        assert_eq!(store.spills().keep("s", b"three").unwrap(), "out_3");
        assert_eq!(spills.list("s").unwrap(), [("out_3".to_owned(), 5)]);
        assert_eq!(spills.list("nobody").unwrap(), []);
        assert_eq!(store.prune(PruneLimits::default()).unwrap().files, 0);
    }
}
