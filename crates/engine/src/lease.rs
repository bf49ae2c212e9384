//! Lease: the right of one worker to run one piece of work, with the fencing token.

use crate::{Key, record::Record};

/// The right to run one piece of work, until another takes it over. Every change through it advances `revision`, the fencing
/// token: a change on an older revision of another holder is refused.
#[derive(Debug)]
pub struct Lease {
    pub key: Key,
    /// The id of the worker that holds it.
    pub worker: String,
    /// The revision of the record as this holder last wrote it.
    pub revision: u64,
    /// How often the engine had offered the work before, after other workers lost it.
    pub retries: u32,
    /// The record at that revision: a change on it needs no look before.
    pub(crate) record: Record,
    /// Unique to this claim: it distinguishes two claims of one worker.
    pub(crate) claim: String,
    /// The number of the next event.
    pub(crate) next_event: u64,
    /// This holder's outcome was accepted.
    pub(crate) ended: bool,
}
