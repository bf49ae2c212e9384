//! Does an idea become a solid part, on the shipped binary, with the real OpenSCAD?
#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "tests")]

#[path = "../end_to_end/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared with the tests that look at other things")]
mod program;

mod golden;
mod hostile;
mod part;
