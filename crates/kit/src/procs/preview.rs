//! Previews: commands whose changes to files are kept nowhere, and the list of those changes.

use std::{future::Future, path::PathBuf, pin::Pin, sync::Arc};

use super::{Procs, Spawner};
use crate::Fault;

/// A spawner whose processes see the roots as they are, and whose changes to them are kept nowhere.
pub trait Previewing: Spawner {
    /// Kills what still runs, and returns what all its processes changed.
    fn changes(&self) -> Pin<Box<dyn Future<Output = Result<Previewed, Fault>> + Send + '_>>;
}

/// A preview of one call's commands.
#[derive(Clone)]
pub struct Preview {
    spawner: Arc<dyn Previewing>,
}

impl Preview {
    /// Creates a handle on this spawner.
    pub fn new(spawner: Arc<dyn Previewing>) -> Self {
        Self { spawner }
    }

    /// Returns the starter of its processes.
    pub fn procs(&self) -> Procs {
        Procs::new(self.spawner.clone())
    }

    /// Kills what still runs, and returns what all its processes changed.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind::Unavailable) when the changes can't be read.
    pub async fn changes(&self) -> Result<Previewed, Fault> {
        self.spawner.changes().await
    }
}

/// The changes that commands would have made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Previewed {
    /// The changes, by path.
    pub changes: Vec<PathChange>,
    /// Changes that could not be determined, one line each.
    pub notes: Vec<String>,
}

/// The change of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathChange {
    /// The absolute path.
    pub path: PathBuf,
    /// The differences.
    pub change: Change,
}

/// The difference at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new file of this many bytes.
    Created {
        /// Its size.
        bytes: u64,
    },
    /// A new folder without files.
    CreatedFolder,
    /// Something new that is neither a file nor a folder: `link to x`, `pipe`.
    CreatedOther {
        /// The kind of file.
        what: String,
    },
    /// Another content.
    Changed {
        /// The sizes before and after.
        bytes: (u64, u64),
        /// The contents before and after, of small text files.
        texts: Option<(String, String)>,
    },
    /// Something of another kind: a link where a file was.
    Replaced {
        /// The kind before and after.
        kinds: (String, String),
    },
    /// The same content with another mode, owner or time.
    Metadata {
        /// The parts that differ: `mode 644 to 755`.
        what: String,
    },
    /// Nothing any more.
    Deleted {
        /// The number of files, for a folder.
        folder: Option<u64>,
    },
    /// The content of another path, which is gone.
    Moved {
        /// That path.
        from: PathBuf,
        /// The number of files, for a folder.
        folder: Option<u64>,
    },
}
