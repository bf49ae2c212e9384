//! Does a conversation of the shipped program survive whatever becomes of its process?
#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "tests")]

mod killed;
mod stopped;
mod support;
