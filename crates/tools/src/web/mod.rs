//! Web tools: fetch, search, and raw requests.

mod address;
pub(crate) mod http_request;
pub(crate) mod web_fetch;
pub(crate) mod web_search;

use std::sync::Arc;

use kit::{AnyTool, erase};

pub(crate) use web_fetch::ReadAsText;
pub use web_fetch::page_as_markdown;
pub(crate) use web_search::ReadResults;

/// The tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![
        erase::<http_request::HttpRequest>(),
        erase::<web_fetch::WebFetch>(),
        erase::<web_search::WebSearch>(),
    ]
}
