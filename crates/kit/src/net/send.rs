//! Sending requests, redirect by redirect.

use std::{
    error::Error,
    io::ErrorKind,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use reqwest::{
    Method, StatusCode, Url,
    header::{self, HeaderValue},
};
use tokio::{net::TcpStream, time::timeout};

use super::{
    Allowed, Body, Connector, Hop, Reach, Request, Response, SessionPorts,
    connector::{Unreached, Use, why_closed},
    ip_rules::{plain, with_port},
    request::for_others,
    session_port,
};
use crate::{Fault, Kind};

/// A call's access to the network: http and https, and only the hosts that it may contact. Cheap to clone.
#[derive(Clone)]
pub struct Net {
    connector: Arc<Connector>,
    allowed: Arc<Allowed>,
    /// The session's ports, if the call may reach them.
    ports: Option<Arc<dyn SessionPorts>>,
    /// Whether a request went to a host that may be private.
    was_private: Arc<AtomicBool>,
}

impl Net {
    /// Creates the network access of one call.
    pub fn new(connector: Arc<Connector>, allowed: Allowed) -> Self {
        Self { connector, allowed: Arc::new(allowed), ports: None, was_private: Arc::default() }
    }

    /// Also reaches ports of the session, until a redirect leads elsewhere.
    #[must_use]
    pub fn and_session_ports(self, ports: Arc<dyn SessionPorts>) -> Self {
        Self { ports: Some(ports), ..self }
    }

    /// Returns whether a request went to a host that a person allowed at a private address. Such a host may
    /// be controlled by the workspace.
    pub fn was_private(&self) -> bool {
        self.was_private.load(Ordering::Acquire)
    }

    /// Sends a request, follows redirects, and returns the response as soon as its head has arrived. At every
    /// hop it checks the scheme, the grant for the host, and the address.
    ///
    /// # Errors
    /// [`Kind::BadArgs`] for an invalid address; [`Kind::Denied`] for a host that the call may not contact;
    /// [`Kind::Timeout`]; [`Kind::Unavailable`] when no server answers; [`Kind::Failed`] when the answer is
    /// not HTTP.
    pub async fn send(&self, mut request: Request) -> Result<Response, Fault> {
        let began = Instant::now();
        let mut hops: Vec<Hop> = Vec::new();
        // Invariant: no redirect from elsewhere leads back to a port of the session.
        let mut ports = self.ports.as_deref();
        loop {
            let inner = match (self.once(&request, began, &mut ports).await, hops.last()) {
                (Err(fault), Some(hop)) => return Err(on_the_way(fault, hop, &request.url)),
                (inner, _) => inner?,
            };
            let Some(to) = target(&request, &inner)?.filter(|_| request.redirects > 0) else {
                return Ok(Response::new(inner, request, hops, began));
            };
            if hops.len() >= request.redirects {
                let what = format!(
                    "{} redirects more than {} times, now to {to}",
                    request.name(),
                    request.redirects
                );
                return Err(
                    Fault::new(Kind::Failed, what).next("Ask for that address, if it is the right one.")
                );
            }
            if request.stays && to.host_str() != request.url.host_str() {
                let what =
                    format!("{} redirects to {to}, another host; nothing was sent there", request.name());
                return Err(Fault::denied(what).next("What is asked here is meant for the first host alone."));
            }
            let looks = request.looks();
            hops.push(Hop { url: request.url.clone(), status: inner.status() });
            redirected(&mut request, inner.status(), to)?;
            if looks && hops.iter().any(|it| it.url == request.url) {
                let what = format!("{} redirects in a circle", request.name());
                return Err(Fault::new(Kind::Failed, what).next(
                    "It may want a cookie or another header; without redirects you see what it says.",
                ));
            }
        }
    }

    /// Connects to this host, for protocols other than HTTP. No proxy is used.
    ///
    /// # Errors
    /// [`Kind::Denied`] for a host that the call may not contact, [`Kind::Unavailable`] when no server answers.
    pub async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, Fault> {
        if let Some(ports) = self.ports.as_ref().filter(|it| it.listens(host, port)) {
            return ports
                .connect(host, port)
                .await
                .map_err(|error| session_port::unreached(host, port, &error));
        }
        let Some(reach) = self.allowed.reach(host, port, false) else { return Err(not_granted(host, port)) };
        self.connector.connect(host, port, reach).await.map_err(|error| unreached(host, port, &error))
    }

    async fn once(
        &self,
        request: &Request,
        began: Instant,
        ports: &mut Option<&dyn SessionPorts>,
    ) -> Result<reqwest::Response, Fault> {
        let (host, port) = host_of(&request.url)?;
        let headers = request.own_headers()?;
        let left = || request.within.saturating_sub(began.elapsed());
        *ports = ports.filter(|it| it.listens(&host, port));
        if let Some(ports) = *ports {
            self.was_private.store(true, Ordering::Release);
            let sent = session_port::send(ports, request, headers, (&host, port));
            return timeout(left(), sent).await.map_err(|_| too_slow(request.name(), request.within))?;
        }
        let Some(reach) = self.allowed.reach(&host, port, request.looks()) else {
            return Err(not_granted(&host, port));
        };
        self.was_private.fetch_or(reach == Reach::Anywhere, Ordering::AcqRel);
        let way = timeout(left(), self.connector.way(&host, port, reach))
            .await
            .map_err(|_| too_slow(request.name(), request.within))?
            .map_err(|error| unreached(&host, port, &error))?;
        let client = self
            .connector
            .client(Use { way, reach, as_sent: request.as_sent })
            .map_err(|error| Fault::new(Kind::Unavailable, format!("no request can be sent: {error}")))?;
        let mut out = client.request(request.method.clone(), request.url.clone()).headers(headers);
        if let Some(body) = &request.body {
            out = out.header(header::CONTENT_LENGTH, HeaderValue::from(body.length())).body(body.out());
        }
        match timeout(left(), out.send()).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(failed(request, &host, port, error)),
            Err(_) => Err(too_slow(request.name(), request.within)),
        }
    }
}

/// Returns the host and the port of an address.
///
/// # Errors
/// When it is not http or https, or has a user name or a password in it.
pub fn host_of(url: &Url) -> Result<(String, u16), Fault> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Fault::bad_args(format!("`{}` is neither http nor https", url.scheme()))
            .next("Name an address that begins with https:// or http://."));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Fault::bad_args("the address has a name or a password in it, before an `@`")
            .hint("Leave them out[?; `tool:http_request` sends what a header says?]."));
    }
    match (url.host_str(), url.port_or_known_default()) {
        (Some(host), Some(port)) if !plain(host).is_empty() => Ok((plain(host), port)),
        _ => Err(Fault::bad_args(format!("`{url}` names no host"))),
    }
}

/// Returns the target of a redirect.
fn target(request: &Request, answer: &reqwest::Response) -> Result<Option<Url>, Fault> {
    if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(to) = answer.headers().get(header::LOCATION) else { return Ok(None) };
    let text = String::from_utf8_lossy(to.as_bytes());
    match request.url.join(&text) {
        Ok(to) => Ok(Some(to)),
        Err(error) => {
            Err(Fault::new(Kind::Failed, format!("{} redirects to `{text}`: {error}", request.name())))
        }
    }
}

fn redirected(request: &mut Request, status: StatusCode, to: Url) -> Result<(), Fault> {
    let keeps = matches!(status.as_u16(), 307 | 308) || request.method == Method::HEAD;
    if !keeps && !request.looks() {
        request.method = Method::GET;
        request.body = None;
        for name in [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::CONTENT_LANGUAGE] {
            request.headers.remove(name);
        }
    }
    if request.url.origin() != to.origin() {
        if request.body.as_ref().is_some_and(Body::is_sensitive) {
            let (name, status) = (request.name(), status.as_u16());
            return Err(Fault::denied(format!(
                "{name} redirects with {status} to {to}, and what is sent has a secret in it; nothing was sent there"
            ))
            .next("A secret goes to no other host, port or scheme by a redirect. Ask for that address itself, if the secret is meant for it."));
        }
        request.headers = for_others(&request.headers);
    }
    request.named = None;
    request.url = to;
    Ok(())
}

/// Adds the redirect to a fault at an address that the caller did not request.
fn on_the_way(fault: Fault, from: &Hop, to: &Url) -> Fault {
    // The request was well formed; the redirect's target is refused.
    let kind = if fault.kind == Kind::BadArgs { Kind::Denied } else { fault.kind };
    let what = format!("{} redirects to {to}: {}", from.url, fault.what);
    Fault { kind, what, ..fault }
}

fn not_granted(host: &str, port: u16) -> Fault {
    let place = with_port(host, port);
    Fault::denied(format!("{place} was not granted to this call"))
        .next(format!("A person can put `{place}` into `allow` of `[net]` in haft.toml."))
}

fn unreached(host: &str, port: u16, why: &Unreached) -> Fault {
    let place = with_port(host, port);
    match why {
        Unreached::Private(at) if host.parse::<IpAddr>().is_ok() => {
            closed(&place, &format!("{at} {}", why_closed(*at)))
        }
        Unreached::Private(at) => closed(&place, &format!("{host} is at {at}, which {}", why_closed(*at))),
        Unreached::Own => {
            closed(&place, &format!("{host} is a name of this machine or of a private network"))
        }
        Unreached::NotFound(error) if no_answer(error) => {
            Fault::new(Kind::Unavailable, format!("where {host} is can't be looked up: {error}"))
                .next("There may be no network here, or no DNS: look whether another host is found.")
        }
        Unreached::Failed(error)
            if matches!(error.kind(), ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable) =>
        {
            Fault::new(Kind::Unavailable, format!("no way leads to {place}: {error}"))
                .next("There may be no network here: look whether another host is reached.")
        }
        Unreached::NotFound(_) => Fault::new(Kind::Unavailable, format!("unknown host name: {host}"))
            .next("Check how the name is spelled."),
        Unreached::Failed(error) => {
            Fault::new(Kind::Unavailable, format!("{place} can't be reached: {error}"))
                .next("Check the host and the port, or try again later.")
        }
    }
}

/// Returns whether no name server answered, so that the error says nothing about this name.
fn no_answer(error: &std::io::Error) -> bool {
    let says = error.to_string();
    ["Temporary failure in name resolution", "Try again"].iter().any(|it| says.contains(it))
}

fn closed(place: &str, what: &str) -> Fault {
    Fault::denied(format!("{what}; nothing was sent")).next(format!(
        "Leave it, unless this is what you were asked for: then a person can put `{place}` into `allow` of `[net]` in haft.toml."
    ))
}

fn failed(request: &Request, host: &str, port: u16, error: reqwest::Error) -> Fault {
    let name = request.name();
    let (is_timeout, is_connect) = (error.is_timeout(), error.is_connect());
    // The address may contain a secret.
    let error = error.without_url();
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(it) = cause {
        if let Some(why) = it.downcast_ref::<Unreached>() {
            return unreached(host, port, why);
        }
        cause = it.source();
    }
    let why = deepest(&error);
    if is_connect && !is_timeout && request.url.scheme() == "https" && speaks_no_tls(&why) {
        let place = with_port(host, port);
        return Fault::new(Kind::Unavailable, format!("{place} is there, but does not speak TLS: {why}"))
            .next(format!("Try http://{place} instead of https, or look whether the port is right."));
    }
    if is_timeout || is_connect {
        let kind = if is_timeout { Kind::Timeout } else { Kind::Unavailable };
        return Fault::new(kind, format!("{} can't be reached: {why}", with_port(host, port)))
            .next("Check the host and the port, or try again later.");
    }
    Fault::new(Kind::Failed, format!("{name} gave no answer that can be read: {why}"))
        .next("Check that this is the right address and port; what listens there speaks no proper HTTP, or hung up.")
}

pub(super) fn broken(name: &str, error: reqwest::Error) -> Fault {
    let why = deepest(&error.without_url());
    Fault::new(Kind::Failed, format!("the answer of {name} broke off: {why}")).next("Try again.")
}

/// Returns whether the error is typical of a server that does not speak TLS.
fn speaks_no_tls(why: &str) -> bool {
    ["InvalidContentType", "handshake eof", "InvalidMessage"].iter().any(|it| why.contains(it))
}

/// Returns the innermost cause.
fn deepest(error: &reqwest::Error) -> String {
    let mut last: &(dyn Error + 'static) = error;
    while let Some(deeper) = last.source() {
        last = deeper;
    }
    last.to_string()
}

pub(super) fn silent(name: &str, after: Duration) -> Fault {
    Fault::new(Kind::Timeout, format!("{name} sent nothing more for {} s", after.as_secs_f32()))
        .next("Try again.")
}

pub(super) fn too_slow(name: &str, within: Duration) -> Fault {
    Fault::new(Kind::Timeout, format!("{name} was not done after {} s", within.as_secs_f32()))
        .next("Try again with more time, or ask for less.")
}
