//! Paths of the store: the database of a workspace and the folders beside it.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

/// The folder of one workspace below the state folder.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The workspace, canonical where it exists.
    pub(super) workspace: PathBuf,
    /// Where the state of all workspaces is.
    pub state: PathBuf,
    /// Where its state is.
    pub(super) folder: PathBuf,
}

impl Place {
    /// The place of `workspace` below `state`. Nothing is created yet.
    pub(super) fn of(state: &Path, workspace: &Path) -> Self {
        let workspace = workspace
            .canonicalize()
            .or_else(|_| std::path::absolute(workspace))
            .unwrap_or_else(|_| workspace.to_owned());
        let hash = blake3::hash(workspace.as_os_str().as_bytes()).to_hex();
        let name: String = hash.chars().take(16).collect();
        Self { folder: state.join("workspaces").join(name), state: state.to_owned(), workspace }
    }

    /// The database.
    pub(super) fn database(&self) -> PathBuf {
        self.folder.join("haft.db")
    }

    /// Before-images, by their hash.
    pub(super) fn blobs(&self) -> PathBuf {
        self.folder.join("blobs")
    }

    /// Outputs too long to show, by session and handle.
    pub(super) fn spill(&self) -> PathBuf {
        self.folder.join("spill")
    }

    /// Files that sessions gave away, by session and id.
    pub(super) fn files(&self) -> PathBuf {
        self.folder.join("files")
    }

    /// One locked file for each process that is alive.
    pub(super) fn live(&self) -> PathBuf {
        self.folder.join("live")
    }

    /// Files that processes lock against each other.
    pub(super) fn locks(&self) -> PathBuf {
        self.folder.join("locks")
    }

    /// Makes the folders that are missing.
    pub(super) fn create(&self) -> io::Result<()> {
        for folder in [self.blobs(), self.spill(), self.live(), self.locks()] {
            create_folder(&folder)?;
        }
        Ok(())
    }
}

/// Makes a folder that only its owner may enter, with whatever is missing above it.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Replaces a file's content by renaming a new file over it: a concurrent reader gets the old content or the new one.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension(format!("{}", std::process::id()));
    fs::write(&fresh, bytes)?;
    fs::rename(&fresh, path)
}

/// Opens a file that only its owner may read, and makes it when it is missing.
pub(super) fn private_file(path: &Path) -> io::Result<File> {
    // `truncate(false)`: what is there already belongs to somebody.
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// What every handle begins with.
pub const SPILL_PREFIX: &str = "out_";

/// The number of a handle, which is written in one way only.
pub fn spill_number(handle: &str) -> Option<u64> {
    let digits = handle.strip_prefix(SPILL_PREFIX)?;
    let number: u64 = digits.parse().ok()?;
    (number > 0 && number.to_string() == digits).then_some(number)
}
