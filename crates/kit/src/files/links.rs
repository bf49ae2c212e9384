//! Hard links: refuses files that have a name outside the roots.
//!
//! A hard link is another name of a file, and no path check can see where the first one lies. So haft counts
//! the names: a file with more names than were found below the roots has one outside, and is refused.

use std::{
    collections::HashMap,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, statat};

use super::{Files, Identity, OtherNames};
use crate::Fault;

/// A count older than this is repeated before a file is refused.
const FRESH: Duration = Duration::from_secs(2);

/// Time limit of a count. When it is over, the file is refused: it can't be shown to be inside.
const MOST_TIME: Duration = Duration::from_secs(5);

/// For each file with several names, how many were found below the roots. A count is valid for one change
/// time: a new name, a lost one, and another file under the same number all set it.
#[derive(Default)]
pub(super) struct HardLinks {
    names: HashMap<Key, u64>,
    counted: Option<Instant>,
}

/// Device, inode number, change time.
type Key = (u64, u64, i128);

fn key(stat: &Stat) -> Key {
    let identity = Identity::of(stat);
    (identity.device, identity.inode, identity.changed_ns)
}

impl Files {
    /// Refuses a file that has a name outside the roots.
    pub(super) fn check_other_names(&self, path: &str, stat: &Stat) -> Result<(), Fault> {
        let all = u64::from(stat.st_nlink as u32);
        if all <= 1 || self.roots().caches.other_names == OtherNames::Allow {
            return Ok(());
        }
        let key = key(stat);
        let mut links = self.roots().caches.links.lock();
        let known = |links: &HardLinks| links.names.get(&key).copied().unwrap_or(0);
        if known(&links) < all && links.counted.is_none_or(|at| at.elapsed() > FRESH) {
            links.names = self.count_names();
            links.counted = Some(Instant::now());
        }
        let inside = known(&links);
        if inside >= all {
            return Ok(());
        }
        Err(Fault::denied(format!(
            "`{path}` is a hard link: of the {all} names of this file only {inside} were found in the workspace, so it may be a file from outside (rule `hard_links`)"
        ))
        .next("A person can add the folder that has the other names (`--root PATH`), or set `hard_links = \"allow\"` in haft.toml."))
    }

    fn count_names(&self) -> HashMap<Key, u64> {
        let until = Instant::now() + MOST_TIME;
        let mut names = HashMap::new();
        // The names of a root inside another one would be counted twice.
        let roots: Vec<_> = self.roots().list().map(|(path, _)| path.to_owned()).collect();
        for (index, root) in self.roots().handles().enumerate() {
            let Some(path) = roots.get(index) else { continue };
            let nested = roots
                .iter()
                .enumerate()
                .any(|(other, it)| other != index && path.starts_with(it) && (path != it || other < index));
            if !nested && let Ok(dir) = openat(root, ".", FOLDER, Mode::empty()) {
                count_below(dir, until, &mut names);
            }
        }
        names
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Counts names depth first, with the handles on a stack of its own: depth costs no call stack.
fn count_below(top: OwnedFd, until: Instant, names: &mut HashMap<Key, u64>) {
    let Ok(top) = Dir::new(top) else { return };
    let mut stack = vec![top];
    while let Some(dir) = stack.last_mut() {
        if Instant::now() > until {
            return;
        }
        let Some(Ok(entry)) = dir.read() else {
            stack.pop();
            continue;
        };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let Ok(here) = dir.fd() else { continue };
        if entry.file_type() == FileType::Directory {
            if let Ok(below) = openat(here, name, FOLDER, Mode::empty()).and_then(Dir::new) {
                stack.push(below);
            }
        } else if let Ok(stat) = statat(here, name, AtFlags::SYMLINK_NOFOLLOW)
            && stat.st_nlink > 1
            && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        {
            *names.entry(key(&stat)).or_default() += 1;
        }
    }
}
