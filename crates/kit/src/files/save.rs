//! How does a file get new content, all of it or none?
//!
//! The new content is written to a file without a name, made durable, and only then
//! given the name; the old content stays whole until that moment. A reader sees the
//! one or the other, and so does whoever looks after a crash.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use rustix::{
    fs::{
        Access, AtFlags, CWD, Dir, Gid, Mode, OFlags, Uid, accessat, fchmod, fchown, fstat, fsync, linkat,
        mkdirat, openat, renameat, statat, unlinkat,
    },
    io::Errno,
    process::{Pid, test_kill_process},
};

use super::{
    Files, Identity, Loaded, Location, Roots,
    roots::{Opened, refused},
};
use crate::{Fault, Kind, text::Content};

/// What the file held when the change was planned. The change lands only on that.
#[derive(Clone, Copy)]
pub enum Before<'a> {
    /// There was no such file.
    Absent,
    /// It was in this state.
    Was(&'a Loaded),
}

/// A change that has landed and is durable.
#[derive(Debug)]
pub struct Saved {
    /// Where.
    pub location: Location,
    /// The file as it is now.
    pub identity: Identity,
}

impl Files {
    /// Gives a file new content, atomically and durably. Folders on the way are made.
    /// Mode and owner stay as they were.
    ///
    /// # Errors
    /// [`Kind::Stale`] when the file is no longer as `before` says, [`Kind::Denied`]
    /// outside the grants, [`Kind::Cancelled`] when the call was stopped; the file is
    /// then as it was. Those of the disk likewise.
    pub fn save(&self, path: &str, before: Before<'_>, content: impl Into<Content>) -> Result<Saved, Fault> {
        let content = content.into();
        let _inside = self.begin_change()?;
        let opened = self.resolve(path)?;
        let location = opened.location.clone();
        self.may_write(path, &location)?;
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
        let keep = || self.inner.history.keep(&location.absolute(), old, Some(&content));
        let new =
            while_keeping(keep, || fresh(&dir, before, &content))?.map_err(|errno| failed(path, errno))?;
        let identity = match before {
            Before::Absent => create(&dir, &name, &new).map_err(|errno| failed(path, errno))?,
            Before::Was(loaded) => replace(&dir, &name, path, loaded, &new)?,
        };
        Ok(Saved { location, identity })
    }

    /// Removes a file.
    ///
    /// # Errors
    /// Those of [`save`](Self::save).
    pub fn remove(&self, path: &str, before: &Loaded) -> Result<(), Fault> {
        let _inside = self.begin_change()?;
        let opened = self.resolve(path)?;
        self.may_write(path, &opened.location)?;
        let dir = folder(&opened.found.dir, path)?;
        let name = opened.name();
        check_before(&dir, &name, path, &opened.location, Before::Was(before))?;
        self.inner.history.keep(&opened.location.absolute(), Some(&before.bytes), None)?;
        unlinkat(&dir, &name, AtFlags::empty())
            .and_then(|()| fsync(&dir))
            .map_err(|errno| failed(path, errno))
    }

    fn begin_change(&self) -> Result<super::gate::Inside<'_>, Fault> {
        self.inner.gate.enter().ok_or_else(|| {
            Fault::new(
                Kind::Cancelled,
                "the call was stopped before it changed anything; the file is as it was",
            )
        })
    }
}

/// Runs both at once, and gives what the work gave if what was to be kept is kept. To
/// keep the old content takes about as long as the disk needs for the new.
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
            // No thread is to be had; then one after the other.
            Err(_) => keep(),
        }?;
        Ok(done)
    })
}

/// The file must be as it was when the change was planned.
fn check_before(
    dir: &OwnedFd,
    name: &OsStr,
    path: &str,
    location: &Location,
    before: Before<'_>,
) -> Result<(), Fault> {
    match (before, statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)) {
        (Before::Absent, Err(Errno::NOENT)) => Ok(()),
        (Before::Absent, Ok(_)) => Err(came_to_be(path)),
        (Before::Was(loaded), Ok(now)) => {
            let unchanged = same_bytes(&Identity::of(&now), &loaded.identity) && loaded.location.is(location);
            if !unchanged {
                return Err(moved_on(path));
            }
            accessat(dir, name, Access::WRITE_OK, AtFlags::EACCESS)
                .map_err(|errno| refused(path, "change", errno.into()))
        }
        (Before::Was(_), Err(Errno::NOENT)) => Err(moved_on(path)),
        (_, Err(errno)) => Err(refused(path, "change", errno.into())),
    }
}

/// The number of links may change without a byte of it changing, and so may the mode.
fn same_bytes(now: &Identity, then: &Identity) -> bool {
    Identity { changed_ns: then.changed_ns, ..*now } == *then
}

fn moved_on(path: &str) -> Fault {
    Fault::new(Kind::Stale, format!("`{path}` was changed by another program just now; nothing was written"))
        .next("Read it again, then repeat the change.".to_owned())
}

fn came_to_be(path: &str) -> Fault {
    Fault::new(Kind::Stale, format!("`{path}` exists; it was created just now by another program"))
        .next("Read it first.".to_owned())
}

fn failed(path: &str, errno: Errno) -> Fault {
    let mut fault = refused(path, "write", errno.into());
    fault.what.push_str("; nothing was changed");
    fault
}

/// A handle that can be made durable; the one that paths are resolved to can't.
fn folder(dir: &OwnedFd, path: &str) -> Result<OwnedFd, Fault> {
    openat(dir, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| refused(path, "write", errno.into()))
}

/// Makes the folders that are missing on the way; gives the last one and the name in it.
fn make_folders(path: &str, opened: &Opened) -> Result<(OwnedFd, OsString), Fault> {
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

/// The new content, durable and without a name. It has the mode and owner of what it replaces.
fn fresh(dir: &OwnedFd, before: Before<'_>, bytes: &[u8]) -> Result<Nameless, Errno> {
    let Before::Was(old) = before else {
        return Nameless::write(dir, Mode::from_raw_mode(0o666), |file| write_all(file, bytes));
    };
    Nameless::write(dir, Mode::from_raw_mode(0o600), |file| {
        write_all(file, bytes)?;
        let now = fstat(file)?;
        if (now.st_uid, now.st_gid) != old.owner {
            // Only root may give files away; for others the file becomes theirs, as with any editor.
            let _ = fchown(file, Some(Uid::from_raw(old.owner.0)), Some(Gid::from_raw(old.owner.1)));
        }
        fchmod(file, Mode::from_raw_mode(old.mode.as_raw_mode() & 0o7777))
    })
}

/// A new file, which appears whole or not at all, and never over another.
fn create(dir: &OwnedFd, name: &OsStr, new: &Nameless) -> Result<Identity, Errno> {
    new.link(dir, name)?;
    fsync(dir)?;
    Ok(Identity::of(&fstat(&new.file)?))
}

/// New content under an old name.
fn replace(dir: &OwnedFd, name: &OsStr, path: &str, old: &Loaded, new: &Nameless) -> Result<Identity, Fault> {
    let temporary = temporary_name();
    new.link(dir, &temporary).map_err(|errno| failed(path, errno))?;
    if let Err(fault) = check_before(dir, name, path, &old.location, Before::Was(old))
        .and_then(|()| swap_in(dir, &new, &temporary, path, name, old))
    {
        let _ = unlinkat(dir, &temporary, AtFlags::empty());
        return Err(fault);
    }
    fsync(dir).map_err(|errno| refused(path, "make durable the change of", errno.into()))?;
    let stat = fstat(&new.file).map_err(|errno| refused(path, "read", errno.into()))?;
    Ok(Identity::of(&stat))
}

/// Gives the new file its name. Where the system can exchange two names, what the name
/// held until then is looked at once more, now that nobody can put another in its place:
/// if it is not the file that the change was planned on, the names are exchanged back.
fn swap_in(
    dir: &OwnedFd,
    new: &Nameless,
    temporary: &OsStr,
    path: &str,
    name: &OsStr,
    old: &Loaded,
) -> Result<(), Fault> {
    #[cfg(target_os = "linux")]
    {
        let exchange =
            || rustix::fs::renameat_with(dir, temporary, dir, name, rustix::fs::RenameFlags::EXCHANGE);
        let holds = |stat: Result<rustix::fs::Stat, Errno>, wanted: &Identity| {
            stat.is_ok_and(|stat| same_bytes(&Identity::of(&stat), wanted))
        };
        let put_aside = || statat(dir, temporary, AtFlags::SYMLINK_NOFOLLOW);
        match exchange() {
            Ok(()) if holds(put_aside(), &old.identity) => {
                return unlinkat(dir, temporary, AtFlags::empty()).map_err(|errno| failed(path, errno));
            }
            Ok(()) => {
                exchange().map_err(|errno| failed(path, errno))?;
                let ours = fstat(&new.file).map_err(|errno| failed(path, errno))?;
                if holds(put_aside(), &Identity::of(&ours)) {
                    return Err(moved_on(path));
                }
                // The name changed hands between the two exchanges. What we hold now is
                // somebody's file, so it is kept where it can be found.
                let kept = format!("{}.kept-{}", name.to_string_lossy(), std::process::id());
                renameat(dir, temporary, dir, &*kept).map_err(|errno| failed(path, errno))?;
                return Err(Fault::new(
                    Kind::Stale,
                    format!(
                        "`{path}` changes hands too fast to be changed safely; a file that had this name is kept beside it as `{kept}`"
                    ),
                ));
            }
            // The name has gone.
            Err(Errno::NOENT) => return Err(moved_on(path)),
            // The file system can't exchange.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(failed(path, errno)),
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (new, old);
    renameat(dir, temporary, dir, name).map_err(|errno| failed(path, errno))
}

/// A file that has content but, where the system allows it, no name yet: should we
/// die now, nothing of it is left.
struct Nameless {
    file: OwnedFd,
    /// The name it has after all, where files without one are not to be had.
    name: Option<(OwnedFd, OsString)>,
}

impl Nameless {
    fn write(
        dir: &OwnedFd,
        mode: Mode,
        fill: impl FnOnce(&OwnedFd) -> Result<(), Errno>,
    ) -> Result<Self, Errno> {
        let new = Self::open(dir, mode)?;
        fill(&new.file)?;
        fsync(&new.file)?;
        Ok(new)
    }

    fn open(dir: &OwnedFd, mode: Mode) -> Result<Self, Errno> {
        #[cfg(target_os = "linux")]
        match openat(dir, ".", OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, mode) {
            // Without /proc it could not be given a name later.
            Ok(file) if statat(CWD, fd_path(&file), AtFlags::empty()).is_ok() => {
                return Ok(Self { file, name: None });
            }
            Ok(_) | Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {}
            Err(errno) => return Err(errno),
        }
        let name = temporary_name();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(dir, &name, flags, mode)?;
        let dir = dir.try_clone().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        Ok(Self { file, name: Some((dir, name)) })
    }

    /// Gives it a name that nothing has.
    fn link(&self, dir: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
        match &self.name {
            None => linkat(CWD, fd_path(&self.file), dir, name, AtFlags::SYMLINK_FOLLOW),
            Some((at, old)) => linkat(at, old, dir, name, AtFlags::empty()),
        }
    }
}

impl Drop for Nameless {
    fn drop(&mut self) {
        if let Some((dir, name)) = &self.name {
            let _ = unlinkat(dir, name, AtFlags::empty());
        }
    }
}

fn fd_path(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn write_all(file: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
    let file = file.as_fd().try_clone_to_owned().map_err(|error| errno_of(&error))?;
    std::fs::File::from(file).write_all(bytes).map_err(|error| errno_of(&error))
}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// What a temporary name begins with; the number of the process follows.
const TEMPORARY: &str = ".haft-";

fn temporary_name() -> OsString {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{TEMPORARY}{}-{:x}{count:x}", std::process::id(), now.as_nanos()).into()
}

/// Is this the name of a temporary file whose process is dead?
fn is_leftover(name: &OsStr) -> bool {
    let process =
        name.to_str().and_then(|name| name.strip_prefix(TEMPORARY)).and_then(|rest| rest.split_once('-'));
    let Some(process) = process.and_then(|(number, _)| number.parse().ok()).and_then(Pid::from_raw) else {
        return false;
    };
    test_kill_process(process) == Err(Errno::SRCH)
}

impl Roots {
    /// Removes what a process that died may have left beside `path`, which it was about to change.
    pub fn sweep(&self, path: &str) {
        let Ok(opened) = self.resolve(path) else { return };
        let Ok(dir) = folder(&opened.found.dir, path) else { return };
        let Ok(entries) = Dir::read_from(&dir) else { return };
        for entry in entries.flatten() {
            let name = OsString::from(entry.file_name().to_string_lossy().into_owned());
            if is_leftover(&name) {
                let _ = unlinkat(&dir, &name, AtFlags::empty());
            }
        }
    }
}
