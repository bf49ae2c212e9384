//! The tools of HyperAgents, under its names.

mod bash;
mod editor;

use std::sync::Arc;

use kit::{AnyTool, erase};

pub(super) fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![erase::<bash::Bash>(), erase::<editor::Editor>()]
}
