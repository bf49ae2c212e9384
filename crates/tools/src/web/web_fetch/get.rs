//! Fetching a page.

use kit::{
    Cx, Fault, Kind,
    net::{Hop, Request, Response, Url, header},
};
use serde::{Deserialize, Serialize};

/// The most of a page that is read, and of a PDF.
pub(super) const LARGEST_PAGE: usize = 8 << 20;
const LARGEST_PDF: usize = 40 << 20;

/// How much of an error's page is looked at.
const LARGEST_ERROR: usize = 512 << 10;

/// Text comes first where a site has it both ways.
const ACCEPT: &str = "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, */*;q=0.8";
const WHO: &str = concat!("Mozilla/5.0 (compatible; haft/", env!("CARGO_PKG_VERSION"), ")");

/// What a server sent.
#[derive(Serialize, Deserialize)]
pub(super) struct Got {
    /// Where it came from in the end.
    #[serde(with = "as_text")]
    pub(super) url: Url,
    /// What it is: as the server says, or by its content where that says nothing.
    pub(super) kind: String,
    /// The encoding that the server names.
    pub(super) charset: Option<String>,
    /// Apart from the rest where it is sent to a worker.
    #[serde(skip)]
    pub(super) body: Vec<u8>,
    /// How long it is, if that is known.
    pub(super) length: Option<u64>,
    /// There is more of it.
    pub(super) more: bool,
    /// Its scripts have run.
    pub(super) rendered: bool,
    pub(super) status: u16,
    /// What is to be known of how it came.
    pub(super) notes: Vec<String>,
    /// When to come again, as the server says.
    retry_after: Option<String>,
    /// Something stands before the server that lets only browsers in.
    is_challenge: bool,
}

/// An address as the text that it is.
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

/// Asks for what stands there. Of what is not text only the beginning is read.
pub(super) async fn get(cx: &Cx, url: Url) -> Result<Got, Fault> {
    let mut request = Request::get(url.clone());
    let own = [(header::USER_AGENT, WHO), (header::ACCEPT, ACCEPT), (header::ACCEPT_LANGUAGE, "en, *;q=0.5")];
    for (name, value) in own {
        request.headers.insert(name, header::HeaderValue::from_static(value));
    }
    let mut answer = cx.net().send(request).await?;
    // What was offered and understood is unpacked by now, and the header gone.
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
    /// A page of HTML that a browser had, with this status; zero, if it is not known.
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

    /// The fault for an answer that is none: what the server says, in short.
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

/// A number is of seconds; otherwise it is a date.
fn unit(after: &str) -> &'static str {
    if after.bytes().all(|it| it.is_ascii_digit()) { " s" } else { "" }
}

/// What is said of redirects: that another host answers than was asked.
fn redirect_note(hops: &[Hop], last: &Url) -> Option<String> {
    let first = hops.first()?;
    let www = |it: &Url| it.host_str().unwrap_or_default().trim_start_matches("www.").to_owned();
    (www(&first.url) != www(last)).then(|| format!("redirected from {} to another host", first.url))
}

/// What it is, in small letters and without parameters.
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
    // A picture is none the less one where a server calls it text.
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

/// Can what is of this kind be shown as text?
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
