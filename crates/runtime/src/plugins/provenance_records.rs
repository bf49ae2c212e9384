//! Provenance records: versions that a model wrote or a tool made, and versions that a person attested.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use store::create_folder;

/// A list in the state folder, which no call can reach: one line for each version that a model or a tool
/// wrote, and one for each that a person attested. The last line of a version counts.
#[derive(Debug, Clone)]
pub(super) struct ProvenanceRecords {
    file: PathBuf,
    /// The versions that a person attests until this process ends.
    this_run: Arc<HashSet<String>>,
}

/// The records at one moment.
#[derive(Default)]
pub(super) struct Provenances(HashMap<String, Author>);

/// The author of a version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Author {
    /// A model wrote it, or a tool made it.
    Model,
    /// A person attested it, whoever wrote it.
    Person,
}

impl ProvenanceRecords {
    /// Returns the list in this folder.
    pub(super) fn beneath(folder: &Path) -> Self {
        Self { file: folder.join("written"), this_run: Arc::default() }
    }

    /// Returns the list with these files attested by a person, unless a record says otherwise.
    pub(super) fn with(mut self, files: &[(PathBuf, blake3::Hash)]) -> Self {
        self.this_run = Arc::new(files.iter().map(|(path, hash)| mark(path, hash)).collect());
        self
    }

    /// The same, with the marks of another process.
    pub(super) fn with_marks(mut self, marks: &[String]) -> Self {
        self.this_run = Arc::new(marks.iter().cloned().collect());
        self
    }

    /// Returns the marks of this run.
    pub(super) fn of_this_run(&self) -> Vec<String> {
        self.this_run.iter().cloned().collect()
    }

    /// Reads the records.
    pub(super) fn marks(&self) -> Provenances {
        let mut marks = self.saved();
        for mark in &*self.this_run {
            marks.entry(mark.clone()).or_insert(Author::Person);
        }
        Provenances(marks)
    }

    fn saved(&self) -> HashMap<String, Author> {
        let mut marks = HashMap::new();
        for line in fs::read_to_string(&self.file).unwrap_or_default().lines() {
            match line.split_once(' ') {
                Some(("+", mark)) => marks.insert(mark.to_owned(), Author::Model),
                Some(("-", mark)) => marks.insert(mark.to_owned(), Author::Person),
                _ => None,
            };
        }
        marks
    }

    /// Records that a person attests these versions of files.
    pub(super) fn vouch(&self, files: &[(PathBuf, blake3::Hash)]) -> io::Result<()> {
        self.add(files.iter().map(|(path, hash)| mark(path, hash)), Author::Person)
    }

    /// Records that a model or a tool made these versions of files: one write for all of them.
    pub(super) fn made(&self, files: &[(PathBuf, blake3::Hash)]) -> io::Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        self.add(files.iter().map(|(path, hash)| mark(path, hash)), Author::Model)
    }

    /// Records the author of this version of the file.
    pub(super) fn note(&self, path: &Path, hash: &blake3::Hash, author: Author) -> io::Result<()> {
        self.add([mark(path, hash)].into_iter(), author)
    }

    fn add(&self, marks: impl Iterator<Item = String>, author: Author) -> io::Result<()> {
        let sign = match author {
            Author::Model => '+',
            Author::Person => '-',
        };
        let mut kept = self.saved();
        let new = marks.filter(|it| kept.insert(it.clone(), author) != Some(author));
        let lines: String = new.map(|it| format!("{sign} {it}\n")).collect();
        if lines.is_empty() {
            return Ok(());
        }
        if let Some(folder) = self.file.parent() {
            create_folder(folder)?;
        }
        // A single write: two processes that append at once don't mix their lines.
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.file)?;
        file.write_all(lines.as_bytes())?;
        file.sync_all()
    }
}

impl Provenances {
    /// Returns the author of this version of the file, if there is a record.
    pub(super) fn author(&self, path: &Path, hash: &blake3::Hash) -> Option<Author> {
        if self.0.is_empty() { None } else { self.0.get(&mark(path, hash)).copied() }
    }

    /// Returns whether a model wrote this version of the file, or a tool made it.
    pub(super) fn has(&self, path: &Path, hash: &blake3::Hash) -> bool {
        self.author(path, hash) == Some(Author::Model)
    }

    /// Returns whether a person attested this version of the file.
    pub(super) fn vouches(&self, path: &Path, hash: &blake3::Hash) -> bool {
        self.author(path, hash) == Some(Author::Person)
    }

    /// Returns whether a person attested any version of this file.
    pub(super) fn vouched_before(&self, path: &Path) -> bool {
        let name = name(path);
        self.0.iter().any(|(mark, author)| {
            *author == Author::Person && mark.split_once(' ').is_some_and(|it| it.1 == name)
        })
    }
}

fn mark(path: &Path, hash: &blake3::Hash) -> String {
    format!("{} {}", hash.to_hex(), name(path))
}

fn name(path: &Path) -> String {
    path.display().to_string().escape_default().to_string()
}
