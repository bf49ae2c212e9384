//! Paths of the store: the database of a workspace and the folders beside it.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// The folder of one workspace below the state folder.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The workspace; canonical if it exists.
    pub(super) workspace: PathBuf,
    /// The state folder of all workspaces.
    pub state: PathBuf,
    /// The folder of its own state.
    pub(super) folder: PathBuf,
}

impl Place {
    /// Returns the place of `workspace` below `state`. Nothing is created yet.
    pub(super) fn of(state: &Path, workspace: &Path) -> Self {
        let workspace = workspace
            .canonicalize()
            .or_else(|_| std::path::absolute(workspace))
            .unwrap_or_else(|_| workspace.to_owned());
        let hash = blake3::hash(workspace.as_os_str().as_bytes()).to_hex();
        let name: String = hash.chars().take(16).collect();
        Self { folder: state.join("workspaces").join(name), state: state.to_owned(), workspace }
    }

    /// Returns the path of the database.
    pub(super) fn database(&self) -> PathBuf {
        self.folder.join("haft.db")
    }

    /// Returns the folder of before-images, by their hash.
    pub(super) fn blobs(&self) -> PathBuf {
        self.folder.join("blobs")
    }

    /// Returns the folder of long outputs, by session and handle.
    pub(super) fn spill(&self) -> PathBuf {
        self.folder.join("spill")
    }

    /// Returns the folder of the logs of commands' changes, by call.
    pub(super) fn tracked(&self) -> PathBuf {
        self.folder.join("tracked")
    }

    /// Returns the folder of shared files, by session and id.
    pub(super) fn files(&self) -> PathBuf {
        self.folder.join("files")
    }

    /// Returns the folder with one locked file for each living process.
    pub(super) fn live(&self) -> PathBuf {
        self.folder.join("live")
    }

    /// Returns the folder of lock files.
    pub(super) fn locks(&self) -> PathBuf {
        self.folder.join("locks")
    }

    /// Creates the missing folders.
    pub(super) fn create(&self) -> io::Result<()> {
        for folder in [self.blobs(), self.spill(), self.live(), self.locks()] {
            create_folder(&folder)?;
        }
        Ok(())
    }
}

/// Creates a folder that only its owner may enter, with its missing parents.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Replaces a file's content by renaming a new file over it: a concurrent reader gets the old content or the new one.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Two threads may write the same file.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let fresh = path.with_extension(format!("{}-{number}", std::process::id()));
    fs::write(&fresh, bytes)?;
    fs::rename(&fresh, path)
}

/// Opens a file that only its owner may read, and creates it if it is missing.
pub(super) fn private_file(path: &Path) -> io::Result<File> {
    // `truncate(false)`: an existing file belongs to another process.
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// The prefix of every handle.
pub const SPILL_PREFIX: &str = "out_";

/// Returns the number of a handle; each number has one spelling only.
pub fn spill_number(handle: &str) -> Option<u64> {
    let digits = handle.strip_prefix(SPILL_PREFIX)?;
    let number: u64 = digits.parse().ok()?;
    (number > 0 && number.to_string() == digits).then_some(number)
}
