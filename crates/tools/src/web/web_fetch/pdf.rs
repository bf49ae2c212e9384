//! The text of a PDF that a server sent, page by page.

use kit::Fault;

use super::{get::Got, text::Text};

/// Maximum number of pages.
#[cfg(feature = "pdf")]
const PAGES: usize = 300;

/// Converts the document, page by page.
#[cfg(feature = "pdf")]
pub(super) fn read(got: &mut Got) -> Result<Text, Fault> {
    use super::markdown::clean;
    use crate::media::pdf;

    if got.more {
        let what = format!("{} is a PDF of more than {} MB", got.url, got.body.len() >> 20);
        return Err(Fault::new(kit::Kind::TooBig, what).hint(
            "[?`tool:http_request` with `arg:http_request.save_to` puts it into a file for `tool:read`.?]",
        ));
    }
    let found = pdf::text(std::mem::take(&mut got.body), 0..PAGES)?;
    let pages = found.pages.iter().enumerate();
    let blocks = pages
        .map(|(at, page)| format!("## Page {} of {}\n\n{}", at + 1, found.total, clean(page.text.trim())));
    let mut text = Text { body: blocks.collect::<Vec<_>>().join("\n\n"), ..Text::default() };
    if found.pages.len() < found.total {
        text.notes.push(format!("the first {} of {} pages", found.pages.len(), found.total));
    }
    text.notes.extend(found.caution());
    Ok(text)
}

/// Explains that this build can't read PDFs.
#[cfg(not(feature = "pdf"))]
pub(super) fn read(got: &mut Got) -> Result<Text, Fault> {
    let what = format!("{} is a PDF, and this haft was built without reading them", got.url);
    Err(Fault::new(kit::Kind::Unavailable, what)
        .hint("[?`tool:http_request` with `arg:http_request.save_to` puts it into a file.?]"))
}
