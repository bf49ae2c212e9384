//! Atomic, durable, compare-and-swap writes.
//!
//! haft writes the new content to an unnamed file, makes it durable, and only then links it to the name; the
//! old content stays whole until that moment. A reader sees either the one or the other, after a crash too.

use std::{
    ffi::{OsStr, OsString},
    io::Read,
    os::fd::OwnedFd,
    thread,
};

use rustix::{
    fs::{
        Access, AtFlags, Mode, OFlags, accessat, fstat, fsync, mkdirat, openat, renameat, statat, unlinkat,
    },
    io::Errno,
};

use super::{
    Files, Identity, Loaded, Location,
    open::open_regular,
    roots::{Opened, refused},
    unnamed_file::{Nameless, temporary_name},
};
use crate::{Fault, Kind, services::After, text::Content};

/// The state of the file on which a change was planned. The change is applied only to that state.
#[derive(Clone, Copy)]
pub enum Before<'a> {
    /// It did not exist.
    Absent,
    /// It was in this state.
    Was(&'a Loaded),
}

/// A change that has landed and is durable.
#[derive(Debug)]
pub struct Saved {
    /// Its place.
    pub location: Location,
    /// The new file's identity.
    pub identity: Identity,
}

impl Files {
    /// Replaces a file's content, atomically and durably. Missing folders are created; mode and owner are kept.
    ///
    /// # Errors
    /// [`Kind::Stale`] when the file is no longer as `before` says, [`Kind::Denied`] outside the grants,
    /// [`Kind::Cancelled`] when the call was stopped, and those of the disk. In each case the file is
    /// unchanged.
    pub fn save(&self, path: &str, before: Before<'_>, content: impl Into<Content>) -> Result<Saved, Fault> {
        self.put(path, before, &content.into(), None)
    }

    /// Creates a new file with the content and the permissions of a loaded one.
    ///
    /// # Errors
    /// Those of [`save`](Self::save).
    pub fn save_copy(&self, path: &str, of: &Loaded) -> Result<Saved, Fault> {
        // Set-user-ID and set-group-ID bits are not copied.
        let mode = Mode::from_raw_mode(of.mode.as_raw_mode() & 0o777);
        self.put(path, Before::Absent, &of.bytes, Some(mode))
    }

    fn put(
        &self,
        path: &str,
        before: Before<'_>,
        content: &Content,
        mode: Option<Mode>,
    ) -> Result<Saved, Fault> {
        if self.is_reviewed() {
            self.review(path, before, After::Holds(content), Some(content.digest()))?;
        }
        let _inside = self.begin_change()?;
        let opened = self.resolve(path)?;
        let location = opened.location.clone();
        self.may_write(path, &location)?;
        self.refuse_unsaved(path, &opened)?;
        let (dir, name) = match before {
            Before::Absent => make_folders(path, &opened)?,
            Before::Was(_) if opened.found.rest.is_empty() => {
                (folder(&opened.found.dir, path)?, opened.name())
            }
            Before::Was(_) => return Err(moved_on(path)),
        };
        check_before(&dir, &name, path, &location, before)?;
        let old = match before {
            Before::Absent => None,
            Before::Was(loaded) => Some(&loaded.bytes),
        };
        let keep = || self.inner.history.keep(&location.absolute(), old, Some(content));
        let new = while_keeping(keep, || match before {
            Before::Absent => Nameless::new(&dir, content),
            Before::Was(old) => Nameless::instead_of(&dir, &name, old, content),
        })?
        .map_err(|errno| failed(path, errno))?;
        if let Some(mode) = mode {
            new.set_mode(mode).map_err(|errno| failed(path, errno))?;
        }
        let identity = match before {
            Before::Absent => create(&dir, &name, &new).map_err(|errno| failed(path, errno))?,
            Before::Was(loaded) => replace(&dir, &name, path, loaded, &new)?,
        };
        self.inner.history.landed(&location.absolute(), old, After::Holds(content));
        Ok(Saved { location, identity })
    }

    /// Removes a file.
    ///
    /// # Errors
    /// Those of [`save`](Self::save).
    pub fn remove(&self, path: &str, before: &Loaded) -> Result<(), Fault> {
        if self.is_reviewed() {
            self.review(path, Before::Was(before), After::Gone, None)?;
        }
        let _inside = self.begin_change()?;
        let opened = self.resolve(path)?;
        self.may_write(path, &opened.location)?;
        self.refuse_unsaved(path, &opened)?;
        let dir = folder(&opened.found.dir, path)?;
        let name = opened.name();
        check_before(&dir, &name, path, &opened.location, Before::Was(before))?;
        self.inner.history.keep(&opened.location.absolute(), Some(&before.bytes), None)?;
        unlinkat(&dir, &name, AtFlags::empty())
            .and_then(|()| fsync(&dir))
            .map_err(|errno| failed(path, errno))?;
        self.inner.history.landed(&opened.location.absolute(), Some(&before.bytes), After::Gone);
        Ok(())
    }

    pub(super) fn begin_change(&self) -> Result<super::cancellation::Inside<'_>, Fault> {
        self.inner.gate.enter().ok_or_else(|| {
            Fault::new(
                Kind::Cancelled,
                "the call was stopped before it changed anything; the file is as it was",
            )
        })
    }
}

/// Runs both at once; returns the result of the work if the old content could be kept. Keeping it takes about
/// as long as writing the new one.
fn while_keeping<T>(
    keep: impl Fn() -> Result<(), Fault> + Sync,
    work: impl FnOnce() -> T,
) -> Result<T, Fault> {
    thread::scope(|scope| {
        let keeping = thread::Builder::new().name("haft-keep".to_owned()).spawn_scoped(scope, &keep);
        let done = work();
        match keeping {
            Ok(keeping) => {
                keeping.join().unwrap_or_else(|_| Err(Fault::bug("keeping the old content panicked")))
            }
            // No thread can be started: one after the other.
            Err(_) => keep(),
        }?;
        Ok(done)
    })
}

/// Checks that the file is as it was when the change was planned; returns its mode, if it exists.
pub(super) fn check_before(
    dir: &OwnedFd,
    name: &OsStr,
    path: &str,
    location: &Location,
    before: Before<'_>,
) -> Result<Option<Mode>, Fault> {
    match (before, statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)) {
        (Before::Absent, Err(Errno::NOENT)) => Ok(None),
        (Before::Absent, Ok(_)) => Err(came_to_be(path)),
        (Before::Was(loaded), Ok(now)) => {
            let identity = Identity::of(&now);
            let unchanged = identity == loaded.identity
                // Something about it changed: its mode or its names perhaps, or its bytes by a program that
                // restored the time. Only the bytes can decide.
                || (identity.is_but_for_change(&loaded.identity) && holds(dir, name, &loaded.bytes));
            if !unchanged || !loaded.location.is(location) {
                return Err(moved_on(path));
            }
            accessat(dir, name, Access::WRITE_OK, AtFlags::EACCESS)
                .map_err(|errno| refused(path, "change", errno.into()))?;
            Ok(Some(Mode::from_raw_mode(now.st_mode)))
        }
        (Before::Was(_), Err(Errno::NOENT)) => Err(moved_on(path)),
        (_, Err(errno)) => Err(refused(path, "change", errno.into())),
    }
}

/// Checks that the file is as it was, as far as possible before the change begins.
pub(super) fn still(path: &str, opened: &Opened, before: Before<'_>) -> Result<(), Fault> {
    match before {
        Before::Absent if opened.exists() => Err(came_to_be(path)),
        Before::Absent => Ok(()),
        Before::Was(_) if !opened.found.rest.is_empty() => Err(moved_on(path)),
        Before::Was(_) => {
            let dir = folder(&opened.found.dir, path)?;
            check_before(&dir, &opened.name(), path, &opened.location, before).map(drop)
        }
    }
}

/// Returns whether the file holds exactly these bytes.
fn holds(dir: &OwnedFd, name: &OsStr, bytes: &[u8]) -> bool {
    let mut now = Vec::with_capacity(bytes.len() + 1);
    open_regular(dir, name).is_ok_and(|(file, _)| {
        file.take(bytes.len() as u64 + 1).read_to_end(&mut now).is_ok() && now == bytes
    })
}

pub(super) fn moved_on(path: &str) -> Fault {
    Fault::new(Kind::Stale, format!("`{path}` was changed by another program just now; nothing was written"))
        .next("Read it again, then repeat the change.".to_owned())
}

fn came_to_be(path: &str) -> Fault {
    Fault::new(Kind::Stale, format!("`{path}` exists; it was created just now by another program"))
        .next("Read it first.".to_owned())
}

pub(super) fn failed(path: &str, errno: Errno) -> Fault {
    let mut fault = refused(path, "write", errno.into());
    fault.what.push_str("; nothing was changed");
    fault
}

/// Opens a handle that supports fsync; the `O_PATH` handle that resolution returns does not.
pub(super) fn folder(dir: &OwnedFd, path: &str) -> Result<OwnedFd, Fault> {
    openat(dir, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| refused(path, "write", errno.into()))
}

/// Creates the missing folders on the way; returns the last one and the name in it.
pub(super) fn make_folders(path: &str, opened: &Opened) -> Result<(OwnedFd, OsString), Fault> {
    let mut dir = folder(&opened.found.dir, path)?;
    let Some(first) = &opened.found.name else {
        return Err(Fault::bad_args(format!("`{path}` is a folder; name a file in it")));
    };
    let mut name = first.clone();
    for next in &opened.found.rest {
        match mkdirat(&dir, &name, Mode::from_raw_mode(0o777)) {
            Ok(()) => fsync(&dir).map_err(|errno| failed(path, errno))?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(refused(path, "make the folder of", errno.into())),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        dir = openat(&dir, &name, flags, Mode::empty())
            .map_err(|errno| refused(path, "make the folder of", errno.into()))?;
        name.clone_from(next);
    }
    Ok((dir, name))
}

/// Links a new file to its name, whole or not at all, and never over another file.
pub(super) fn create(dir: &OwnedFd, name: &OsStr, new: &Nameless) -> Result<Identity, Errno> {
    new.link(dir, name)?;
    fsync(dir)?;
    Ok(Identity::of(&fstat(&new.file)?))
}

/// Replaces the file of an existing name.
pub(super) fn replace(
    dir: &OwnedFd,
    name: &OsStr,
    path: &str,
    old: &Loaded,
    new: &Nameless,
) -> Result<Identity, Fault> {
    let temporary = temporary_name();
    new.link(dir, &temporary).map_err(|errno| failed(path, errno))?;
    let swapped = check_before(dir, name, path, &old.location, Before::Was(old)).and_then(|mode| {
        if let Some(mode) = mode.filter(|mode| *mode != old.mode) {
            new.set_mode(mode).map_err(|errno| failed(path, errno))?;
        }
        // If another program puts another file under this name at exactly this moment, that file is lost. To
        // exchange the names and check again would close that gap, and costs every edit a full commit of the
        // file system's journal: twice the time.
        renameat(dir, &temporary, dir, name).map_err(|errno| failed(path, errno))
    });
    if let Err(fault) = swapped {
        let _ = unlinkat(dir, &temporary, AtFlags::empty());
        return Err(fault);
    }
    fsync(dir).map_err(|errno| refused(path, "make durable the change of", errno.into()))?;
    let stat = fstat(&new.file).map_err(|errno| refused(path, "read", errno.into()))?;
    Ok(Identity::of(&stat))
}
