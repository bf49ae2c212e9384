//! How does a PDF read?

use kit::{Cx, Fault, Kind};

use super::{get::Got, text::Text};

/// The text of the document, page by page.
pub(super) fn read(_cx: &Cx, got: &Got) -> Result<Text, Fault> {
    Err(Fault::new(
        Kind::Unavailable,
        format!("{} is a PDF, and this haft was built without reading them", got.url),
    )
    .next("`http_request` with `save_to` puts it into a file."))
}
