//! File types, by content.

/// How far a content is looked at.
pub(crate) const HEAD: usize = 8 << 10;

/// Of which kind a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileKind {
    /// Its media type.
    pub(crate) mime: &'static str,
    /// As what it is shown to a person, where it can be.
    pub(crate) shown: Option<&'static str>,
    /// It may be shown within a page: there is nothing in it that runs.
    pub(crate) inline: bool,
}

/// The kind of a file that begins so and has so many bytes. Its name tells kinds of text apart, and nothing else.
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

/// What a browser would take for a page, or for a drawing that may have scripts.
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

/// Is this the beginning of a text?
pub(crate) fn is_text(head: &[u8]) -> bool {
    let valid = match str::from_utf8(head) {
        Ok(_) => true,
        // The end of what is looked at may cut a character in two.
        Err(error) => error.error_len().is_none() && head.len() >= HEAD,
    };
    valid && !head.contains(&0)
}

/// A model for printing: a heading, the number of triangles, and fifty bytes for each; or the same as text.
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
