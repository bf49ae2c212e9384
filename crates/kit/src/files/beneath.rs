//! Path resolution beneath a root, with no way out of it.
//!
//! The result is a folder's handle and a name in it, never a path: opening the name through the handle opens
//! what was checked, whatever is renamed meanwhile. On Linux the kernel resolves (`openat2` with
//! `RESOLVE_BENEATH`). If it can't, or if it refuses a component, haft walks component by component and so
//! knows which one was refused.

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fd::AsFd,
    fs::{Mode, OFlags, openat, readlinkat},
    io::Errno,
};

/// Maximum number of symlinks followed, as in Linux.
const MAX_LINKS: usize = 40;

/// Flags to open a folder for resolving names in it, not through a symlink.
const STAND: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(HANDLE);

/// `O_PATH`, where the system has it, needs no right to list the folder.
#[cfg(target_os = "linux")]
const HANDLE: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const HANDLE: OFlags = OFlags::RDONLY;

/// The place that a path leads to.
#[derive(Debug)]
pub(super) struct Found {
    /// The deepest folder on the way that exists.
    pub(super) dir: OwnedFd,
    /// The name in it; none when the path is the root, or ends in `..`.
    pub(super) name: Option<OsString>,
    /// The components after the name; not empty only if the name does not exist.
    pub(super) rest: Vec<OsString>,
    /// The canonical path below the root, without symlinks.
    pub(super) rel: PathBuf,
}

/// The reason why a path can't be resolved.
#[derive(Debug)]
pub(super) enum Astray {
    /// It leads out of the root; the target, if it is known from an absolute symlink.
    Outside(Option<PathBuf>),
    /// This component is a file, but more components follow.
    NotADirectory(PathBuf),
    /// More symlinks than the limit.
    TooManyLinks,
    /// `..` after something that does not exist.
    MissingParent(PathBuf),
    /// The system returned an error.
    Io(io::Error),
}

impl From<Errno> for Astray {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::LOOP => Self::TooManyLinks,
            errno => Self::Io(errno.into()),
        }
    }
}

/// Resolves `rel` below `root`, whose canonical path is `root_path`. Symlinks are followed as long as they
/// stay below the root; an absolute one is interpreted from `root_path`. The last component of the result is
/// never a symlink.
pub(super) fn resolve(root: &OwnedFd, root_path: &Path, rel: &Path) -> Result<Found, Astray> {
    #[cfg(target_os = "linux")]
    if let Some(found) = kernel::resolve(root, rel) {
        return Ok(found);
    }
    walk(root, root_path, rel)
}

/// Resolves component by component without following: every symlink is read and its parts are walked in turn,
/// so nothing can be swapped between check and use.
fn walk(root: &OwnedFd, root_path: &Path, rel: &Path) -> Result<Found, Astray> {
    let mut here = OpenFolders { root, below: Vec::new() };
    let mut ahead: VecDeque<Step> = steps(rel).collect();
    let mut links = 0;
    while let Some(step) = ahead.pop_front() {
        let name = match step {
            Step::Into(name) => name,
            Step::Up => {
                if here.below.pop().is_none() {
                    return Err(Astray::Outside(None));
                }
                continue;
            }
        };
        let target = match readlinkat(here.dir(), &name, Vec::new()) {
            Ok(target) => PathBuf::from(OsStr::from_bytes(target.as_bytes())),
            Err(Errno::NOENT) => return here.missing(name, ahead),
            Err(Errno::INVAL) if ahead.is_empty() => return here.found(name),
            Err(Errno::INVAL) => {
                let dir = match openat(here.dir(), &name, STAND, Mode::empty()) {
                    Ok(dir) => dir,
                    Err(Errno::NOTDIR) => return Err(Astray::NotADirectory(here.path().join(name))),
                    // Swapped meanwhile: try again.
                    Err(Errno::LOOP | Errno::MLINK) if links < MAX_LINKS => {
                        links += 1;
                        ahead.push_front(Step::Into(name));
                        continue;
                    }
                    Err(errno) => return Err(errno.into()),
                };
                here.below.push((name, dir));
                continue;
            }
            Err(errno) => return Err(errno.into()),
        };
        links += 1;
        if links > MAX_LINKS {
            return Err(Astray::TooManyLinks);
        }
        let inside = if target.is_absolute() {
            let Ok(inside) = target.strip_prefix(root_path) else {
                return Err(Astray::Outside(Some(and_then(target, ahead))));
            };
            here.below.clear();
            inside
        } else {
            &target
        };
        for step in steps(inside).collect::<Vec<_>>().into_iter().rev() {
            ahead.push_front(step);
        }
    }
    let rel = here.path();
    Ok(Found { dir: here.dir().try_clone_to_owned().map_err(Astray::Io)?, name: None, rest: Vec::new(), rel })
}

/// Returns the path with the components that were still ahead.
fn and_then(mut path: PathBuf, ahead: VecDeque<Step>) -> PathBuf {
    for step in ahead {
        match step {
            Step::Into(name) => path.push(name),
            Step::Up => path.push(".."),
        }
    }
    path
}

/// The folders on the way, each as an open handle.
struct OpenFolders<'a> {
    root: &'a OwnedFd,
    below: Vec<(OsString, OwnedFd)>,
}

impl OpenFolders<'_> {
    fn dir(&self) -> rustix::fd::BorrowedFd<'_> {
        self.below.last().map_or(self.root.as_fd(), |(_, dir)| dir.as_fd())
    }

    fn path(&self) -> PathBuf {
        self.below.iter().map(|(name, _)| name).collect()
    }

    fn found(self, name: OsString) -> Result<Found, Astray> {
        self.missing(name, VecDeque::new())
    }

    fn missing(self, name: OsString, ahead: VecDeque<Step>) -> Result<Found, Astray> {
        let mut rel = self.path().join(&name);
        let mut rest = Vec::new();
        for step in ahead {
            match step {
                Step::Into(name) => {
                    rel.push(&name);
                    rest.push(name);
                }
                Step::Up => return Err(Astray::MissingParent(rel)),
            }
        }
        let dir = self.dir().try_clone_to_owned().map_err(Astray::Io)?;
        Ok(Found { dir, name: Some(name), rest, rel })
    }
}

enum Step {
    Into(OsString),
    Up,
}

fn steps(path: &Path) -> impl Iterator<Item = Step> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(Step::Into(name.to_owned())),
        Component::ParentDir => Some(Step::Up),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    })
}

#[cfg(target_os = "linux")]
mod kernel {
    //! Resolution by the kernel, in one system call.

    use std::{
        ffi::OsStr,
        os::{
            fd::{AsRawFd, OwnedFd},
            unix::ffi::OsStrExt,
        },
        path::{Component, Path, PathBuf},
    };

    use rustix::{
        fs::{CWD, Mode, OFlags, ResolveFlags, openat2, readlinkat},
        io::Errno,
    };

    use super::Found;

    /// Returns the result in the common case: the parent exists and the last component is not a symlink. In
    /// any other case `None`; the walk then finds the reason.
    pub(super) fn resolve(root: &OwnedFd, rel: &Path) -> Option<Found> {
        let Some(Component::Normal(name)) = rel.components().next_back() else { return None };
        let parent = rel.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let dir = openat2(
            root,
            parent,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
        )
        .ok()?;
        match readlinkat(&dir, name, Vec::new()) {
            Err(Errno::INVAL | Errno::NOENT) => {}
            Ok(_) | Err(_) => return None,
        }
        let rel = path_of(&dir)?.strip_prefix(path_of(root)?).ok()?.join(name);
        Some(Found { dir, name: Some(name.to_owned()), rest: Vec::new(), rel })
    }

    /// Returns the canonical path of an open folder, according to the kernel.
    fn path_of(dir: &OwnedFd) -> Option<PathBuf> {
        let link = readlinkat(CWD, format!("/proc/self/fd/{}", dir.as_raw_fd()), Vec::new()).ok()?;
        let path = Path::new(OsStr::from_bytes(link.as_bytes()));
        path.is_absolute().then(|| path.to_owned())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{fs, os::unix::fs::symlink};

    use super::*;

    type Resolver = fn(&OwnedFd, &Path, &Path) -> Result<Found, Astray>;

    /// Both resolvers, which must agree.
    const WAYS: [Resolver; 2] = [resolve, walk];

    fn folder_tree() -> (tempfile::TempDir, PathBuf) {
        let folder_tree = tempfile::tempdir().unwrap();
        let root = folder_tree.path().canonicalize().unwrap().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/file"), "x").unwrap();
        fs::write(folder_tree.path().join("secret"), "s").unwrap();
        symlink("a/b", root.join("short")).unwrap();
        symlink(root.join("a"), root.join("absolute")).unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink("/etc", root.join("etc")).unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink("nowhere/new", root.join("dangling")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink("../b/file", root.join("a/b/again")).unwrap();
        (folder_tree, root)
    }

    fn at(way: Resolver, root: &Path, rel: &str) -> Result<String, String> {
        let dir: OwnedFd = fs::File::open(root).unwrap().into();
        way(&dir, root, Path::new(rel))
            .map(|found| format!("{} +{}", found.rel.display(), found.rest.len()))
            .map_err(|astray| format!("{astray:?}"))
    }

    #[test]
    fn both_ways_give_the_canonical_path() {
        let (_folder, root) = folder_tree();
        for way in WAYS {
            for (rel, canonical) in [
                ("a/b/file", "a/b/file +0"),
                ("./a//b/../b/file", "a/b/file +0"),
                ("short/file", "a/b/file +0"),
                ("absolute/b/file", "a/b/file +0"),
                ("short", "a/b +0"),
                ("short/again", "a/b/file +0"),
                ("a/new", "a/new +0"),
                ("a/new/deep/file", "a/new/deep/file +2"),
                ("dangling", "nowhere/new +1"),
                ("short/new/file", "a/b/new/file +1"),
                ("", " +0"),
                (".", " +0"),
                ("a/..", " +0"),
            ] {
                assert_eq!(at(way, &root, rel).unwrap(), canonical, "{rel}");
            }
        }
    }

    #[test]
    fn neither_way_leads_out() {
        let (_folder, root) = folder_tree();
        for way in WAYS {
            for rel in [
                "..",
                "../secret",
                "a/../../secret",
                "out",
                "etc/passwd",
                "etc",
                "up/secret",
                "short/../../../secret",
            ] {
                let answer = at(way, &root, rel).unwrap_err();
                assert!(answer.starts_with("Outside"), "{rel}: {answer}");
            }
            assert_eq!(at(way, &root, "loop").unwrap_err(), "TooManyLinks");
            assert!(at(way, &root, "a/b/file/x").unwrap_err().starts_with("NotADirectory"));
            assert!(at(way, &root, "a/new/../b").unwrap_err().starts_with("MissingParent"));
        }
    }
}
