//! Integration tests of snapshots: one module per area.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod killed;
mod landing;
mod random;
mod support;
mod taking;
