//! What can the model do?

use std::sync::Arc;

use kit::AnyTool;

mod search;

/// Every tool, family by family.
pub fn all() -> Vec<Arc<dyn AnyTool>> {
    [search::all()].concat()
}
