//! The tools of HyperAgents, under its names.

mod bash;

use std::sync::Arc;

use kit::{AnyTool, erase};

use crate::files;

/// `editor` has HyperAgents' names and arguments as it is.
pub(super) fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![erase::<bash::Bash>(), erase::<files::editor::Editor>()]
}
