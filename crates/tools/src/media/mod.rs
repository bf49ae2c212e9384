//! What does an agent look at, and give away?

use std::sync::Arc;

use kit::AnyTool;

/// The tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    Vec::new()
}
