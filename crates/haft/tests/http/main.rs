//! What does `haft mcp --http` do for those who may, and to those who may not?
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "tests"
)]

mod attacks;
mod killed;
mod names;
mod sessions;
mod slow;
mod support;
