//! The page: its files, embedded in the program, and compressed once.

use std::{io::Write as _, sync::LazyLock};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{StatusCode, header};
use kit::base64;
use sha2::{Digest as _, Sha256};

use crate::{answer::Answer, call::Call, problem::Problem};

include!(concat!(env!("OUT_DIR"), "/page_files.rs"));

/// The policy of the page: nothing from elsewhere, and no text becomes HTML or a script. The one inline style is that of the frame.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = base64::encoded(&Sha256::digest(find(FRAME).unwrap_or_default()));
    format!("style-src 'self' 'sha256-{hash}'; {OTHERS}")
});

const OTHERS: &str = "default-src 'none'; script-src 'self'; img-src 'self' blob: data:; connect-src 'self'; \
    media-src 'self' blob:; frame-src 'self' blob:; font-src 'self'; manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; \
    form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// The page's own file, and the style of its frame, which the page has in itself.
const PAGE: &str = "index.html";
const FRAME: &str = "frame.css";

/// A file as it is sent.
struct Sent {
    name: &'static str,
    plain: Bytes,
    /// The same by gzip, where that is shorter.
    gzip: Option<Bytes>,
    /// The hash of the content.
    hash: String,
}

/// All files as they are sent.
static SENT: LazyLock<Vec<Sent>> = LazyLock::new(|| {
    let sent = |name: &'static str, plain: Bytes| {
        let gzip = gzip(&plain).filter(|it| it.len() < plain.len());
        Sent { name, hash: hash(&plain), gzip, plain }
    };
    let mut all: Vec<Sent> =
        FILES.iter().map(|&(name, bytes)| sent(name, Bytes::from_static(bytes))).collect();
    if let Some(at) = all.iter().position(|it| it.name == PAGE) {
        let page = all.swap_remove(at);
        let text = with_hashes(&String::from_utf8_lossy(&page.plain), &all);
        all.push(sent(PAGE, text.into()));
    }
    all
});

/// Compresses the files, so that the first request needs not wait for that. Blocks.
pub(crate) fn prepare() {
    LazyLock::force(&SENT);
}

fn gzip(plain: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

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

/// Puts the hash of each file into its address, so that a browser may keep it. The addresses of modules have no quotes in the page:
/// they have to be the ones by which modules import each other.
fn with_hashes(page: &str, files: &[Sent]) -> String {
    let mut text = page.to_owned();
    for Sent { name, hash, .. } in files {
        text = text.replace(&format!("\"/assets/{name}\""), &format!("\"/assets/{name}?v={hash}\""));
    }
    let frame = String::from_utf8_lossy(find(FRAME).unwrap_or_default());
    text.replace("<style></style>", &format!("<style>{frame}</style>"))
}

/// Answers with the page.
pub(crate) fn page(call: &Call) -> Result<Answer, Problem> {
    file(call, PAGE)
}

/// Answers with a file of the page.
pub(crate) fn asset(call: &Call, name: &str) -> Result<Answer, Problem> {
    if name == PAGE {
        return Err(Problem::missing(format!("`{PAGE}` is not among the assets")).next("It is at `/`."));
    }
    file(call, name)
}

fn file(call: &Call, name: &str) -> Result<Answer, Problem> {
    let Some(sent) = SENT.iter().find(|it| it.name == name) else {
        return Err(Problem::missing(format!("the page has no file `{name}`"))
            .next("Reload the page: after an update of haft its files have other names."));
    };
    let encodings = call.header(header::ACCEPT_ENCODING).unwrap_or_default();
    let gzip = sent.gzip.as_ref().filter(|_| takes_gzip(encodings));
    // The two are different bytes, so each has a tag of its own.
    let tag = if gzip.is_some() { format!("\"{}-gzip\"", sent.hash) } else { format!("\"{}\"", sent.hash) };
    let is_tag = |it: &str| it.trim().trim_start_matches("W/") == tag;
    let is_known = call.header(header::IF_NONE_MATCH).is_some_and(|it| it.split(',').any(is_tag));
    let keep = if call.query.get("v") == Some(&sent.hash) {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let mut answer = if is_known {
        Answer::nothing().status(StatusCode::NOT_MODIFIED)
    } else {
        Answer::bytes(StatusCode::OK, mime(name), gzip.unwrap_or(&sent.plain).clone())
    };
    if gzip.is_some() && !is_known {
        answer = answer.header(header::CONTENT_ENCODING, "gzip");
    }
    if sent.gzip.is_some() {
        answer = answer.header(header::VARY, "Accept-Encoding");
    }
    Ok(answer
        .header(header::ETAG, &tag)
        .header(header::CACHE_CONTROL, keep)
        .header(header::CONTENT_SECURITY_POLICY, &POLICY))
}

/// Returns whether a client takes gzip, by its `Accept-Encoding`.
fn takes_gzip(encodings: &str) -> bool {
    let weight = |wanted: &str| {
        encodings.split(',').find_map(|it| {
            let (name, parameters) = it.split_once(';').unwrap_or((it, ""));
            let weight =
                parameters.trim().strip_prefix("q=").map_or(1.0, |it| it.trim().parse().unwrap_or(0.0));
            name.trim().eq_ignore_ascii_case(wanted).then_some(weight)
        })
    };
    weight("gzip").or_else(|| weight("*")).is_some_and(|it: f32| it > 0.0)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// The largest weight of the page, in bytes: 60 KB.
    const MOST: usize = 60 << 10;

    fn find(name: &str) -> &'static Sent {
        SENT.iter().find(|it| it.name == name).unwrap()
    }

    #[test]
    fn the_page_is_embedded_and_asks_for_nothing_from_elsewhere() {
        for (name, bytes) in FILES {
            if name.ends_with(".html") || name.ends_with(".css") {
                let text = String::from_utf8_lossy(bytes);
                for foreign in ["src=\"http", "href=\"http", "url(http", "@import"] {
                    assert!(!text.contains(foreign), "{name} has {foreign}");
                }
            }
        }
    }

    #[test]
    fn the_first_screen_weighs_at_most_60_kb_as_it_is_sent() {
        let page = String::from_utf8_lossy(&find(PAGE).plain).into_owned();
        let named = page.split("/assets/").skip(1).map(|it| it.split(['?', '"', '>']).next().unwrap());
        let mut loaded = vec![PAGE];
        loaded.extend(named);
        assert!(loaded.contains(&"app.js") && loaded.contains(&"style.css"), "{loaded:?}");
        let weights: Vec<(&str, usize)> = loaded
            .into_iter()
            .map(|name| {
                let sent = find(name);
                (name, sent.gzip.as_ref().unwrap_or(&sent.plain).len())
            })
            .collect();
        let sum: usize = weights.iter().map(|it| it.1).sum();
        assert!(sum <= MOST, "the page weighs {sum} bytes, and may weigh {MOST}: {weights:?}");
    }

    #[test]
    fn gzip_is_sent_to_whoever_takes_it() {
        for takes in ["gzip", "br, gzip;q=0.5", "*", "deflate, GZIP ; q=1", "identity;q=0.5, *;q=0.1"] {
            assert!(takes_gzip(takes), "{takes}");
        }
        for refuses in ["", "br", "gzip;q=0", "identity", "gzip;q=0, *;q=1", "gzip;q=0.000", "x-gzipped"] {
            assert!(!takes_gzip(refuses), "{refuses}");
        }
    }
}
