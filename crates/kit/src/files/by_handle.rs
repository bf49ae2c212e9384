//! Folders and names by handle: no symlink on the way is followed, and no file is replaced by a rename.

use std::{
    ffi::OsStr,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Component, Path},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, open, openat, renameat, statat},
    io::Errno,
};

/// Opens the folder at this absolute path for reading; no component may be a symlink.
///
/// # Errors
/// When it does not exist, is not a folder, or a symlink lies on the way.
pub fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut handle = open("/", flags, Mode::empty())?;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{ResolveFlags, openat2};
        let below = path.strip_prefix("/").map_err(|_| io::Error::from(Errno::INVAL))?;
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match openat2(&handle, below, flags, Mode::empty(), resolve) {
            Ok(handle) => return Ok(handle),
            // Kernels before 5.6, and filters that know no such call.
            Err(Errno::NOSYS | Errno::PERM) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    for component in path.components() {
        match component {
            Component::Normal(name) => handle = openat(&handle, name, flags, Mode::empty())?,
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(Errno::INVAL.into()),
        }
    }
    Ok(handle)
}

/// Renames a file, if the new name is free.
///
/// # Errors
/// Those of the system, also when the new name exists.
pub fn rename_to_free_name(
    folder: impl AsFd,
    name: &OsStr,
    new_folder: impl AsFd,
    new_name: &OsStr,
) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        match renameat_with(&folder, name, &new_folder, new_name, RenameFlags::NOREPLACE) {
            // Some file systems don't know the flag.
            Err(Errno::INVAL | Errno::NOSYS) => {}
            done => return Ok(done?),
        }
    }
    match statat(&new_folder, new_name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(renameat(&folder, name, &new_folder, new_name)?),
        Err(errno) => Err(errno.into()),
        Ok(_) => Err(Errno::EXIST.into()),
    }
}
