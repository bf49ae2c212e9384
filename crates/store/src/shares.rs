//! Shared files: copies that a session made for the person, until they expire.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use kit::{
    Fault, Kind,
    net::Url,
    services::{NewShare, Shared, Shares},
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::create_folder;

/// Maximum size of a shared file, in bytes.
const MOST_BYTES: u64 = 200 << 20;

/// Maximum size of all files that one session shares at a time, in bytes.
const MOST_OF_SESSION: u64 = 2 << 30;

/// Time until a file expires.
const FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum length of a name, in bytes: with what is added to it, file systems accept it.
const LONGEST_NAME: usize = 120;

/// The files of one session: `files/<session>/<id>/<name>`, with the metadata of each in `<id>.json`. Cheap to clone.
#[derive(Clone)]
pub struct SessionFiles {
    folder: PathBuf,
    at: Arc<Mutex<Option<String>>>,
}

/// The stored metadata of a file.
#[derive(Serialize, Deserialize)]
struct Known {
    name: String,
    mime: String,
    bytes: u64,
    inline: bool,
    published: bool,
    until_ms: u64,
    /// Orders files that were shared within one millisecond.
    shared_ns: u64,
}

impl SessionFiles {
    /// Returns the files in this folder, which need not exist.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, at: Arc::default() }
    }

    /// Sets the base address: a file's link is this and its id. A front end that serves files calls it.
    pub fn serve_at(&self, base: impl Into<String>) {
        *self.at.lock() = Some(base.into());
    }

    fn shared(&self, id: &str, known: Known) -> Shared {
        let path = self.folder.join(id).join(&known.name);
        let link = match &*self.at.lock() {
            Some(base) => format!("{base}{id}"),
            None => Url::from_file_path(&path)
                .map_or_else(|()| path.to_string_lossy().into_owned(), |url| url.to_string()),
        };
        let Known { name, mime, bytes, inline, published, until_ms, .. } = known;
        Shared { id: id.to_owned(), name, mime, bytes, inline, published, until_ms, path, link }
    }

    fn note(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }

    /// Returns the metadata of a file that has not expired.
    fn known(&self, id: &str) -> Option<Known> {
        let known: Known = serde_json::from_slice(&fs::read(self.note(id)).ok()?).ok()?;
        (known.until_ms > now_ms()).then_some(known)
    }

    fn write(&self, id: &str, known: &Known) -> io::Result<()> {
        let text = serde_json::to_vec(known)?;
        let new = self.folder.join(format!(".{id}.new"));
        drop(fs::remove_file(&new));
        private(&new)?.write_all(&text)?;
        fs::rename(&new, self.note(id))
    }

    /// Returns all files that have not expired, oldest first. Removes the others.
    fn all(&self) -> Result<Vec<(String, Known)>, Fault> {
        sweep_session(&self.folder);
        let mut found = Vec::new();
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            Err(error) => return Err(self.trouble("be listed", error)),
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(|it| it.strip_suffix(".json")).filter(|it| is_id(it))
            else {
                continue;
            };
            if let Some(known) = self.known(id) {
                found.push((id.to_owned(), known));
            }
        }
        found.sort_by_key(|(_, known)| known.shared_ns);
        Ok(found)
    }

    fn trouble(&self, what: &str, error: io::Error) -> Fault {
        let folder = self.folder.display();
        Fault::new(Kind::Unavailable, format!("the files in {folder} can't {what}: {error}")).caused_by(error)
    }

    /// Copies the content of `file`, up to its size limit.
    fn copy(
        &self,
        file: &File,
        id: &str,
        name: &str,
        go_on: &dyn Fn() -> Result<(), Fault>,
    ) -> Result<u64, Fault> {
        let trouble = |error: io::Error| self.trouble("take another one", error);
        let folder = self.folder.join(id);
        create_folder(&folder).map_err(trouble)?;
        let mut to = private(&folder.join(name)).map_err(trouble)?;
        let mut from = file.take(MOST_BYTES + 1);
        let mut buffer = vec![0; 256 << 10];
        let mut bytes = 0;
        loop {
            go_on()?;
            let read = from.read(&mut buffer).map_err(trouble)?;
            let Some(piece) = buffer.get(..read).filter(|it| !it.is_empty()) else { break };
            bytes += read as u64;
            if bytes > MOST_BYTES {
                return Err(too_big(name, bytes));
            }
            to.write_all(piece).map_err(trouble)?;
        }
        Ok(bytes)
    }
}

impl Shares for SessionFiles {
    fn share(
        &self,
        file: &File,
        new: NewShare,
        go_on: &dyn Fn() -> Result<(), Fault>,
    ) -> Result<Shared, Fault> {
        let name = plain(&new.name);
        if new.bytes > MOST_BYTES {
            return Err(too_big(&name, new.bytes));
        }
        let held: u64 = self.all()?.iter().map(|(_, known)| known.bytes).sum();
        if held + new.bytes > MOST_OF_SESSION {
            return Err(Fault::new(
                Kind::TooBig,
                format!("this session has shared {held} bytes within a day; at most {MOST_OF_SESSION}"),
            ));
        }
        let id = new_id()?;
        let copied = self.copy(file, &id, &name, go_on);
        let done = copied.and_then(|bytes| {
            let NewShare { mime, inline, .. } = new;
            let until_ms = now_ms() + u64::try_from(FOR.as_millis()).unwrap_or(0);
            let known = Known { name, mime, bytes, inline, published: false, until_ms, shared_ns: now_ns() };
            self.write(&id, &known).map_err(|error| self.trouble("take another one", error))?;
            Ok(self.shared(&id, known))
        });
        if done.is_err() {
            drop(fs::remove_dir_all(self.folder.join(&id)));
        }
        done
    }

    fn find(&self, file: &str) -> Result<Shared, Fault> {
        let mut all = self.all()?;
        if let Some(at) = all.iter().rposition(|(id, known)| id == file || known.name == file) {
            let (id, known) = all.swap_remove(at);
            return Ok(self.shared(&id, known));
        }
        let file = file.get(..file.floor_char_boundary(200)).unwrap_or_default();
        let fault = Fault::not_found(format!("this session has shared no `{file}`, or it was too old"));
        let mut names: Vec<String> = all.into_iter().rev().take(10).map(|(_, it)| it.name).collect();
        names.dedup();
        Err(if names.is_empty() { fault } else { fault.next(format!("Shared: {}.", names.join(", "))) })
    }

    fn list(&self) -> Result<Vec<Shared>, Fault> {
        Ok(self.all()?.into_iter().map(|(id, known)| self.shared(&id, known)).collect())
    }

    fn publish(&self, id: &str) -> Result<Shared, Fault> {
        let known = if is_id(id) { self.known(id) } else { None };
        let Some(mut known) = known else {
            return Err(Fault::not_found(format!("this session has shared no `{id}`, or it was too old")));
        };
        known.published = true;
        self.write(id, &known).map_err(|error| self.trouble("be changed", error))?;
        Ok(self.shared(id, known))
    }
}

/// Removes expired files in all sessions of a workspace. A failure is retried the next time.
pub fn sweep(files: &Path) {
    let Ok(sessions) = fs::read_dir(files) else { return };
    for session in sessions.flatten() {
        sweep_session(&session.path());
        // Removes only an empty folder.
        drop(fs::remove_dir(session.path()));
    }
}

fn sweep_session(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let path = entry.path();
        if let Some(id) = name.strip_suffix(".json").filter(|it| is_id(it)) {
            let until = fs::read(&path).ok().and_then(|it| serde_json::from_slice::<Known>(&it).ok());
            if until.is_none_or(|it| it.until_ms <= now_ms()) {
                // The file first: without its metadata it would be found only by its age.
                drop(fs::remove_dir_all(folder.join(id)));
                drop(fs::remove_file(&path));
            }
            continue;
        }
        // A copy that was never finished.
        let noted = is_id(name) && folder.join(format!("{name}.json")).exists();
        let age = entry.metadata().and_then(|it| it.modified()).ok().and_then(|it| it.elapsed().ok());
        if !noted && age.is_some_and(|it| it > FOR) {
            drop(fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path)));
        }
    }
}

fn too_big(name: &str, bytes: u64) -> Fault {
    Fault::new(Kind::TooBig, format!("`{name}` has {bytes} bytes; at most {MOST_BYTES} are shared"))
        .next("Pack it, or share the part that matters.")
}

fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn new_id() -> Result<String, Fault> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Fault::new(Kind::Unavailable, format!("there are no random numbers: {error}")))?;
    Ok(bytes.iter().map(|it| format!("{it:02x}")).collect())
}

/// Returns whether it is an id; each has one spelling only.
fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(&it))
}

/// Returns the name in a form that every file system and every header accepts: without folders, leading dots
/// and invisible characters.
fn plain(name: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let (seen, _) = kit::escape::visible(name);
    let kept = |it: char| !it.is_control() && !"<>:\"|?*\\/".contains(it);
    let plain: String = seen.chars().map(|it| if kept(it) { it } else { '_' }).collect();
    let plain = plain.trim().trim_start_matches('.');
    let short = match plain.rsplit_once('.') {
        // The extension is kept.
        Some((start, ending)) if plain.len() > LONGEST_NAME && ending.len() < 16 => {
            let room = LONGEST_NAME - ending.len() - 1;
            format!("{}.{ending}", start.get(..start.floor_char_boundary(room)).unwrap_or_default())
        }
        _ => plain.get(..plain.floor_char_boundary(LONGEST_NAME)).unwrap_or_default().to_owned(),
    };
    if short.is_empty() { "file".to_owned() } else { short }
}

fn now_ms() -> u64 {
    now_ns() / 1_000_000
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn new(name: &str, bytes: u64) -> NewShare {
        NewShare { name: name.to_owned(), mime: "text/plain".to_owned(), bytes, inline: true }
    }

    struct Folder {
        files: SessionFiles,
        source: PathBuf,
        _folder: tempfile::TempDir,
    }

    fn folder() -> Folder {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::write(&source, "hello").unwrap();
        Folder { files: SessionFiles::new(folder.path().join("files/s")), source, _folder: folder }
    }

    impl Folder {
        fn share(&self, name: &str) -> Shared {
            self.files.share(&File::open(&self.source).unwrap(), new(name, 5), &|| Ok(())).unwrap()
        }
    }

    #[test]
    fn a_copy_is_its_owners_alone_and_can_be_found() {
        let it = folder();
        let shared = it.share("a.txt");
        assert_eq!(fs::read(&shared.path).unwrap(), b"hello");
        assert_eq!(fs::metadata(&shared.path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(shared.link.starts_with("file:///") && shared.link.ends_with("/a.txt"), "{}", shared.link);
        assert_eq!(it.files.find("a.txt").unwrap(), shared);
        assert_eq!(it.files.find(&shared.id).unwrap(), shared);
        let newer = it.share("a.txt");
        assert_eq!(it.files.find("a.txt").unwrap().id, newer.id);
        assert!(it.files.publish(&newer.id).unwrap().published);
        it.files.serve_at("haft://files/");
        assert_eq!(it.files.find(&newer.id).unwrap().link, format!("haft://files/{}", newer.id));
        for other in ["b.txt", "../s", "", &"0".repeat(32)] {
            assert_eq!(it.files.find(other).unwrap_err().kind, Kind::NotFound, "{other}");
            assert_eq!(it.files.publish(other).unwrap_err().kind, Kind::NotFound, "{other}");
        }
    }

    #[test]
    fn expired_copies_are_deleted() {
        let it = folder();
        let shared = it.share("a.txt");
        let mut known = it.files.known(&shared.id).unwrap();
        known.until_ms = now_ms();
        it.files.write(&shared.id, &known).unwrap();
        assert_eq!(it.files.find(&shared.id).unwrap_err().kind, Kind::NotFound);
        assert!(!shared.path.exists());
        sweep(it.files.folder.parent().unwrap());
        assert!(!it.files.folder.exists());
    }

    #[test]
    fn oversized_and_cancelled_copies_leave_nothing() {
        let it = folder();
        let file = File::open(&it.source).unwrap();
        let fault = it.files.share(&file, new("a", MOST_BYTES + 1), &|| Ok(())).unwrap_err();
        assert_eq!(fault.kind, Kind::TooBig);
        let stopped = || Err(Fault::new(Kind::Cancelled, "stopped"));
        assert_eq!(it.files.share(&file, new("a", 5), &stopped).unwrap_err().kind, Kind::Cancelled);
        // One that grew after its size was read.
        let grown = OpenOptions::new().read(true).write(true).open(&it.source).unwrap();
        grown.set_len(MOST_BYTES + 1).unwrap();
        assert_eq!(it.files.share(&grown, new("a", 5), &|| Ok(())).unwrap_err().kind, Kind::TooBig);
        assert_eq!(fs::read_dir(&it.files.folder).unwrap().count(), 0);
    }

    #[test]
    fn names_are_plain() {
        for (name, expected) in [
            ("../../etc/passwd", "passwd"),
            ("a\\b.txt", "b.txt"),
            (".bashrc", "bashrc"),
            ("a\n\"b\".txt", "a__b_.txt"),
            ("..", "file"),
            ("  ", "file"),
        ] {
            assert_eq!(plain(name), expected, "{name:?}");
        }
        let long = plain(&format!("{}.tar", "ü".repeat(200)));
        assert!(long.len() <= LONGEST_NAME && long.ends_with("ü.tar"), "{long}");
    }
}
