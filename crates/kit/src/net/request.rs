//! Requests.

use std::time::Duration;

use reqwest::{
    Method, Url,
    header::{self, HeaderMap, HeaderName},
};

use super::Body;
use crate::Fault;

/// One request, with its limits.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its method.
    pub method: Method,
    /// Its address.
    pub url: Url,
    /// The name of the address in messages, if the address contains a secret.
    pub named: Option<String>,
    /// Its headers. A sensitive one goes to no other origin.
    pub headers: HeaderMap,
    /// Its body. A sensitive one goes to no other origin.
    pub body: Option<Body>,
    /// Maximum number of redirects; each is checked like a request of its own.
    pub redirects: usize,
    /// Whether a redirect to another host is refused.
    pub stays: bool,
    /// Time limit of the whole request, up to the last byte of the body.
    pub within: Duration,
    /// Time limit for silence in the middle of the body.
    pub silence: Duration,
    /// Whether the response body is returned as it was sent, not unpacked.
    pub as_sent: bool,
}

impl Request {
    /// Creates a request that follows at most ten redirects and takes at most half a minute.
    pub fn new(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            named: None,
            headers: HeaderMap::new(),
            body: None,
            redirects: 10,
            stays: false,
            within: Duration::from_secs(30),
            silence: Duration::from_secs(15),
            as_sent: false,
        }
    }

    /// Creates a GET request.
    pub fn get(url: Url) -> Self {
        Self::new(Method::GET, url)
    }

    /// Returns the name of the address in messages.
    pub(super) fn name(&self) -> &str {
        self.named.as_deref().unwrap_or(self.url.as_str())
    }

    /// Returns whether it only reads.
    pub(super) fn looks(&self) -> bool {
        self.body.is_none() && only_looks(&self.method, self.headers.keys().map(HeaderName::as_str))
    }

    /// Returns its headers. Headers of the connection are refused: they could turn one request into two, or
    /// send it to a host other than the one that was checked.
    pub(super) fn own_headers(&self) -> Result<HeaderMap, Fault> {
        let of_connection = |name: &HeaderName| {
            let name = name.as_str();
            name.starts_with("proxy-") || OF_CONNECTION.contains(&name)
        };
        match self.headers.keys().find(|it| of_connection(it)) {
            Some(name) => {
                Err(Fault::bad_args(format!("the header `{name}` follows from the address and the body"))
                    .next("Leave it out."))
            }
            None if self.method == Method::CONNECT => {
                Err(Fault::bad_args("`CONNECT` is for proxies alone").next("Name another method."))
            }
            None => Ok(self.headers.clone()),
        }
    }
}

const OF_CONNECTION: &[&str] = &[
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "te",
    "trailer",
    "expect",
];

/// Headers by which a request changes its method.
const OVERRIDES: &[&str] = &["x-http-method", "x-http-method-override", "x-method-override"];

/// Returns whether a request without a body only reads, by its method and the names of its headers.
pub fn only_looks<'a>(method: &Method, headers: impl IntoIterator<Item = &'a str>) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
        && !headers.into_iter().any(|it| OVERRIDES.iter().any(|one| one.eq_ignore_ascii_case(it)))
}

/// Returns the headers that another origin may see: those that describe the wanted response, and none that
/// the caller invented.
pub(super) fn for_others(headers: &HeaderMap) -> HeaderMap {
    let open = |name: &HeaderName| {
        let text = name.as_str();
        [header::USER_AGENT, header::RANGE, header::CACHE_CONTROL, header::PRAGMA].contains(name)
            || ["accept", "content-", "if-"].iter().any(|it| text.starts_with(it))
    };
    let kept = headers.iter().filter(|(name, value)| !value.is_sensitive() && open(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}
