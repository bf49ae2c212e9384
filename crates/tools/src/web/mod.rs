//! What does an agent do on the web?

use std::sync::Arc;

use kit::AnyTool;

/// The tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    Vec::new()
}
