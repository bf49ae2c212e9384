//! How does a request go out, hop by hop?

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use reqwest::{
    Method, StatusCode, Url,
    header::{self, HeaderMap},
};
use tokio::{net::TcpStream, time::timeout};

use super::{
    Allowed, Hop, Line, Reach, Request, Response,
    line::Unreached,
    place::{is_public, plain},
};
use crate::{Fault, Kind};

/// How a call reaches the network: http and https, and only the hosts that it may speak to. Cheap to clone.
#[derive(Clone)]
pub struct Net {
    line: Arc<Line>,
    allowed: Arc<Allowed>,
}

impl Net {
    /// The network as one call may use it.
    pub fn new(line: Arc<Line>, allowed: Allowed) -> Self {
        Self { line, allowed: Arc::new(allowed) }
    }

    /// Sends a request, follows what redirects it, and gives the answer as soon as its head is here.
    /// Every hop is looked at: its scheme, whether the call may speak to that host, at which address it is.
    ///
    /// # Errors
    /// [`Kind::BadArgs`] for an address that is none; [`Kind::Denied`] for a host that the call may not speak to;
    /// [`Kind::Timeout`]; [`Kind::Unavailable`] when nobody answers; [`Kind::Failed`] when what answers is no HTTP.
    pub async fn send(&self, mut request: Request) -> Result<Response, Fault> {
        let began = Instant::now();
        let until = began + request.within;
        let mut hops = Vec::new();
        loop {
            let inner = self.once(&request, until).await?;
            let Some(to) = target(&request.url, &inner)? else {
                return Ok(Response {
                    status: inner.status(),
                    version: inner.version(),
                    url: request.url,
                    hops,
                    headers: inner.headers().clone(),
                    first_byte: began.elapsed(),
                    inner,
                    until,
                    silence: request.silence,
                });
            };
            if hops.len() >= request.redirects {
                return match request.redirects {
                    0 => Ok(Response {
                        status: inner.status(),
                        version: inner.version(),
                        url: request.url,
                        hops,
                        headers: inner.headers().clone(),
                        first_byte: began.elapsed(),
                        inner,
                        until,
                        silence: request.silence,
                    }),
                    most => Err(Fault::new(
                        Kind::Failed,
                        format!("{} redirects more than {most} times, now to {to}", request.url),
                    )),
                };
            }
            hops.push(Hop { url: request.url.clone(), status: inner.status() });
            redirected(&mut request, inner.status(), to);
        }
    }

    /// A connection to this host, for what is not HTTP.
    ///
    /// # Errors
    /// [`Kind::Denied`] for a host that the call may not speak to, [`Kind::Unavailable`] when nobody answers.
    pub async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, Fault> {
        let Some(reach) = self.allowed.reach(host, port, false) else { return Err(not_granted(host, port)) };
        self.line.connect(host, port, reach).await.map_err(|error| unreached(host, port, error))
    }

    async fn once(&self, request: &Request, until: Instant) -> Result<reqwest::Response, Fault> {
        let (host, port) = host_of(&request.url)?;
        let Some(reach) = self.allowed.reach(&host, port, request.looks()) else {
            return Err(not_granted(&host, port));
        };
        // A number is not looked up, so the resolver never sees it.
        if let Ok(at) = host.parse()
            && reach == Reach::Public
            && !is_public(at)
        {
            return Err(unreached(&host, port, Unreached::Private(at)));
        }
        let client = self
            .line
            .client(reach)
            .map_err(|error| Fault::new(Kind::Unavailable, format!("no request can be sent: {error}")))?;
        let mut out =
            client.request(request.method.clone(), request.url.clone()).headers(request.headers.clone());
        if let Some(body) = &request.body {
            out = out.body(body.clone());
        }
        let left = until.saturating_duration_since(Instant::now());
        match timeout(left, out.send()).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(failed(&request.url, &host, port, &error)),
            Err(_) => Err(silent(&request.url, request.within)),
        }
    }
}

/// The host and the port of an address that haft asks at.
///
/// # Errors
/// When it is not http or https, or has a name or a password in it.
pub fn host_of(url: &Url) -> Result<(String, u16), Fault> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Fault::bad_args(format!("`{url}` is not http or https")));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Fault::bad_args("the address has a name or a password in it")
            .next("Leave them out; `http_request` sends what a header says."));
    }
    match (url.host_str(), url.port_or_known_default()) {
        (Some(host), Some(port)) if !host.is_empty() => Ok((plain(host), port)),
        _ => Err(Fault::bad_args(format!("`{url}` names no host"))),
    }
}

/// Where this answer sends whoever asked.
fn target(from: &Url, answer: &reqwest::Response) -> Result<Option<Url>, Fault> {
    if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(to) = answer.headers().get(header::LOCATION) else { return Ok(None) };
    let text = String::from_utf8_lossy(to.as_bytes()).into_owned();
    match from.join(&text) {
        Ok(to) => Ok(Some(to)),
        Err(error) => Err(Fault::new(Kind::Failed, format!("{from} redirects to `{text}`: {error}"))),
    }
}

fn redirected(request: &mut Request, status: StatusCode, to: Url) {
    let keeps = matches!(status.as_u16(), 307 | 308);
    if !keeps && !request.looks() {
        request.method = Method::GET;
        request.body = None;
        for name in [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::CONTENT_ENCODING] {
            request.headers.remove(name);
        }
    }
    if request.url.origin() != to.origin() {
        request.headers = for_others(&request.headers);
    }
    request.url = to;
}

/// The headers that another origin may see, too.
fn for_others(headers: &HeaderMap) -> HeaderMap {
    let private = [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION];
    let open = headers.iter().filter(|(name, value)| !value.is_sensitive() && !private.contains(name));
    open.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn not_granted(host: &str, port: u16) -> Fault {
    Fault::denied(format!("{host}:{port} was not granted to this call"))
        .next(format!("A person can put `{host}:{port}` into `allow` of `[net]` in haft.toml."))
}

fn unreached(host: &str, port: u16, why: Unreached) -> Fault {
    match why {
        Unreached::Private(at) => {
            let what = match host.parse::<std::net::IpAddr>() {
                Ok(_) => format!("{host} is not a public address"),
                Err(_) => format!("{host} is at {at}, which is not a public address"),
            };
            Fault::denied(what).next(format!(
                "A person who wants it reached puts `{host}:{port}` into `allow` of `[net]` in haft.toml."
            ))
        }
        Unreached::NotFound(error) => {
            Fault::new(Kind::Unavailable, format!("nobody knows where {host} is: {error}"))
        }
        Unreached::Failed(error) => {
            Fault::new(Kind::Unavailable, format!("{host}:{port} can't be reached: {error}"))
        }
    }
}

fn failed(url: &Url, host: &str, port: u16, error: &reqwest::Error) -> Fault {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    let mut last = error.to_string();
    while let Some(it) = cause {
        if let Some(Unreached::Private(at)) = it.downcast_ref() {
            return unreached(host, port, Unreached::Private(*at));
        }
        last = it.to_string();
        cause = it.source();
    }
    let kind = if error.is_timeout() {
        Kind::Timeout
    } else if error.is_connect() {
        Kind::Unavailable
    } else {
        Kind::Failed
    };
    Fault::new(kind, format!("{url} gave no answer: {last}"))
}

pub(super) fn broken(url: &Url, error: &reqwest::Error) -> Fault {
    let mut last: &(dyn Error + 'static) = error;
    while let Some(deeper) = last.source() {
        last = deeper;
    }
    Fault::new(Kind::Failed, format!("the answer of {url} broke off: {last}"))
}

pub(super) fn silent(url: &Url, after: Duration) -> Fault {
    Fault::new(Kind::Timeout, format!("{url} sent nothing more for {} s", after.as_secs()))
}
