//! Requests.

use std::time::Duration;

use reqwest::{
    Method, Url,
    header::{self, HeaderMap, HeaderName},
};

use super::Body;
use crate::Fault;

/// One request, with its bounds.
#[derive(Debug, Clone)]
pub struct Request {
    /// What is to be done.
    pub method: Method,
    /// Where.
    pub url: Url,
    /// What messages call that place, where the address has in it what nobody may see.
    pub named: Option<String>,
    /// Its headers. One that is sensitive goes to no other origin.
    pub headers: HeaderMap,
    /// What is sent along. One that is sensitive goes to no other origin.
    pub body: Option<Body>,
    /// How many redirects are followed; each is looked at as if it were asked for by itself.
    pub redirects: usize,
    /// Whether a redirect to another host is refused: what is asked is meant for this one alone.
    pub stays: bool,
    /// How long all of it may take, up to the last byte of the body.
    pub within: Duration,
    /// How long the other side may be silent in the middle of its body.
    pub silence: Duration,
    /// Whether the body of the answer is wanted as it is sent, not unpacked.
    pub as_sent: bool,
}

impl Request {
    /// A request that follows ten redirects and takes half a minute at most.
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

    /// What stands there.
    pub fn get(url: Url) -> Self {
        Self::new(Method::GET, url)
    }

    /// What messages call the place.
    pub(super) fn name(&self) -> &str {
        self.named.as_deref().unwrap_or(self.url.as_str())
    }

    /// Does it only read?
    pub(super) fn looks(&self) -> bool {
        self.body.is_none() && only_looks(&self.method, self.headers.keys().map(HeaderName::as_str))
    }

    /// Its headers, if none of them is the connection's own: by one a request would become two, or go to another host
    /// than the one that was looked at.
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

/// By these a request says that it is another than it looks like.
const OVERRIDES: &[&str] = &["x-http-method", "x-http-method-override", "x-method-override"];

/// Does a request without a body only read, by its method and the names of its headers?
pub fn only_looks<'a>(method: &Method, headers: impl IntoIterator<Item = &'a str>) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
        && !headers.into_iter().any(|it| OVERRIDES.iter().any(|one| one.eq_ignore_ascii_case(it)))
}

/// The headers that another origin may see, too: those that ask how it should answer, and none that somebody made up.
pub(super) fn for_others(headers: &HeaderMap) -> HeaderMap {
    let open = |name: &HeaderName| {
        let text = name.as_str();
        [header::USER_AGENT, header::RANGE, header::CACHE_CONTROL, header::PRAGMA].contains(name)
            || ["accept", "content-", "if-"].iter().any(|it| text.starts_with(it))
    };
    let kept = headers.iter().filter(|(name, value)| !value.is_sensitive() && open(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}
