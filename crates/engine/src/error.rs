//! Errors of engines.

/// Why an engine did not do it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The lease is no longer this worker's; it must stop the work, and nothing of it is accepted.
    #[error("the lease of {key} is lost ({why}): stop this work; its result is not accepted")]
    Lost { key: String, why: String },
    /// No answer from where the engine keeps its records. The change may have happened; repeating it is safe.
    #[error("the engine cannot be reached: {0}")]
    Unreachable(String),
    /// It will not work by repeating it.
    #[error("{0}")]
    Refused(String),
    /// Stored data is not as it was written.
    #[error("{0}")]
    Damaged(String),
    /// No work or blob of this name.
    #[error("{0}")]
    Unknown(String),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;
