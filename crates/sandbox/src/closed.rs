//! Checks that hidden and read-only files of a sandbox are still covered by their mounts.
//!
//! A read-only or hidden file in a writable folder has a mount over it. If another program outside replaces
//! the file by a rename, as an editor or git does, the kernel drops that mount, and the new file is writable
//! inside.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::layout::{Access, Mount, What};

/// A change this recent may be followed by another one with the same time.
const FRESH: Duration = Duration::from_millis(50);

/// The covered files, with their identity when they were covered.
#[derive(Default)]
pub struct Closed {
    folders: BTreeMap<PathBuf, Folder>,
}

#[derive(Default)]
struct Folder {
    /// The last change of a name in the folder, if it can be distinguished from a later one.
    changed: Option<(i64, i64)>,
    names: Vec<(PathBuf, (u64, u64))>,
}

impl Closed {
    /// Records what these mounts cover. Call it before they are made.
    pub fn by(mounts: &[Mount]) -> Self {
        let is_open = |it: &&Mount| matches!(it.what, What::Bind { access: Access::Write, .. });
        let open: Vec<&Path> = mounts.iter().filter(is_open).map(|it| it.at.as_path()).collect();
        let closes = |it: &&Mount| {
            matches!(it.what, What::Bind { access: Access::Read, .. } | What::Hidden { .. })
                && open.iter().any(|open| it.at.starts_with(open) && it.at != *open)
        };
        let mut closed = Self::default();
        for path in mounts.iter().filter(closes).map(|it| &it.at) {
            let (Some(parent), Some(identity)) = (path.parent(), identity(path)) else { continue };
            let folder = closed.folders.entry(parent.to_owned()).or_default();
            folder.names.push((path.clone(), identity));
        }
        for (path, folder) in &mut closed.folders {
            folder.changed = changed(path);
        }
        closed
    }

    /// Returns a file that is no longer covered, if any. If no name in a folder has changed, this costs one
    /// `stat` of the folder.
    pub fn opened(&mut self) -> Option<PathBuf> {
        for (path, folder) in &mut self.folders {
            let now = changed(path);
            if now.is_some() && now == folder.changed {
                continue;
            }
            let replaced = folder.names.iter().find(|(name, was)| identity(name) != Some(*was));
            if let Some((name, _)) = replaced {
                return Some(name.clone());
            }
            folder.changed = now;
        }
        None
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|it| (it.dev(), it.ino()))
}

fn changed(folder: &Path) -> Option<(i64, i64)> {
    let about = fs::metadata(folder).ok()?;
    let at = UNIX_EPOCH + Duration::new(about.ctime().try_into().ok()?, about.ctime_nsec().try_into().ok()?);
    let is_fresh = SystemTime::now().duration_since(at).is_ok_and(|it| it < FRESH);
    (!is_fresh).then(|| (about.ctime(), about.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_name_that_is_given_to_something_else_is_open_and_a_change_in_place_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (root, file) = (dir.path(), dir.path().join("haft.toml"));
        fs::write(&file, "a").unwrap();
        let bind = |path: &Path, access| Mount {
            at: path.to_owned(),
            what: What::Bind { from: path.to_owned(), access },
        };
        let mounts =
            [bind(root, Access::Write), bind(&file, Access::Read), bind(Path::new("/usr"), Access::Read)];
        let mut closed = Closed::by(&mounts);
        assert_eq!(closed.folders.len(), 1);
        assert_eq!(closed.opened(), None);
        fs::write(&file, "b").unwrap();
        fs::write(root.join("other"), "").unwrap();
        assert_eq!(closed.opened(), None);
        fs::write(root.join("new"), "c").unwrap();
        fs::rename(root.join("new"), &file).unwrap();
        assert_eq!(closed.opened(), Some(file.clone()));
        let mut closed = Closed::by(&mounts);
        fs::remove_file(&file).unwrap();
        assert_eq!(closed.opened(), Some(file));
    }
}
