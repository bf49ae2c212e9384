//! Walk of a path, name by name: for paths with symlinks on the way, which lead where they lead for the process.
//!
//! The kernel follows the links of `/proc` for the thread that asks: `/proc/self` would lead to haft.

use std::{
    fs,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{FileType, Mode, OFlags, PROC_SUPER_MAGIC, fstat, fstatfs, openat, readlinkat},
    io::Errno,
};

/// The most links that are followed in one path, as in the kernel.
const LINKS: usize = 40;
/// The inode of the root folder of each `/proc`.
const ROOT_OF_PROC: u64 = 1;

/// Why a walk failed.
pub(super) enum Failed {
    /// The call itself will fail so.
    As(Errno),
    /// haft may not look into the process.
    Hidden,
}

impl From<Errno> for Failed {
    fn from(error: Errno) -> Self {
        Self::As(error)
    }
}

/// Opens what a thread has at this path, as a handle. `root` is its root, `from` the folder of a relative path.
pub(super) fn walk(
    thread: u32,
    root: BorrowedFd<'_>,
    from: BorrowedFd<'_>,
    text: &[u8],
    flags: OFlags,
) -> Result<OwnedFd, Failed> {
    let handle = OFlags::PATH | OFlags::CLOEXEC;
    let start = if text.first() == Some(&b'/') { root } else { from };
    let mut here = openat(start, ".", handle, Mode::empty())?;
    let mut rest = names(text);
    let mut followed = 0;
    while let Some(name) = rest.pop() {
        if name == b".." {
            if !is_same(here.as_fd(), root)? {
                here = openat(&here, "..", handle, Mode::empty())?;
            }
            continue;
        }
        let in_root_of_proc = is_root_of_proc(here.as_fd())?;
        if in_root_of_proc && (name == b"self" || name == b"thread-self") {
            let own = own_folder(thread, name == b"thread-self")?;
            here = openat(&here, own.as_str(), handle, Mode::empty())?;
            continue;
        }
        let next = openat(&here, name.as_slice(), handle | OFlags::NOFOLLOW, Mode::empty());
        let next = next.map_err(|error| failed(here.as_fd(), error))?;
        if !is(next.as_fd(), FileType::Symlink)? {
            here = next;
            continue;
        }
        if rest.is_empty() && flags.contains(OFlags::NOFOLLOW) && !text.ends_with(b"/") {
            return Ok(next);
        }
        followed += 1;
        if followed > LINKS {
            return Err(Errno::LOOP.into());
        }
        if is_in_proc(next.as_fd())? && !in_root_of_proc {
            // A link to what the process has open, not to a path.
            let opened = openat(&here, name.as_slice(), handle, Mode::empty());
            here = opened.map_err(|error| failed(next.as_fd(), error))?;
            continue;
        }
        let target = readlinkat(&next, "", Vec::new())?.into_bytes();
        if target.first() == Some(&b'/') {
            here = openat(root, ".", handle, Mode::empty())?;
        }
        rest.extend(names(&target));
    }
    if (flags.contains(OFlags::DIRECTORY) || text.ends_with(b"/")) && !is(here.as_fd(), FileType::Directory)? {
        return Err(Errno::NOTDIR.into());
    }
    Ok(here)
}

/// Returns the names of a path, the first one last.
fn names(text: &[u8]) -> Vec<Vec<u8>> {
    let names = text.split(|it| *it == b'/').filter(|it| !it.is_empty() && *it != b".");
    names.rev().map(<[u8]>::to_vec).collect()
}

/// Returns the name of a thread's own folder in the `/proc` of its namespace.
fn own_folder(thread: u32, of_thread: bool) -> Result<String, Failed> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).map_err(|_| Errno::SRCH)?;
    let number = |field: &str| {
        let line = status.lines().find_map(|it| it.strip_prefix(field));
        line.and_then(|it| it.split_whitespace().last()).map(str::to_owned).ok_or(Errno::SRCH)
    };
    let process = number("NStgid:")?;
    Ok(if of_thread { format!("{process}/task/{}", number("NSpid:")?) } else { process })
}

/// In `/proc`, something may be refused to haft, and not to the process itself.
fn failed(there: BorrowedFd<'_>, error: Errno) -> Failed {
    match error {
        Errno::ACCESS | Errno::PERM if is_in_proc(there).unwrap_or(true) => Failed::Hidden,
        error => Failed::As(error),
    }
}

fn is(file: BorrowedFd<'_>, kind: FileType) -> Result<bool, Errno> {
    Ok(FileType::from_raw_mode(fstat(file)?.st_mode) == kind)
}

fn is_same(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> Result<bool, Errno> {
    let (one, other) = (fstat(one)?, fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

fn is_in_proc(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(fstatfs(file)?.f_type == PROC_SUPER_MAGIC)
}

fn is_root_of_proc(folder: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(fstat(folder)?.st_ino == ROOT_OF_PROC && is_in_proc(folder)?)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::os::unix::fs::{MetadataExt as _, symlink};

    use rustix::fs::CWD;

    use super::*;

    #[test]
    fn links_lead_where_they_lead_for_the_thread_and_not_out_of_its_root() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/file"), "x").unwrap();
        symlink("/a", root.join("to-a")).unwrap();
        symlink("../../../../file", root.join("a/b/up")).unwrap();
        symlink("round", root.join("round")).unwrap();
        fs::write(root.join("file"), "y").unwrap();
        let open = |path: &std::path::Path| openat(CWD, path, OFlags::PATH, Mode::empty()).unwrap();
        let (top, b) = (open(root), open(&root.join("a/b")));
        let thread = std::process::id();
        let found = |text: &str, flags| {
            let found = walk(thread, top.as_fd(), b.as_fd(), text.as_bytes(), flags);
            found.ok().map(|it| fstat(&it).unwrap().st_ino)
        };
        let inode = |name: &str| Some(fs::symlink_metadata(root.join(name)).unwrap().ino());
        assert_eq!(found("/to-a/file", OFlags::PATH), inode("a/file"));
        assert_eq!(found("../file", OFlags::PATH), inode("a/file"));
        assert_eq!(found("up", OFlags::PATH), inode("file"));
        assert_eq!(found("up", OFlags::PATH | OFlags::NOFOLLOW), inode("a/b/up"));
        assert_eq!(found("/round", OFlags::PATH), None);
        assert_eq!(found("/file/", OFlags::PATH), None);
        assert_eq!(found("/gone", OFlags::PATH), None);
        let machine = open("/".as_ref());
        let cwd = walk(thread, machine.as_fd(), b.as_fd(), b"/proc/self/cwd", OFlags::PATH).ok().unwrap();
        assert_eq!(fstat(&cwd).unwrap().st_ino, fs::metadata(".").unwrap().ino());
        let own = walk(thread, machine.as_fd(), b.as_fd(), b"/proc/self/status", OFlags::PATH).ok().unwrap();
        assert!(is_in_proc(own.as_fd()).unwrap());
    }
}
