//! Fetching a page.

use kit::{
    Cx, Fault, Kind,
    net::{Hop, Request, Response, Url, header},
};
use serde::{Deserialize, Serialize};

/// Maximum bytes of a page, and of a PDF.
pub(super) const LARGEST_PAGE: usize = 8 << 20;
const LARGEST_PDF: usize = 40 << 20;

/// Maximum bytes of an error page.
const LARGEST_ERROR: usize = 512 << 10;

/// Prefers text if a site offers both.
const ACCEPT: &str = "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, */*;q=0.8";
const WHO: &str = concat!("Mozilla/5.0 (compatible; haft/", env!("CARGO_PKG_VERSION"), ")");

/// A server's response.
#[derive(Serialize, Deserialize)]
pub(super) struct Got {
    /// Its address after all redirects.
    #[serde(with = "as_text")]
    pub(super) url: Url,
    /// Its media type: as declared, or by its content if none is declared.
    pub(super) kind: String,
    /// The declared encoding.
    pub(super) charset: Option<String>,
    /// Sent separately to a worker.
    #[serde(skip)]
    pub(super) body: Vec<u8>,
    /// Its length, if it is known.
    pub(super) length: Option<u64>,
    /// Whether it was truncated.
    pub(super) more: bool,
    /// Whether its scripts have run.
    pub(super) rendered: bool,
    pub(super) status: u16,
    /// Notes on the response.
    pub(super) notes: Vec<String>,
    /// The server's `Retry-After`.
    retry_after: Option<String>,
    /// Whether a challenge page admits only browsers.
    is_challenge: bool,
}

/// Serializes an address as text.
mod as_text {
    use kit::net::Url;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(url: &Url, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(url.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Url, D::Error> {
        Url::parse(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// Fetches an address. Only the beginning of binary content is read.
pub(super) async fn get(cx: &Cx, url: Url) -> Result<Got, Fault> {
    let mut request = Request::get(url.clone());
    let own = [(header::USER_AGENT, WHO), (header::ACCEPT, ACCEPT), (header::ACCEPT_LANGUAGE, "en, *;q=0.5")];
    for (name, value) in own {
        request.headers.insert(name, header::HeaderValue::from_static(value));
    }
    let mut answer = cx.net().send(request).await?;
    // A supported encoding has been unpacked already, and the header removed.
    if let Some(packed) = header_text(&answer, header::CONTENT_ENCODING).filter(|it| it != "identity") {
        let what = format!("{} answers in the encoding `{packed}`, which was not asked for", answer.url);
        return Err(Fault::new(Kind::Failed, what)
            .hint("[?`tool:http_request` with `arg:http_request.save_to` keeps the bytes as they came; a command may unpack them.?]"));
    }
    let first = answer.chunk().await?.unwrap_or_default();
    let kind = kind_of(&answer, &first);
    let most = match kind.as_str() {
        "application/pdf" => LARGEST_PDF,
        _ if !answer.status.is_success() => LARGEST_ERROR,
        kind if is_readable(kind) => LARGEST_PAGE,
        _ => 0,
    };
    let mut body = first.to_vec();
    let mut more = body.len() > most;
    if !more && most > 0 {
        let (rest, is_more) = answer.up_to(most - body.len()).await?;
        body.extend(rest);
        more = is_more;
    }
    body.truncate(most.max(LARGEST_ERROR));
    let charset = header_text(&answer, header::CONTENT_TYPE).and_then(|it| {
        let (_, said) = it.split_once("charset=").or_else(|| it.split_once("Charset="))?;
        Some(said.split(';').next()?.trim().trim_matches(['"', '\'']).to_owned())
    });
    Ok(Got {
        notes: redirect_note(&answer.hops, &answer.url).into_iter().collect(),
        retry_after: header_text(&answer, header::RETRY_AFTER),
        is_challenge: answer.headers.contains_key("cf-mitigated"),
        status: answer.status.as_u16(),
        length: answer.length(),
        url: answer.url.clone(),
        kind,
        charset,
        body,
        more,
        rendered: false,
    })
}

impl Got {
    /// Creates a page of HTML from a browser, with this status; zero, if it is unknown.
    pub(super) fn page(url: Url, status: u16, body: Vec<u8>) -> Self {
        Self {
            url,
            kind: "text/html".to_owned(),
            charset: Some("utf-8".to_owned()),
            body,
            length: None,
            more: false,
            rendered: true,
            status: if status == 0 { 200 } else { status },
            notes: Vec::new(),
            retry_after: None,
            is_challenge: false,
        }
    }

    /// Returns the fault for an error response: the server's message, in short.
    pub(super) fn fault(&self, says: &str) -> Option<Fault> {
        if (200..300).contains(&self.status) && !self.is_challenge {
            return None;
        }
        let reason = kit::net::StatusCode::from_u16(self.status)
            .ok()
            .and_then(|it| it.canonical_reason())
            .unwrap_or("");
        let mut what = format!("{} answers {} {reason}", self.url, self.status).trim_end().to_owned();
        for note in &self.notes {
            what.push_str(&format!(" ({note})"));
        }
        if !says.is_empty() {
            what.push_str(&format!(": {says}"));
        }
        let (kind, next) = match self.status {
            _ if self.is_challenge => (
                Kind::Unavailable,
                "A guard before this site lets in only browsers with a person; take another source for it.".to_owned(),
            ),
            404 | 410 => (Kind::NotFound, "Look for the right address on a page above it[?, or with `tool:web_search`?].".to_owned()),
            401 | 407 => (
                Kind::Failed,
                "It wants a login[?; `tool:http_request` can send a header with a secret that a person named?].".to_owned(),
            ),
            403 | 451 => (
                Kind::Failed,
                "The site does not let this reader in; [?`arg:web_fetch.render`: true asks as a browser, or ?]take another source.".to_owned(),
            ),
            429 | 503 => (
                Kind::Unavailable,
                match &self.retry_after {
                    Some(after) => format!("It is busy: come again after {after}{}.", unit(after)),
                    None => "It is busy: come again later, or take another source.".to_owned(),
                },
            ),
            500.. => (Kind::Unavailable, "The fault is on that side: try again later, or take another source.".to_owned()),
            300..=399 => (Kind::Failed, "It names no place to go on to.".to_owned()),
            _ => (Kind::Failed, "Check the address.".to_owned()),
        };
        Some(Fault::new(kind, what).hint(next))
    }
}

/// Returns the unit of a number of seconds; otherwise it is a date.
fn unit(after: &str) -> &'static str {
    if after.bytes().all(|it| it.is_ascii_digit()) { " s" } else { "" }
}

/// Returns a note if another host answered after redirects.
fn redirect_note(hops: &[Hop], last: &Url) -> Option<String> {
    let first = hops.first()?;
    let www = |it: &Url| it.host_str().unwrap_or_default().trim_start_matches("www.").to_owned();
    (www(&first.url) != www(last)).then(|| format!("redirected from {} to another host", first.url))
}

/// Returns its media type, in lower case and without parameters.
fn kind_of(answer: &Response, first: &[u8]) -> String {
    let said = answer.media_type();
    let says_nothing = matches!(
        said.as_str(),
        "" | "application/octet-stream" | "binary/octet-stream" | "application/x-download"
    );
    let found = infer::get(first).map(|it| it.mime_type());
    if first.starts_with(b"%PDF-") {
        return "application/pdf".to_owned();
    }
    // A picture that a server declares as text is still a picture.
    if let Some(found) =
        found.filter(|it| says_nothing || (said.starts_with("text/") && !it.starts_with("text/")))
    {
        return found.to_owned();
    }
    if !says_nothing {
        return said;
    }
    let head = String::from_utf8_lossy(first.get(..first.len().min(512)).unwrap_or_default())
        .trim_start()
        .to_ascii_lowercase();
    let kind = match () {
        () if head.starts_with("<!doctype html") || head.starts_with("<html") => "text/html",
        () if head.starts_with('{') || head.starts_with('[') => "application/json",
        () if head.starts_with("<?xml") => "application/xml",
        () if first.contains(&0) => "application/octet-stream",
        () => "text/plain",
    };
    kind.to_owned()
}

/// Returns whether this type can be shown as text.
pub(super) fn is_readable(kind: &str) -> bool {
    let known = [
        "application/json",
        "application/xml",
        "application/javascript",
        "application/x-javascript",
        "application/ecmascript",
        "application/toml",
        "application/yaml",
        "application/x-yaml",
        "application/x-ndjson",
        "application/jsonl",
        "application/sql",
        "application/x-sh",
        "application/graphql",
        "application/x-www-form-urlencoded",
        "application/pgp-signature",
        "message/rfc822",
        "image/svg+xml",
    ];
    kind.starts_with("text/") || kind.ends_with("+json") || kind.ends_with("+xml") || known.contains(&kind)
}

fn header_text(answer: &Response, name: header::HeaderName) -> Option<String> {
    Some(String::from_utf8_lossy(answer.headers.get(name)?.as_bytes()).into_owned())
}
