//! What did a process write, how much of it is at hand, and where is the rest?

use std::{fs::File, ops::Range, sync::Arc};

use crate::Fault;

/// What a process wrote: the newest bytes in memory, all of it in a file once it is long.
/// One writes, any number read and wait.
pub struct Recording {
    _spilling: Option<Arc<dyn Spilling>>,
}

/// Opens the file that the whole of a long output goes to.
pub trait Spilling: Send + Sync {
    /// A new file of the session, and the handle that it is read by, such as `out_12`.
    ///
    /// # Errors
    /// When it can't be made.
    fn open(&self) -> Result<SpillFile, Fault>;
}

/// A file that an output goes to.
pub struct SpillFile {
    /// Its handle.
    pub handle: String,
    /// Open for appending.
    pub file: File,
}

/// A piece of a recording, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Whole characters, with terminal colours and the like left out.
    pub text: String,
    /// Which bytes of the recording these are.
    pub bytes: Range<u64>,
    /// How many bytes there are in all, until now.
    pub total: u64,
    /// The handle of the whole, where it went to a file.
    pub handle: Option<String>,
}

impl Recording {
    /// How many bytes were written until now.
    pub fn total(&self) -> u64 {
        0
    }

    /// The newest `bytes` bytes.
    pub fn tail(&self, bytes: usize) -> Slice {
        self.since(self.total().saturating_sub(bytes as u64), bytes)
    }

    /// What was written from byte `from` on, at most `bytes` of it: the head and the tail, with a line between them that
    /// says how much is left out and by which handle all of it is read.
    pub fn since(&self, from: u64, bytes: usize) -> Slice {
        let _ = bytes;
        Slice { text: String::new(), bytes: from..from, total: 0, handle: None }
    }

    /// Waits until there are more than `seen` bytes, or nothing more will come. False: nothing more will.
    pub async fn grown(&self, seen: u64) -> bool {
        let _ = seen;
        false
    }

    /// Has everybody who could write to it gone?
    pub fn is_over(&self) -> bool {
        true
    }
}
