//! By which traits does a tool reach what the runtime keeps?

use std::{path::Path, sync::Arc};

use crate::{Fault, Output, text::Content};

/// Keeps what a file held before it was changed, so that it can be put back.
pub trait History: Send + Sync {
    /// Called before a change lands, from any thread. `None` stands for "there is no such file".
    /// The change happens only if this worked.
    ///
    /// # Errors
    /// When the before-image can't be kept.
    fn keep(&self, path: &Path, before: Option<&Content>, after: Option<&Content>) -> Result<(), Fault>;
}

/// Puts back what calls of this session changed.
pub trait Undo: Send + Sync {
    /// Reverts what `which` names, and says what it did, file by file. A file that
    /// moved on since is left as it is, and the report shows how it differs.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) when there is nothing to undo.
    fn undo(&self, which: Which) -> Result<Output, Fault>;

    /// The changes that can be undone, newest first, one line each.
    ///
    /// # Errors
    /// When the history can't be read.
    fn list(&self, limit: usize) -> Result<Output, Fault>;
}

/// Which changes to undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// All changes of the newest call that changed something.
    Last,
    /// All changes of this call.
    Call(String),
    /// The newest change of this file, given by its absolute path.
    File(std::path::PathBuf),
}

/// Hears how far a call has come. None of it reaches the model.
pub trait Progress: Send + Sync {
    /// `done` of `total` steps, with a line for a person.
    fn report(&self, done: f64, total: Option<f64>, message: &str);
}

/// Hides secret values in text.
pub trait Mask: Send + Sync {
    /// The byte ranges of `text` that must not be shown, in order.
    fn find(&self, text: &str) -> Vec<std::ops::Range<usize>>;
}

/// The services of one session.
#[derive(Clone)]
pub struct Services {
    /// Where before-images go.
    pub history: Arc<dyn History>,
    /// What puts them back.
    pub undo: Arc<dyn Undo>,
    /// Who hears of progress.
    pub progress: Arc<dyn Progress>,
    /// What must not be shown.
    pub mask: Arc<dyn Mask>,
}
