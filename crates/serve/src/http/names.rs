//! The names and origins by which a server may be asked.
//!
//! A page in a person's browser can send requests to loopback, and can point a name of its own at loopback
//! (DNS rebinding). It can't choose the `Host` and `Origin` that the browser sends, so both are compared with
//! the server's names.

use http::{
    HeaderMap, HeaderValue, StatusCode, Uri,
    header::{self, AUTHORIZATION},
    request::Parts,
    uri::Authority,
};

use super::replies::{self, Reply};

/// The names of a server, and the foreign origins that may use it.
pub struct Names {
    names: Vec<Name>,
    origins: Vec<String>,
}

/// A name of the server.
pub(super) struct Name {
    host: String,
    /// The required port; any, if `None`.
    port: Option<u16>,
    pub(super) scheme: &'static str,
}

impl Names {
    /// The names of a server that listens on this port: those of loopback, and `public`. `origins` are the foreign origins
    /// whose pages may use it.
    pub fn new(public: &[String], origins: &[String], port: u16) -> Self {
        let loopback = ["127.0.0.1", "localhost", "[::1]"];
        let own = |host: &str| Name { host: host.to_owned(), port: Some(port), scheme: "http" };
        let mut names: Vec<Name> = loopback.into_iter().map(own).collect();
        names.extend(public.iter().filter_map(|it| Name::parse(it)));
        let origins = origins.iter().map(|it| it.trim_end_matches('/').to_ascii_lowercase());
        Self { names, origins: origins.collect() }
    }

    /// Checks the `Host` and `Origin` of a request. Gives the address by which the server was asked: `http://127.0.0.1:8722`.
    ///
    /// # Errors
    /// The answer to a request by another name, or of a page that may not use the server.
    pub fn check(&self, head: &Parts) -> Result<String, Box<Reply>> {
        let (name, authority) = self.name(&head.uri, &head.headers)?;
        self.origin(&head.headers, &authority)?;
        Ok(format!("{}://{authority}", name.scheme))
    }

    /// Returns the server's name in the request, and as the client wrote it.
    pub(super) fn name(&self, uri: &Uri, headers: &HeaderMap) -> Result<(&Name, String), Box<Reply>> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err(Box::new(replies::last(StatusCode::BAD_REQUEST, "a request has one Host header")));
        };
        let asked = [host.to_str().ok(), uri.authority().map(Authority::as_str)];
        let mut found = None;
        for authority in asked.into_iter().flatten() {
            let known = parse_authority(authority)
                .and_then(|(host, port)| self.names.iter().find(|name| name.is(&host, port)));
            let Some(known) = known else {
                let what = "this server does not go by the name in the Host header; `--public HOSTNAME` gives it one more";
                return Err(Box::new(replies::last(StatusCode::FORBIDDEN, what)));
            };
            found = found.or(Some((known, authority.to_ascii_lowercase())));
        }
        found.ok_or_else(|| Box::new(replies::last(StatusCode::BAD_REQUEST, "the Host header is not a name")))
    }

    /// Returns the foreign origin of the request, if it has one that is allowed.
    pub(super) fn origin(
        &self,
        headers: &HeaderMap,
        authority: &str,
    ) -> Result<Option<HeaderValue>, Box<Reply>> {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let Some(origin) = origins.next() else { return Ok(None) };
        let text = origin.to_str().unwrap_or_default().to_ascii_lowercase();
        if origins.next().is_none() {
            if text == format!("http://{authority}") || text == format!("https://{authority}") {
                return Ok(None);
            }
            if self.origins.contains(&text) {
                return Ok(Some(origin.clone()));
            }
        }
        let what = "pages of this Origin may not use this server; `--allow-origin URL` lets them";
        Err(Box::new(replies::last(StatusCode::FORBIDDEN, what)))
    }
}

impl Name {
    /// Parses `HOST`, `HOST:PORT`, or either after a scheme.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_end_matches('/');
        let (scheme, rest) = match text.split_once("://") {
            Some(("https", rest)) => ("https", rest),
            Some(("http", rest)) => ("http", rest),
            Some(_) => return None,
            None => ("http", text),
        };
        let (host, port) = parse_authority(rest)?;
        Some(Self { host, port, scheme })
    }

    fn is(&self, host: &str, port: Option<u16>) -> bool {
        self.host == host && self.port.is_none_or(|it| it == port.unwrap_or(80))
    }
}

/// Returns whether a server can have this name.
pub(super) fn is_name(text: &str) -> bool {
    Name::parse(text).is_some()
}

/// Returns whether this is an origin as browsers send it.
pub(super) fn is_origin(text: &str) -> bool {
    let rest = text.split_once("://").filter(|(scheme, _)| !scheme.is_empty()).map(|(_, rest)| rest);
    rest.is_some_and(|rest| parse_authority(rest.trim_end_matches('/')).is_some())
}

fn parse_authority(text: &str) -> Option<(String, Option<u16>)> {
    if text.contains(['@', '/', '?', '#', ' ', '*']) {
        return None;
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().ok()?)),
        _ => (text, None),
    };
    let is_plain = !host.is_empty() && (host.starts_with('[') && host.ends_with(']') || !host.contains(':'));
    is_plain.then(|| (host.to_ascii_lowercase(), port))
}

/// Returns the token of the request, where it has one `Authorization: Bearer` header.
pub fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else { return None };
    let (scheme, token) = value.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}
