//! What does an agent do on the web?

mod http_request;

use std::sync::Arc;

use kit::{AnyTool, erase};

/// The tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![erase::<http_request::HttpRequest>()]
}
