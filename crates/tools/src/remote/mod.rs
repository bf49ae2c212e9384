//! What does an agent do on other machines?

use std::sync::Arc;

use kit::AnyTool;

/// The tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    Vec::new()
}
