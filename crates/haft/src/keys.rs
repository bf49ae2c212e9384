//! Provider keys on disk, as `haft login` keeps them: one file per name in the folder `keys` of the configuration.
//!
//! The folder has mode 0700 and each file 0600; writes are atomic. A folder or a file that is a symlink, belongs to another
//! user, or is open to the group or to others is not used. The configuration folder is in no tool's reach: file tools
//! refuse it, and the sandbox of commands does not contain it.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use agent::model::Keys;
use kit::{Fault, Kind};
use serde::{Deserialize, Serialize};

use crate::Place;

/// The folder in the configuration.
const FOLDER: &str = "keys";

/// The maximum size of a key file, in bytes; a larger one is ignored.
const LARGEST: u64 = 64 * 1024;

/// The accepted lengths of a key, in bytes; a shorter one can't be redacted, since it would match harmless text.
const KEY: std::ops::RangeInclusive<usize> = 8..=8 * 1024;

/// The folder of the keys.
pub(crate) struct KeyFiles {
    config: PathBuf,
}

/// The content of a key file.
#[derive(Serialize, Deserialize)]
struct KeyFile {
    /// Scheme, host and port that the key may be sent to.
    origin: String,
    key: String,
}

impl KeyFiles {
    /// Returns the key files of this person.
    pub(crate) fn of(place: &Place) -> Self {
        Self { config: place.config.clone() }
    }

    /// Returns all keys, and a line for each file that is not used.
    pub(crate) fn read(&self) -> (Keys, Vec<String>) {
        let (mut keys, mut unused) = (Keys::default(), Vec::new());
        let entries = match self
            .is_private()
            .and_then(|there| if there { fs::read_dir(self.folder()).map(Some) } else { Ok(None) })
        {
            Ok(Some(entries)) => entries,
            Ok(None) => return (keys, unused),
            Err(error) => return (keys, vec![format!("keys of `haft login` are not used: {error}")]),
        };
        for path in entries.flatten().map(|it| it.path()) {
            let Some(name) = path.file_name().and_then(|it| it.to_str()?.strip_suffix(".json")) else {
                continue;
            };
            match read_file(&path) {
                Ok(Some(kept)) => keys.insert(name, kept.origin, &kept.key),
                Ok(None) => {}
                Err(error) => unused.push(format!(
                    "the key `{name}` of `haft login` is not used: {}: {error}",
                    path.display()
                )),
            }
        }
        unused.sort();
        (keys, unused)
    }

    /// Returns the file of this name.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(format!("{name}.json"))
    }

    /// Saves a key that may be sent to `origin`, in place of the one with the same name.
    ///
    /// # Errors
    /// When the name can't be a file name, or the folder is not private.
    pub(crate) fn keep(&self, name: &str, origin: &str, key: &str) -> Result<PathBuf, Fault> {
        let path = self.path(is_plain(name)?);
        let kept = KeyFile { origin: origin.to_owned(), key: key.to_owned() };
        self.write(&path, &kept).map_err(|error| {
            Fault::new(Kind::Unavailable, format!("the key can't be kept in {}: {error}", path.display()))
                .next("Make that folder a directory of your own with mode 700, or set the variable of the provider.")
        })?;
        Ok(path)
    }

    /// Removes a key; returns false if there was none.
    ///
    /// # Errors
    /// When the file can't be removed.
    pub(crate) fn forget(&self, name: &str) -> Result<bool, Fault> {
        let path = self.path(is_plain(name)?);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Fault::new(
                Kind::Unavailable,
                format!("the key can't be removed: {}: {error}", path.display()),
            )),
        }
    }

    fn folder(&self) -> PathBuf {
        self.config.join(FOLDER)
    }

    /// Returns whether the folder exists; an error if it is not this user's alone.
    fn is_private(&self) -> io::Result<bool> {
        let folder = self.folder();
        let about = match fs::symlink_metadata(&folder) {
            Ok(about) => about,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        self.is_not_linked()?;
        let why = if about.is_symlink() {
            "it is a symlink".to_owned()
        } else if !about.is_dir() {
            "it is not a directory".to_owned()
        } else if about.uid() != rustix::process::geteuid().as_raw() {
            "it belongs to another user".to_owned()
        } else if about.mode() & 0o077 != 0 {
            format!("others may enter it (mode {:03o}); `chmod 700` it", about.mode() & 0o777)
        } else {
            return Ok(true);
        };
        Err(io::Error::other(format!("{}: {why}", folder.display())))
    }

    /// Returns an error if the configuration folder is a symlink: it may lead into a repository that gets published.
    fn is_not_linked(&self) -> io::Result<()> {
        match fs::symlink_metadata(&self.config).is_ok_and(|it| it.is_symlink()) {
            true => Err(io::Error::other(format!("{} is a symlink", self.config.display()))),
            false => Ok(()),
        }
    }

    fn write(&self, path: &Path, kept: &KeyFile) -> io::Result<()> {
        self.is_not_linked()?;
        if !self.is_private()? {
            DirBuilder::new().recursive(true).mode(0o700).create(self.folder())?;
            self.is_private()?;
        }
        let random = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
        let new = self.folder().join(format!(".{random:016x}"));
        let text = serde_json::to_vec(kept)?;
        let written = (|| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(&text)?;
            file.sync_all()?;
            // A symlink of that name is replaced, not followed.
            fs::rename(&new, path)?;
            File::open(self.folder())?.sync_all()
        })();
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }
}

/// Returns this text as a key, without blanks around it.
///
/// # Errors
/// When it can't be a key; the error does not contain the text.
pub(crate) fn as_key(text: &str) -> Result<String, Fault> {
    let key = text.trim();
    let why = if key.is_empty() {
        "no key was given".to_owned()
    } else if key.contains(|it: char| !it.is_ascii_graphic()) {
        "what was given is not a key: it has blanks, line breaks or letters beyond ASCII".to_owned()
    } else if !KEY.contains(&key.len()) {
        format!(
            "what was given is not a key: it has {} characters, and a key has {} to {}",
            key.len(),
            KEY.start(),
            KEY.end()
        )
    } else {
        return Ok(key.to_owned());
    };
    Err(Fault::bad_args(why).next("Give the key alone, at the prompt or on standard input."))
}

/// Returns the name if it can be a file name.
fn is_plain(name: &str) -> Result<&str, Fault> {
    let fine = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
    if !name.is_empty() && !name.starts_with('.') && name.len() <= 100 && name.chars().all(fine) {
        return Ok(name);
    }
    Err(Fault::bad_args(format!("`{name}` can't name a key: only letters, digits, `.`, `_` and `-` can"))
        .next("Rename the section in haft.toml, or use its `key_env`."))
}

fn read_file(path: &Path) -> io::Result<Option<KeyFile>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    let file = match options.read(true).custom_flags(flags.bits().cast_signed()).open(path) {
        Ok(file) => file,
        // Another process just removed it.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(io::Error::other("it is a symlink"));
        }
        Err(error) => return Err(error),
    };
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    if about.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it belongs to another user"));
    }
    if about.mode() & 0o077 != 0 {
        let mode = about.mode() & 0o777;
        return Err(io::Error::other(format!("others may read it (mode {mode:03o}); `chmod 600` it")));
    }
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text)?;
    // The parser's error would quote the text.
    serde_json::from_str(&text).map(Some).map_err(|_| io::Error::other("it is not as haft writes it"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const ORIGIN: &str = "https://api.openai.com";

    fn files(dir: &tempfile::TempDir) -> KeyFiles {
        KeyFiles { config: dir.path().join("config") }
    }

    fn values(files: &KeyFiles) -> (Vec<(String, String)>, Vec<String>) {
        let (keys, unused) = files.read();
        (keys.values().collect(), unused)
    }

    #[test]
    fn a_key_is_kept_privately_replaced_and_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(&dir);
        assert_eq!(values(&files), (vec![], vec![]));
        files.keep("openai", ORIGIN, "sk-first-key").unwrap();
        let path = files.keep("openai", ORIGIN, "sk-second-key").unwrap();
        assert_eq!(values(&files), (vec![("login:openai".into(), "sk-second-key".into())], vec![]));
        assert_eq!(files.read().0.origin_of("openai"), Some(ORIGIN));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(files.folder().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(files.folder()).unwrap().count(), 1, "nothing is left beside it");
        assert!(files.forget("openai").unwrap() && !files.forget("openai").unwrap());
        assert_eq!(values(&files).0, []);
    }

    #[test]
    fn a_file_or_folder_that_others_may_read_or_that_is_a_symlink_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(&dir);
        let path = files.keep("openai", ORIGIN, "sk-the-key-1").unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let refused = |why: &str| {
            let (keys, unused) = values(&files);
            assert_eq!(keys, []);
            let told = unused.concat();
            assert!(told.contains(why) && !told.contains("sk-the-key"), "{told}");
        };
        for open in [0o640, 0o604, 0o660] {
            mode(&path, open);
            refused("others may read it");
        }
        mode(&path, 0o600);
        let real = dir.path().join("real.json");
        fs::rename(&path, &real).unwrap();
        symlink(&real, &path).unwrap();
        refused("symlink");
        // Saving a key again replaces the symlink, and does not touch its target.
        let before = fs::read(&real).unwrap();
        files.keep("openai", ORIGIN, "sk-the-key-2").unwrap();
        assert_eq!(fs::read(&real).unwrap(), before);
        assert_eq!(values(&files).0.len(), 1);
        mode(&files.folder(), 0o755);
        refused("others may enter it");
        assert!(files.keep("openai", ORIGIN, "sk-the-key-3").is_err());
        mode(&files.folder(), 0o700);
        fs::write(&path, "{\"key\": \"sk-the-key-4\"").unwrap();
        refused("not as haft writes it");
        fs::rename(dir.path().join("config"), dir.path().join("elsewhere")).unwrap();
        symlink(dir.path().join("elsewhere"), dir.path().join("config")).unwrap();
        refused("is a symlink");
        assert!(files.keep("openai", ORIGIN, "sk-the-key-5").is_err());
        // A person with such a folder and without keys does not get the note each time.
        fs::remove_dir_all(dir.path().join("elsewhere/keys")).unwrap();
        assert_eq!(values(&files), (vec![], vec![]));
        assert!(files.keep("openai", ORIGIN, "sk-the-key-6").is_err());
    }

    #[test]
    fn what_is_not_a_key_or_a_name_is_refused_without_showing_it() {
        for text in
            ["", "  \n", "short", "two words of it", "sk-line\nsk-line", "sk-schlüssel-1", &"x".repeat(9000)]
        {
            let fault = as_key(text).unwrap_err();
            assert!(text.trim().is_empty() || !fault.as_text().contains(text.trim()), "{fault:?}");
        }
        assert_eq!(as_key(" sk-one-two-3\r\n").unwrap(), "sk-one-two-3");
        let dir = tempfile::tempdir().unwrap();
        for name in ["", "../x", ".hidden", "a/b", "a b"] {
            assert!(files(&dir).keep(name, ORIGIN, "sk-one-two-3").is_err(), "{name:?}");
        }
    }
}
