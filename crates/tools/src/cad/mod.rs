//! How does an idea become a solid part?

use std::sync::Arc;

use kit::AnyTool;

/// The tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    Vec::new()
}
