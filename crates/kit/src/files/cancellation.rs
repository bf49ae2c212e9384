//! The gate between cancellation and change: a cancelled call changes nothing more.

use std::sync::atomic::{AtomicU8, Ordering};

const OPEN: u8 = 0;
const CHANGING: u8 = 1;
const CLOSED: u8 = 2;

/// Orders "the call was cancelled" and "the file was replaced": the first to arrive wins, and the other sees that.
#[derive(Default)]
pub(super) struct Gate(AtomicU8);

impl Gate {
    /// Forbids any further change; returns false if one is under way.
    pub(super) fn close(&self) -> bool {
        match self.0.compare_exchange(OPEN, CLOSED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(state) => state == CLOSED,
        }
    }

    /// Begins a change, unless the gate is closed.
    pub(super) fn enter(&self) -> Option<Inside<'_>> {
        self.0
            .compare_exchange(OPEN, CHANGING, Ordering::AcqRel, Ordering::Acquire)
            .ok()
            .map(|_| Inside(self))
    }
}

/// A change under way; it ends when this is dropped.
pub(super) struct Inside<'a>(&'a Gate);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.0.store(OPEN, Ordering::Release);
    }
}
