//! A client's configuration file: written atomically, refused if it changed meanwhile, with a copy of the old version.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use kit::{Fault, Kind};

/// A larger file is not a configuration.
const LARGEST: u64 = 64 << 20;

const MARK: &str = "\u{feff}";

/// A configuration as it is now.
pub(super) struct File {
    /// The resolved path: a configuration may be a symlink into another folder.
    path: PathBuf,
    /// Its text and permissions; `None` if there is no file.
    was: Option<(String, Permissions)>,
}

impl File {
    /// # Errors
    /// When the file exists and can't be read as text.
    pub(super) fn read(path: &Path) -> Result<Self, Fault> {
        let cant = |why: &dyn std::fmt::Display| {
            Fault::new(
                Kind::Unavailable,
                format!("`{}` can't be read and was not changed: {why}", path.display()),
            )
        };
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
                return Ok(Self { path: path.to_owned(), was: None });
            }
            Err(error) => return Err(cant(&error)),
        };
        let about = fs::metadata(&real).map_err(|error| cant(&error))?;
        if !about.is_file() {
            return Err(cant(&"it is not a file"));
        }
        if about.len() > LARGEST {
            return Err(cant(&format!("it has {} bytes", about.len())));
        }
        let text = fs::read_to_string(&real).map_err(|error| cant(&error))?;
        Ok(Self { path: real, was: Some((text, about.permissions())) })
    }

    /// Returns the text, without the byte order mark that some editors write.
    pub(super) fn text(&self) -> &str {
        let text = self.was.as_ref().map_or("", |(text, _)| text);
        text.strip_prefix(MARK).unwrap_or(text)
    }

    /// Copies the current file to `folder`, readable by the person only; returns the path of the copy, if there is a file.
    ///
    /// # Errors
    /// When the copy can't be written.
    pub(super) fn keep(&self, folder: &Path, name: &str) -> Result<Option<PathBuf>, Fault> {
        let Some((text, _)) = &self.was else { return Ok(None) };
        let kept = folder.join(name);
        folders(folder)
            .and_then(|()| place(&kept, text.as_bytes(), Permissions::from_mode(0o600)))
            .map_err(|error| cant_write(&kept, &error))?;
        Ok(Some(kept))
    }

    /// Writes the new text atomically.
    ///
    /// # Errors
    /// When the file changed since it was read, or can't be written.
    pub(super) fn write(&self, text: &str) -> Result<(), Fault> {
        let now = fs::read_to_string(&self.path).ok();
        if now.as_ref() != self.was.as_ref().map(|(was, _)| was) {
            let what = format!(
                "`{}` was changed by another program just now; nothing was written",
                self.path.display()
            );
            return Err(Fault::new(Kind::Stale, what).next("Run the command again."));
        }
        let marked = self.was.as_ref().is_some_and(|(was, _)| was.starts_with(MARK));
        let bytes = format!("{}{text}", if marked { MARK } else { "" });
        let mode = self.was.as_ref().map_or_else(|| Permissions::from_mode(0o644), |(_, mode)| mode.clone());
        self.path
            .parent()
            .map_or(Ok(()), folders)
            .and_then(|()| place(&self.path, bytes.as_bytes(), mode))
            .map_err(|error| cant_write(&self.path, &error))
    }
}

fn cant_write(path: &Path, error: &io::Error) -> Fault {
    Fault::new(Kind::Unavailable, format!("`{}` can't be written: {error}", path.display()))
}

fn folders(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() { Ok(()) } else { fs::create_dir_all(folder) }
}

/// Replaces a file atomically: a reader sees the old content or the new one.
fn place(path: &Path, bytes: &[u8], mode: Permissions) -> io::Result<()> {
    let name = path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let beside = path.with_file_name(format!(".{name}.haft-{}", std::process::id()));
    let written =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).and_then(|mut file| {
            file.write_all(bytes)?;
            file.set_permissions(mode)?;
            file.sync_all()
        });
    let placed = written.and_then(|()| fs::rename(&beside, path));
    if placed.is_err() {
        // The temporary file may not exist; then there is nothing to remove.
        let _ = fs::remove_file(&beside);
    }
    placed
}
