//! `read` for files that are not text: shows a picture, reads a PDF page by page.

use kit::{Cx, Fault, Kind, Output, text::Content};
use tokio::runtime::Handle;

use super::{Wish, picture, view};

/// Maximum bytes of a picture or document.
const MOST_BYTES: usize = 20 << 20;

/// Default number of pages.
#[cfg(feature = "pdf")]
const PAGES: usize = 20;

/// Maximum bytes of a document's text in one answer.
#[cfg(feature = "pdf")]
const TEXT: usize = 96 << 10;

/// Reads a picture, or the text of a document, whose pages are counted by `offset` and `limit`; `None` for
/// any other file. Blocks.
pub(crate) fn read(
    cx: &Cx,
    path: &str,
    bytes: &Content,
    offset: Option<i64>,
    limit: Option<usize>,
) -> Option<Result<Output, Fault>> {
    let is_picture = picture::format_of(bytes).is_some();
    #[cfg(feature = "pdf")]
    let is_pdf = super::pdf::is_pdf(bytes);
    #[cfg(not(feature = "pdf"))]
    let is_pdf = false;
    if !is_picture && !is_pdf {
        return None;
    }
    if bytes.len() > MOST_BYTES {
        let what = format!(
            "`{path}` has {} bytes; at most {MOST_BYTES} of a picture or a PDF are read",
            bytes.len()
        );
        return Some(Err(Fault::new(Kind::TooBig, what)));
    }
    #[cfg(feature = "pdf")]
    if is_pdf {
        return Some(pages(cx, path, bytes, offset, limit));
    }
    let _ = (offset, limit);
    // This thread may block.
    Some(Handle::current().block_on(view(cx, path, bytes, Wish::default())))
}

#[cfg(feature = "pdf")]
fn pages(
    cx: &Cx,
    path: &str,
    bytes: &Content,
    offset: Option<i64>,
    limit: Option<usize>,
) -> Result<Output, Fault> {
    let first = match offset {
        None => 0,
        Some(offset) => usize::try_from(offset.saturating_sub(1)).map_err(|_| {
            Fault::bad_args(format!("`offset` is {offset}; of a PDF it is the first page, from 1"))
        })?,
    };
    let pages = first..first.saturating_add(limit.unwrap_or(PAGES));
    let what = format!("`{path}`");
    let found = cx
        .decode_blocking(&what, super::ReadPages { pages }, bytes)
        .map_err(|fault| {
            let is_said = fault.what.starts_with(&what);
            let said = if is_said { fault.what } else { format!("{what} can't be read: {}", fault.what) };
            Fault { what: said, ..fault }
        })?
        .answer;
    let mut shown = String::new();
    let mut last = first;
    for page in &found.pages {
        if last > first && shown.len() + page.text.len() > TEXT {
            break;
        }
        last += 1;
        shown.push_str(&format!("--- page {last} ---\n{}\n", page.text));
    }
    let next = if last < found.total { format!("; next: offset {}", last + 1) } else { String::new() };
    shown.push_str(&format!("[PDF, pages {}-{last} of {}{next}]", first + 1, found.total));
    if let Some(caution) = found.caution() {
        shown.push_str(&format!("\n{}", cx.named(&caution)));
    }
    Ok(Output::page(shown))
}
