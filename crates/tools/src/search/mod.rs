//! Search tools: by name, by content, and as a tree.

mod glob;
mod grep;
pub(crate) mod lines;
mod matches;
pub(crate) mod names;
pub(crate) mod page;
pub(crate) mod tree;

use std::sync::Arc;

use kit::{AnyTool, erase};

/// The tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![erase::<glob::Glob>(), erase::<grep::Grep>(), erase::<tree::Tree>()]
}
