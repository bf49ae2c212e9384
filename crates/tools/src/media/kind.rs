//! File types, by content.

/// Bytes of a file that are examined.
pub(crate) const HEAD: usize = 8 << 10;

/// The type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileKind {
    /// Its media type.
    pub(crate) mime: &'static str,
    /// The way in which it can be shown to a person, if any.
    pub(crate) shown: Option<&'static str>,
    /// Whether it may be shown within a page: it has no active content.
    pub(crate) inline: bool,
}

/// Returns the type of a file with this beginning and size. Its name only distinguishes kinds of text.
pub(crate) fn of(head: &[u8], bytes: u64, name: &str) -> FileKind {
    let inline = |mime, shown| FileKind { mime, shown: Some(shown), inline: true };
    let apart = |mime, shown| FileKind { mime, shown, inline: false };
    if let Some(page) = markup(head) {
        return apart(page, Some(if page == "image/svg+xml" { "image" } else { "html" }));
    }
    if let Some(found) = infer::get(head) {
        let mime = found.mime_type();
        return match mime.split('/').next().unwrap_or_default() {
            "image" if SHOWN_PICTURES.contains(&mime) => inline(mime, "image"),
            "video" => inline(mime, "video"),
            "audio" => inline(mime, "audio"),
            _ if mime == "application/pdf" => inline(mime, "pdf"),
            _ if mime == "text/html" => apart(mime, Some("html")),
            _ => apart(mime, None),
        };
    }
    if is_stl(head, bytes) {
        return apart("model/stl", Some("stl"));
    }
    if !is_text(head) {
        return apart("application/octet-stream", None);
    }
    match name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).as_deref() {
        Some("md" | "markdown") => inline("text/markdown", "markdown"),
        Some("csv") => inline("text/csv", "csv"),
        Some("json" | "ipynb") => inline("application/json", "text"),
        Some("html" | "htm" | "xhtml") => apart("text/html", Some("html")),
        _ => inline("text/plain", "text"),
    }
}

/// Pictures that every browser shows.
const SHOWN_PICTURES: [&str; 5] = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"];

/// Returns the type of content that a browser would take for a page, or for a drawing with scripts.
fn markup(head: &[u8]) -> Option<&'static str> {
    let head = String::from_utf8_lossy(head.get(..head.len().min(4096)).unwrap_or_default()).to_lowercase();
    let head = head.trim_start_matches('\u{feff}').trim_start();
    if !head.starts_with('<') {
        return None;
    }
    let at = |tags: &[&str]| tags.iter().filter_map(|tag| head.find(tag)).min();
    let page = at(&["<!doctype html", "<html", "<head", "<body", "<script", "<iframe"]);
    let drawing = at(&["<svg", ":svg"]);
    match (page, drawing) {
        (Some(page), Some(drawing)) if drawing < page => Some("image/svg+xml"),
        (Some(_), _) => Some("text/html"),
        (None, Some(_)) => Some("image/svg+xml"),
        (None, None) => None,
    }
}

/// Returns whether this is the beginning of a text.
pub(crate) fn is_text(head: &[u8]) -> bool {
    let valid = match str::from_utf8(head) {
        Ok(_) => true,
        // The end of the examined bytes may cut a character in two.
        Err(error) => error.error_len().is_none() && head.len() >= HEAD,
    };
    valid && !head.contains(&0)
}

/// Returns whether it is a model for printing: a header, the number of triangles, and fifty bytes for each;
/// or the text form.
fn is_stl(head: &[u8], bytes: u64) -> bool {
    if head.starts_with(b"solid") && head.windows(5).any(|it| it == b"facet") {
        return true;
    }
    let count = head.get(80..84).and_then(|it| <[u8; 4]>::try_from(it).ok()).map(u32::from_le_bytes);
    count.is_some_and(|count| count > 0 && bytes == 84 + 50 * u64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &[u8], name: &str, mime: &str, shown: Option<&str>, inline: bool) {
        let kind = of(head, head.len() as u64, name);
        assert_eq!((kind.mime, kind.shown, kind.inline), (mime, shown, inline), "{name}");
    }

    #[test]
    fn the_content_says_what_a_file_is() {
        check(b"\x89PNG\r\n\x1a\n....", "a.html", "image/png", Some("image"), true);
        check(b"%PDF-1.7 ...", "x.png", "application/pdf", Some("pdf"), true);
        check(b"<!DOCTYPE html><p>", "a.png", "text/html", Some("html"), false);
        check(b"\n<script>alert(1)</script>", "a.md", "text/html", Some("html"), false);
        check(b"<?xml version='1.0'?><svg onload='x()'/>", "a.txt", "image/svg+xml", Some("image"), false);
        check(b"# head\n", "a.md", "text/markdown", Some("markdown"), true);
        check(b"a,b\n1,2\n", "a.csv", "text/csv", Some("csv"), true);
        check(b"{}", "a.ipynb", "application/json", Some("text"), true);
        check(b"fn main() {}", "main.rs", "text/plain", Some("text"), true);
        check(b"PK\x03\x04....", "a.png", "application/zip", None, false);
        check(b"\0\x01\x02\x03", "a.txt", "application/octet-stream", None, false);
        check(b"solid x\nfacet normal 0 0 0", "a", "model/stl", Some("stl"), false);
        let mut binary = vec![7; 84 + 50];
        binary.splice(80..84, [1, 0, 0, 0]);
        check(&binary, "a", "model/stl", Some("stl"), false);
    }
}
