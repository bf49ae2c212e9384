//! Do tools that are files work as the others do, whatever is in them; and those that a model writes?
#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "tests")]

mod calls;
mod command_line;
mod crashes;
mod denied;
mod folders;
mod formats;
mod grants;
mod hostile;
mod manuals;
mod missing;
mod new_tool;
mod packages;
#[path = "../end_to_end/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared with the tests that look at other things")]
mod program;
mod programs;
mod reload;
mod support;
mod toolsmith;
mod trust;
#[path = "../sandbox/uv.rs"]
mod uv;
