//! Which versions of which files did a model write?

use std::{
    collections::HashSet,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use crate::store::create_folder;

/// A list in the state folder, where no call reaches it: one line for each version that a model wrote, and one for
/// each that a person has vouched for since. The last line of a version counts.
#[derive(Debug, Clone)]
pub(super) struct Written {
    file: PathBuf,
}

/// The list as it was at one moment.
#[derive(Default)]
pub(super) struct Marks(HashSet<String>);

impl Written {
    /// The list in this folder.
    pub(super) fn beneath(folder: &Path) -> Self {
        Self { file: folder.join("written") }
    }

    /// The list as it is now.
    pub(super) fn marks(&self) -> Marks {
        let mut marks = HashSet::new();
        for line in fs::read_to_string(&self.file).unwrap_or_default().lines() {
            if let Some(mark) = line.strip_prefix("+ ") {
                marks.insert(mark.to_owned());
            } else if let Some(mark) = line.strip_prefix("- ") {
                marks.remove(mark);
            }
        }
        Marks(marks)
    }

    /// A model wrote this version of the file.
    pub(super) fn note(&self, path: &Path, hash: &blake3::Hash) -> io::Result<()> {
        if self.marks().has(path, hash) { Ok(()) } else { self.add('+', path, hash) }
    }

    /// A person vouches for this version of the file.
    pub(super) fn adopt(&self, path: &Path, hash: &blake3::Hash) -> io::Result<()> {
        if self.marks().has(path, hash) { self.add('-', path, hash) } else { Ok(()) }
    }

    fn add(&self, sign: char, path: &Path, hash: &blake3::Hash) -> io::Result<()> {
        if let Some(folder) = self.file.parent() {
            create_folder(folder)?;
        }
        // One line in one write: two processes that add at once both stay whole.
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.file)?;
        file.write_all(format!("{sign} {}\n", mark(path, hash)).as_bytes())?;
        file.sync_all()
    }
}

impl Marks {
    /// Did a model write this version of the file?
    pub(super) fn has(&self, path: &Path, hash: &blake3::Hash) -> bool {
        !self.0.is_empty() && self.0.contains(&mark(path, hash))
    }
}

fn mark(path: &Path, hash: &blake3::Hash) -> String {
    format!("{} {}", hash.to_hex(), path.display().to_string().escape_default())
}
