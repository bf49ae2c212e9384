//! JSON-RPC batches.
//!
//! Revision 2025-03-26 of MCP has batches, which came with JSON-RPC and went with
//! the next revision. The answers go out together, as an array on one line.

use std::sync::{Mutex, PoisonError};

/// A longer batch is refused: its answers are kept until the last of them is there.
pub(crate) const LONGEST: usize = 100;

/// The answers of one batch, as far as they are there.
pub(crate) struct Batch(Mutex<State>);

struct State {
    open: usize,
    answers: Vec<Vec<u8>>,
}

impl Batch {
    /// A batch that stays open until whoever made it leaves it.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State { open: 1, answers: Vec::new() }))
    }

    /// One more member, which must leave.
    pub(crate) fn join(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).open += 1;
    }

    /// A member leaves, with its answer if it has one. The last one gets the whole line.
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
    fn the_last_to_leave_gets_all_the_answers() {
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
