//! Content-addressed snapshots: an index of inode, size, mtime and ctime tells which files changed; their content is
//! stored by its hash. The tree is walked before and after each command.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, BufReader},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{Engine, between_snapshots};
use crate::batch::{Outcome, walk};

/// The identity of a file's state: a file with the same one is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Snapshots in a folder of contents beside the folder.
#[derive(Debug)]
pub struct Snapshots {
    folder: PathBuf,
    store: PathBuf,
    index: HashMap<PathBuf, (State, blake3::Hash)>,
}

impl Snapshots {
    /// Makes the store beside the folder.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(folder: PathBuf) -> Outcome<Self> {
        let store = folder.with_extension("contents");
        fs::create_dir(&store)?;
        Ok(Self { folder, store, index: HashMap::new() })
    }

    fn snapshot(&mut self) -> Outcome<()> {
        let mut index = HashMap::with_capacity(self.index.len());
        let mut new = Vec::new();
        walk(&self.folder, &mut |path, about| {
            if !about.is_file() {
                return;
            }
            let state = State {
                inode: about.ino(),
                size: about.size(),
                modified: (about.mtime(), about.mtime_nsec()),
                changed: (about.ctime(), about.ctime_nsec()),
            };
            match self.index.remove(path) {
                Some((before, hash)) if before == state => drop(index.insert(path.to_owned(), (state, hash))),
                _ => new.push((path.to_owned(), state)),
            }
        });
        for (path, state) in new {
            let hash = self.store(&path)?;
            index.insert(path, (state, hash));
        }
        self.index = index;
        Ok(())
    }

    fn store(&self, path: &Path) -> Outcome<blake3::Hash> {
        let mut hasher = blake3::Hasher::new();
        io::copy(&mut BufReader::with_capacity(1 << 20, File::open(path)?), &mut hasher)?;
        let hash = hasher.finalize();
        let to = self.store.join(hash.to_hex().as_str());
        if !to.exists() {
            fs::copy(path, to)?;
        }
        Ok(hash)
    }
}

impl Engine for Snapshots {
    fn name(&self) -> &'static str {
        "snapshots by content, index of the tree"
    }

    fn lacks(&self) -> &'static str {
        "what is made and removed within one command; who changed a file while two commands run; a copy of the whole tree first"
    }

    fn prepare(&mut self) -> Outcome<()> {
        self.snapshot()
    }

    fn run(&mut self, command: &str) -> Outcome<Duration> {
        between_snapshots(self, Self::snapshot, command)
    }

    fn folder(&self) -> &Path {
        &self.folder
    }
}
