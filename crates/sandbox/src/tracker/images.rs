//! Images: the contents of files as they were.

use std::{fs::File, io, os::fd::OwnedFd};

use kit::{deliberate_faults::is_broken, files::copy_with_holes};
use rustix::{
    fs::{AtFlags, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, fstat, futimens, linkat, openat, renameat, statat, unlinkat},
    io::Errno,
};

use super::log::{Place, identity};

/// A larger file is copied by a thread of its own.
const LARGE: u64 = 8 << 20;

/// The fault by which each copy takes long: a test would have to write gigabytes for copies that overlap.
const FAST_COPIES: &str = "fast-copies";

/// The outcome of a copy.
pub(super) enum Copied {
    Done,
    /// It takes long: nothing was made.
    Long,
}

/// Keeps the file by a further name. Fails across file systems and mounts, and for the file of another user.
pub(super) fn link(place: &Place, there: &Stat, images: &OwnedFd, number: u64) -> Result<(), Errno> {
    let name = number.to_string();
    linkat(&place.folder, &place.name, images, &name, AtFlags::empty())?;
    match statat(images, &name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(here) if identity(&here) == identity(there) => Ok(()),
        here => {
            let _ = unlinkat(images, &name, AtFlags::empty());
            Err(here.err().unwrap_or(Errno::AGAIN))
        }
    }
}

/// Copies the file, sharing its blocks where the file system can.
pub(super) fn copy(
    place: &Place,
    there: &Stat,
    images: &OwnedFd,
    number: u64,
    may_be_long: bool,
) -> io::Result<Copied> {
    copy_to(place, there, images, &number.to_string(), may_be_long)
}

/// The same to this name.
pub(super) fn copy_to(
    place: &Place,
    there: &Stat,
    images: &OwnedFd,
    name: &str,
    may_be_long: bool,
) -> io::Result<Copied> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let from = File::from(openat(&place.folder, &place.name, flags, Mode::empty())?);
    let here = fstat(&from)?;
    if identity(&here) != identity(there) {
        return Err(Errno::AGAIN.into());
    }
    copy_open(&from, &here, images, name, may_be_long)
}

fn copy_open(from: &File, there: &Stat, images: &OwnedFd, name: &str, may_be_long: bool) -> io::Result<Copied> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let to = File::from(openat(images, name, flags, Mode::from_raw_mode(0o600))?);
    let copied = match rustix::fs::ioctl_ficlone(&to, from) {
        Ok(()) => Ok(Copied::Done),
        Err(_) if is_long(there) && !may_be_long => Ok(Copied::Long),
        Err(_) => {
            if is_broken(FAST_COPIES) {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            copy_with_holes(from, &to, u64::MAX).map(|_| Copied::Done)
        }
    };
    match copied {
        Ok(Copied::Done) => {
            let modified =
                Timespec { tv_sec: there.st_mtime as _, tv_nsec: there.st_mtime_nsec as _ };
            let kept = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
            futimens(&to, &Timestamps { last_access: kept, last_modification: modified })?;
            Ok(Copied::Done)
        }
        copied => {
            let _ = unlinkat(images, name, AtFlags::empty());
            copied
        }
    }
}

/// Returns whether the copy of a file may take long.
fn is_long(there: &Stat) -> bool {
    there.st_size.cast_unsigned() > if is_broken(FAST_COPIES) { 0 } else { LARGE }
}

/// Replaces an image that is the file itself by a copy of it.
pub(super) fn unshare(images: &OwnedFd, number: u64) -> io::Result<()> {
    let (name, copy) = (number.to_string(), format!("{number}.copy"));
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let from = File::from(openat(images, &name, flags, Mode::empty())?);
    let there = fstat(&from)?;
    copy_open(&from, &there, images, &copy, true)?;
    Ok(renameat(images, &copy, images, &name)?)
}
