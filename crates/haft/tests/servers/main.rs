//! Is haft a good client of any MCP server, whatever that does?
#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "tests")]

mod broken;
mod guarded;
mod pinned;
#[path = "../end_to_end/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared with the tests that look at other things")]
mod program;
mod started;
mod support;
