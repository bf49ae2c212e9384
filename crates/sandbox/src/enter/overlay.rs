//! Overlays of a preview: roots whose changes go to a file system in memory.
//!
//! The folders with the changes lie on a tmpfs that is mounted nowhere once the sandbox is built: commands have
//! no path to it. Only its handle remains, which haft gets.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{
        CWD, Mode, OFlags, Timespec, Timestamps, XattrFlags, fchmod, fsetxattr, fstat, futimens, mkdirat,
        openat,
    },
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
        fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, unmount,
    },
};

use super::{At, DetachedMount, private};
use crate::{
    layout::What,
    plan::{Part, Trouble},
    preview,
};

/// Replaces the held folder of each overlay by the overlay; returns the folder with all changes. `spot` is a
/// folder over which it is mounted meanwhile.
pub(super) fn mount(held: &mut [DetachedMount<'_>], spot: &str) -> Result<Option<OwnedFd>, Trouble> {
    if !held.iter().any(|it| matches!(it.mount.what, What::Overlay { .. })) {
        return Ok(None);
    }
    let files = private(preview::space(), 0o700).at(Part::Overlay, "the memory for changes")?;
    // Older kernels make no overlay of a mount that is not attached.
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(&files, "", CWD, spot, flags).at(Part::Overlay, "the memory for changes")?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let uppers = openat(&files, ".", flags, Mode::empty()).at(Part::Overlay, "the memory for changes")?;
    let overlays = held.iter_mut().filter(|it| matches!(it.mount.what, What::Overlay { .. }));
    for (number, one) in overlays.enumerate() {
        let Some(lower) = one.tree.take() else { continue };
        let step = format!("the overlay of {}", one.mount.at.display());
        one.tree = Some(overlay(&uppers, number, &lower).at(Part::Overlay, &step)?);
    }
    unmount(spot, UnmountFlags::DETACH).at(Part::Overlay, "the memory for changes")?;
    Ok(Some(uppers))
}

fn overlay(uppers: &OwnedFd, number: usize, lower: &OwnedFd) -> io::Result<OwnedFd> {
    let (upper, work) = preview::folders(number);
    let upper = folder(uppers, &upper)?;
    let work = folder(uppers, &work)?;
    like(&upper, lower)?;
    // Without such attributes a folder that is deleted and made again would show its old files.
    fsetxattr(&upper, "user.haft", b"", XattrFlags::empty()).map_err(|error| {
        io::Error::other(format!("tmpfs has no extended attributes here (Linux 6.6 and later have): {error}"))
    })?;
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_flag(context.as_fd(), "userxattr")?;
    for (key, folder) in [("lowerdir", lower), ("upperdir", &upper), ("workdir", &work)] {
        // A path would need escapes, and could be another folder by now.
        fsconfig_set_string(context.as_fd(), key, format!("/proc/self/fd/{}", folder.as_raw_fd()))?;
    }
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOSUID;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

fn folder(uppers: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    mkdirat(uppers, name, Mode::from(0o700))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(uppers, Path::new(name), flags, Mode::empty())?)
}

/// Gives the upper folder mode and times of the lower one: an overlay's own folder shows those of the upper.
fn like(upper: &OwnedFd, lower: &OwnedFd) -> io::Result<()> {
    let about = fstat(lower)?;
    fchmod(upper, Mode::from_raw_mode(about.st_mode & 0o7777))?;
    let time = |seconds, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanoseconds).unwrap_or_default(),
    };
    let times = Timestamps {
        last_access: time(about.st_atime, about.st_atime_nsec),
        last_modification: time(about.st_mtime, about.st_mtime_nsec),
    };
    Ok(futimens(upper, &times)?)
}
