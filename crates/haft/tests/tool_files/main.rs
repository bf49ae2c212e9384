//! Do tools that are files, and those that a model writes, work in the shipped program?
#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "tests")]

mod new_tool;
#[path = "../end_to_end/support/mod.rs"]
#[expect(dead_code, reason = "shared with the tests that look at other things")]
mod support;
mod toolsmith;
