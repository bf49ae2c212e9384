//! Incoming files of any size: written piece by piece, visible whole or not at all.

use std::{ffi::OsString, os::fd::OwnedFd};

use rustix::fs::{Mode, fstatvfs, fsync};

use super::{
    Before, Files, Identity, Loaded, Saved,
    save::{check_before, create, failed, folder, make_folders, moved_on, replace},
    unnamed_file::Nameless,
};
use crate::{Fault, Kind, services::After};

/// A larger file is not replaced, because its content is kept for undo.
const MOST_BEFORE: u64 = 256 << 20;

/// Free disk space that writing must leave, in bytes.
const LEFT_FREE: u64 = 256 << 20;

/// Interval at which free disk space is checked, in bytes written.
const LOOK: u64 = 16 << 20;

/// New content of a file that is still arriving. Until it is [finished](Self::finish) nothing has changed; if
/// it is dropped, nothing is left of it.
pub struct Incoming {
    files: Files,
    path: String,
    old: Option<Loaded>,
    new: Nameless,
    digest: blake3::Hasher,
    written: u64,
}

impl Files {
    /// Starts to replace a file's content; the change is planned on its present content.
    ///
    /// # Errors
    /// [`Kind::Denied`] outside the grants, [`Kind::TooBig`] for a file that is too large to be replaced
    /// undoably, and those of the disk.
    pub fn begin(&self, path: &str) -> Result<Incoming, Fault> {
        let old = match self.load(path, MOST_BEFORE) {
            Ok(old) => Some(old),
            Err(fault) if fault.kind == Kind::NotFound => None,
            Err(fault) if fault.kind == Kind::TooBig => {
                return Err(Fault::new(
                    Kind::TooBig,
                    format!("`{path}` exists and is too large to be replaced"),
                )
                .next("Choose another name."));
            }
            Err(fault) => return Err(fault),
        };
        let opened = self.resolve(path)?;
        self.may_write(path, &opened.location)?;
        let dir = folder(&opened.found.dir, path)?;
        let mode = if old.is_some() { 0o600 } else { 0o666 };
        let new = Nameless::begin(&dir, Mode::from_raw_mode(mode)).map_err(|errno| failed(path, errno))?;
        let digest = blake3::Hasher::new();
        Ok(Incoming { files: self.clone(), path: path.to_owned(), old, new, digest, written: 0 })
    }
}

impl Incoming {
    /// Appends these bytes.
    ///
    /// # Errors
    /// Those of the disk, also if it would be full.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let before = self.written;
        self.written += bytes.len() as u64;
        if before / LOOK != self.written / LOOK
            && let Ok(disk) = fstatvfs(&self.new.file)
            && disk.f_bavail.saturating_mul(disk.f_frsize) < LEFT_FREE
        {
            let what = format!(
                "the disk of `{}` is almost full after {before} bytes; nothing was changed",
                self.path
            );
            return Err(Fault::new(Kind::TooBig, what).next("Make room on it, or ask for a part."));
        }
        self.digest.update(bytes);
        self.new.write(bytes).map_err(|errno| failed(&self.path, errno))
    }

    /// Replaces the file's content, atomically and durably. Missing folders are created.
    ///
    /// # Errors
    /// Those of [`Files::save`].
    pub fn finish(self) -> Result<Saved, Fault> {
        let Self { files, path, old, new, digest, written } = self;
        let before = old.as_ref().map_or(Before::Absent, Before::Was);
        let after = digest.finalize().into();
        if files.is_reviewed() {
            files.review(&path, before, After::Long(written), Some(after))?;
        }
        let _inside = files.begin_change()?;
        let opened = files.resolve(&path)?;
        let location = opened.location.clone();
        files.may_write(&path, &location)?;
        files.refuse_unsaved(&path, &opened)?;
        let (dir, name): (OwnedFd, OsString) = match before {
            Before::Absent => make_folders(&path, &opened)?,
            Before::Was(_) if opened.found.rest.is_empty() => {
                (folder(&opened.found.dir, &path)?, opened.name())
            }
            Before::Was(_) => return Err(moved_on(&path)),
        };
        check_before(&dir, &name, &path, &location, before)?;
        files.inner.history.keep_long(&location.absolute(), old.as_ref().map(|it| &it.bytes), after)?;
        let identity: Identity = match &old {
            None => fsync(&new.file)
                .and_then(|()| create(&dir, &name, &new))
                .map_err(|errno| failed(&path, errno))?,
            Some(old) => {
                new.take_after(&dir, &name, old)
                    .and_then(|()| fsync(&new.file))
                    .map_err(|errno| failed(&path, errno))?;
                replace(&dir, &name, &path, old, &new)?
            }
        };
        let before = old.as_ref().map(|it| &it.bytes);
        files.inner.history.landed(&location.absolute(), before, After::Long(written));
        Ok(Saved { location, identity })
    }
}
