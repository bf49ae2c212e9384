//! A response as a model reads it.

use encoding_rs::{Encoding, UTF_8};
use kit::{
    net::{
        Method, Request, Response,
        header::{self, HeaderMap, HeaderName},
    },
    prelude::*,
};
use serde_json::{Value, json};

use super::HttpRequest;
use crate::files::json_tree::Node;

/// Maximum bytes of a body that are shown; a longer one needs a file.
const MOST: usize = 1 << 20;

/// Default number of bytes that are shown.
const USUAL: usize = 20_000;

/// Bytes that are read beyond those shown, so that no secret is cut in two: redaction would miss a part of one.
const AHEAD: usize = 16 * 1024;

/// Headers that are useful to a model.
const SHOWN: &[HeaderName] = &[
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::LOCATION,
    header::RETRY_AFTER,
    header::WWW_AUTHENTICATE,
    header::ALLOW,
    header::LINK,
    header::ETAG,
    header::LAST_MODIFIED,
];

/// Sends the request, and formats the response.
///
/// # Errors
/// Those of the network, and of the file that it is saved to.
pub(super) async fn answer(asked: &HttpRequest, cx: &Cx, request: Request) -> Result<Output, Fault> {
    let is_head = request.method == Method::HEAD;
    let mut response = cx.net().send(request).await?;
    let (shown, size) = match &asked.save_to {
        Some(path) if response.status.is_success() => saved(&mut response, cx, path).await?,
        _ => body(asked, cx, &mut response).await?,
    };
    let mut lines = vec![format!("HTTP {}, {}", response.status, timing(&response, &size))];
    lines.extend(response.hops.iter().map(|hop| format!("redirected: {} {}", hop.status.as_u16(), hop.url)));
    if !response.hops.is_empty() {
        lines.push(format!("url: {}", response.url));
    }
    let is_shown = |name: &HeaderName| {
        asked.all_headers
            || SHOWN.contains(name)
            || of_limits(name)
            || (is_head && *name == header::CONTENT_LENGTH)
    };
    lines.extend(
        texts(&response.headers)
            .filter(|(name, _)| is_shown(name))
            .map(|(name, value)| format!("{name}: {value}")),
    );
    if asked.save_to.is_some() && !response.status.is_success() {
        lines.push("not saved, as it is not a success".to_owned());
    }
    let text = if shown.is_empty() { lines.join("\n") } else { format!("{}\n\n{shown}", lines.join("\n")) };
    Ok(Output { structured: Some(structured(&response)), ..Output::text(text) })
}

/// Returns whether the header is about rate limits or is an id of the request.
fn of_limits(name: &HeaderName) -> bool {
    let name = name.as_str();
    ["ratelimit", "x-ratelimit", "x-rate-limit"].iter().any(|it| name.starts_with(it))
        || name == "x-request-id"
}

/// Describes the size of the body, as far as it is known.
fn size(read: usize, more: bool, response: &Response) -> String {
    // The declared size of a compressed body is smaller.
    let said = response.length().filter(|_| !response.headers.contains_key(header::CONTENT_ENCODING));
    match said {
        _ if !more => format!("{read} bytes"),
        Some(all) => format!("{all} bytes"),
        None => format!("more than {read} bytes"),
    }
}

fn timing(response: &Response, size: &str) -> String {
    let (first, all) = (response.first_byte.as_millis(), response.elapsed().as_millis());
    format!("{size}, first byte {first} ms, all {all} ms")
}

fn structured(response: &Response) -> Value {
    let mut headers = serde_json::Map::new();
    for (name, value) in texts(&response.headers) {
        match headers.get_mut(name.as_str()) {
            Some(Value::String(before)) => before.push_str(&format!(", {value}")),
            _ => drop(headers.insert(name.to_string(), Value::String(value))),
        }
    }
    json!({"status": response.status.as_u16(), "url": response.named, "headers": headers})
}

fn texts(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, String)> {
    headers.iter().map(|(name, value)| (name, String::from_utf8_lossy(value.as_bytes()).into_owned()))
}

async fn saved(response: &mut Response, cx: &Cx, path: &str) -> Result<(String, String), Fault> {
    let saved = response.save(cx, path).await?;
    Ok((format!("saved to {path}"), format!("{} bytes", saved.identity.size)))
}

/// Returns the body as text, and its size.
async fn body(asked: &HttpRequest, cx: &Cx, response: &mut Response) -> Result<(String, String), Fault> {
    let most = asked.max_bytes.unwrap_or(MOST).min(MOST);
    let (bytes, more) = response.up_to(most + AHEAD).await?;
    let size = size(bytes.len(), more, response);
    let more = more || bytes.len() > most;
    let Some(text) = decoded(&bytes, response.charset().as_deref(), more) else {
        let kind = infer::get(&bytes).map_or("binary", |it| it.mime_type());
        return Ok((format!("[{kind}, not shown; `save_to` puts it into a file]"), size));
    };
    let pretty = if !more && looks_like_json(&text) {
        Node::parse("", &text).ok().and_then(|it| it.spread(MOST))
    } else {
        None
    };
    let text = pretty.unwrap_or(text);
    // An explicit number is followed exactly.
    let most = asked.max_bytes.map_or(USUAL, |it| it.min(MOST).max(if more { 0 } else { text.len() }));
    if text.len() <= most {
        return Ok((text, size));
    }
    Ok((begun(&text, most, &size, cx), size))
}

/// Returns the first bytes of a text, up to a line's end if there is one, and how to get the rest.
fn begun(text: &str, most: usize, size: &str, cx: &Cx) -> String {
    let mut end = text.floor_char_boundary(most.min(text.len()));
    if let Some(line) = text.get(..end).and_then(|it| it.rfind('\n')).filter(|it| *it > end / 2) {
        end = line + 1;
    }
    // A secret is not cut, so that it is masked later.
    if let Some(cut) = cx.services().mask.find(text).into_iter().find(|it| it.start < end && end < it.end) {
        end = cut.start;
    }
    let begun = text.get(..end).unwrap_or_default();
    let begun = begun.trim_end_matches('\n');
    let next = "`max_bytes` shows more, up to 1 MiB, and `save_to` puts all of it into a file";
    format!("{begun}\n[the first {end} bytes of a body of {size}; {next}]")
}

fn looks_like_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
}

/// Decodes these bytes if they are text: judged by content, as declared types may be wrong.
fn decoded(bytes: &[u8], charset: Option<&str>, cut: bool) -> Option<String> {
    let said = charset.and_then(|it| Encoding::for_label(it.as_bytes()));
    let (encoding, mark) = Encoding::for_bom(bytes).unwrap_or((said.unwrap_or(UTF_8), 0));
    let bytes = bytes.get(mark..).unwrap_or_default();
    let is_wide = encoding != UTF_8 && !encoding.is_ascii_compatible();
    if !is_wide && bytes.contains(&0) {
        return None;
    }
    if encoding == UTF_8 {
        return match std::str::from_utf8(bytes) {
            Ok(text) => Some(text.to_owned()),
            // Cut in the middle of a character.
            Err(error) if cut && error.error_len().is_none() => {
                Some(String::from_utf8_lossy(bytes.get(..error.valid_up_to())?).into_owned())
            }
            // A text was declared, and most of it is valid.
            Err(_) if said.is_some() => Some(String::from_utf8_lossy(bytes).into_owned()),
            Err(_) => None,
        };
    }
    Some(encoding.decode_without_bom_handling(bytes).0.into_owned())
}
