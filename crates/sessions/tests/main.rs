//! The session service through its public interface.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod approvals;
mod inbox;
mod killed;
mod many;
mod operations;
mod property;
mod resumed;
mod socket;
mod support;
