//! The page: its files, embedded in the program.

use http::{StatusCode, header};

use crate::{answer::Answer, call::Call, problem::Problem};

include!(concat!(env!("OUT_DIR"), "/page_files.rs"));

/// The policy of the page: nothing from elsewhere, and no text becomes HTML or a script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; \
    media-src 'self' blob:; frame-src 'self' blob:; font-src 'self'; manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; \
    form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Returns the media type of a file of the page.
fn mime(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|it| it.1) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("webmanifest") => "application/manifest+json",
        _ => "application/octet-stream",
    }
}

pub(crate) fn find(name: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|it| it.0 == name).map(|it| it.1)
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().chars().take(16).collect()
}

/// Answers with the page.
pub(crate) fn page(call: &Call) -> Answer {
    let text = String::from_utf8_lossy(find("index.html").unwrap_or_default()).into_owned();
    send(call, "index.html", with_hashes(&text).into_bytes())
}

/// Puts the hash of each file into its address, so that a browser may keep it.
fn with_hashes(page: &str) -> String {
    let mut text = page.to_owned();
    for (name, bytes) in FILES {
        text = text.replace(&format!("\"/assets/{name}\""), &format!("\"/assets/{name}?v={}\"", hash(bytes)));
    }
    text
}

/// Answers with a file of the page.
pub(crate) fn asset(call: &Call, name: &str) -> Result<Answer, Problem> {
    let bytes = find(name).filter(|_| name != "index.html");
    let bytes = bytes.ok_or_else(|| Problem::missing(format!("the page has no file `{name}`")))?;
    Ok(send(call, name, bytes.to_vec()))
}

fn send(call: &Call, name: &str, bytes: Vec<u8>) -> Answer {
    let hash = hash(&bytes);
    let tag = format!("\"{hash}\"");
    let is_known =
        call.header(header::IF_NONE_MATCH).is_some_and(|it| it.split(',').any(|it| it.trim() == tag));
    let keep =
        if call.query.get("v") == Some(&hash) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let answer = if is_known {
        Answer::nothing().status(StatusCode::NOT_MODIFIED)
    } else {
        Answer::bytes(StatusCode::OK, mime(name), bytes)
    };
    answer
        .header(header::ETAG, &tag)
        .header(header::CACHE_CONTROL, keep)
        .header(header::CONTENT_SECURITY_POLICY, POLICY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_embedded_and_asks_for_nothing_from_elsewhere() {
        assert!(find("index.html").is_some());
        for (name, bytes) in FILES {
            if name.ends_with(".html") || name.ends_with(".css") {
                let text = String::from_utf8_lossy(bytes);
                for foreign in ["src=\"http", "href=\"http", "url(http", "@import"] {
                    assert!(!text.contains(foreign), "{name} has {foreign}");
                }
            }
        }
    }
}
