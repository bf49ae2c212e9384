//! JSON-RPC batches.
//!
//! Revision 2025-03-26 of MCP has batches; earlier and later ones don't. The answers are sent together, as an
//! array on one line.

use std::sync::{Mutex, PoisonError};

/// Maximum number of messages in a batch: its answers are held until the last of them is there.
pub(crate) const LONGEST: usize = 100;

/// The answers of one batch so far.
pub(crate) struct Batch(Mutex<State>);

struct State {
    open: usize,
    answers: Vec<Vec<u8>>,
}

impl Batch {
    /// Creates a batch that stays open until its creator leaves it.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State { open: 1, answers: Vec::new() }))
    }

    /// Adds a member, which must leave.
    pub(crate) fn join(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).open += 1;
    }

    /// Removes a member, with its answer if it has one. Returns the whole line to the last one.
    pub(crate) fn leave(&self, answer: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.answers.extend(answer);
        state.open = state.open.saturating_sub(1);
        if state.open > 0 || state.answers.is_empty() {
            return None;
        }
        let answers: Vec<&[u8]> = state.answers.iter().map(|answer| answer.trim_ascii_end()).collect();
        Some([b"[".as_slice(), &answers.join(b",".as_slice()), b"]\n"].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_a_batch_sends_all_answers() {
        let batch = Batch::new();
        batch.join();
        batch.join();
        assert_eq!(batch.leave(Some(b"1\n".to_vec())), None);
        assert_eq!(batch.leave(None), None);
        batch.join();
        assert_eq!(batch.leave(None), None);
        assert_eq!(batch.leave(Some(b"2".to_vec())), Some(b"[1,2]\n".to_vec()));
    }

    #[test]
    fn a_batch_without_answers_is_not_answered() {
        assert_eq!(Batch::new().leave(None), None);
    }
}
