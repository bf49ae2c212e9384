//! HTTP to a server that a process of the session opened: over a connection inside the session's network
//! namespace, so haft never connects to an address of the machine.

use std::{fmt, io};

use hyper::{Request as Out, body::Incoming, client::conn::http1::handshake};
use hyper_util::rt::TokioIo;
use reqwest::header::{self, HeaderMap, HeaderValue};
use tokio::net::TcpStream;

use super::{Body, Request, ip_rules::with_port};
use crate::{Fault, Kind, services::Soon};

/// The ports on which processes of a session listen.
pub trait SessionPorts: fmt::Debug + Send + Sync {
    /// Returns whether a process of the session listens at this loopback host and port. Looked up at each
    /// call, in the session's network namespace.
    fn listens(&self, host: &str, port: u16) -> bool;

    /// Connects to it there. If no process listens any more this fails; it never leads to the machine's own loopback.
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Soon<'a, io::Result<TcpStream>>;
}

/// Sends one request to a port of the session.
///
/// # Errors
/// [`Kind::Denied`] when a secret would be sent, [`Kind::Unavailable`] when no process listens any more or
/// for `https`, [`Kind::Failed`] when the answer is not HTTP.
pub(super) async fn send(
    ports: &dyn SessionPorts,
    request: &Request,
    headers: HeaderMap,
    (host, port): (&str, u16),
) -> Result<reqwest::Response, Fault> {
    let place = with_port(host, port);
    let is_sensitive = request.named.is_some()
        || headers.values().any(HeaderValue::is_sensitive)
        || request.body.as_ref().is_some_and(Body::is_sensitive);
    if is_sensitive {
        let what = format!(
            "a process of this session listens at {place}, and the request has a secret in it; nothing was sent"
        );
        return Err(Fault::denied(what)
            .next("Leave the secret out; or end that process, if the machine's own server is meant."));
    }
    if request.url.scheme() != "http" {
        let what = format!("{place} is a port of this session, which is reached by http alone");
        return Err(Fault::new(Kind::Unavailable, what).next(format!(
            "Try http://{place}; from a command `curl -k https://{place}` reaches a server with a certificate of its own."
        )));
    }
    let stream = ports.connect(host, port).await.map_err(|error| unreached(host, port, &error))?;
    let strange = |error: hyper::Error| {
        let what = format!("{place} gave no answer that can be read: {error}");
        Fault::new(Kind::Failed, what)
            .next("What listens there speaks no proper HTTP, or hung up; its output may say why.")
    };
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(strange)?;
    // It ends with the response's body, or when the response is dropped; its errors are the response's.
    tokio::spawn(connection);
    let answer = sender.send_request(out(request, headers)?).await.map_err(strange)?;
    Ok(answer.map(|body: Incoming| reqwest::Body::wrap(body)).into())
}

/// Builds the request as it goes over a direct connection.
fn out(request: &Request, mut headers: HeaderMap) -> Result<Out<reqwest::Body>, Fault> {
    let url = &request.url;
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let host = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_owned(),
    };
    let bad = |error: &dyn fmt::Display| Fault::bad_args(format!("`{url}` can't be asked for: {error}"));
    headers.insert(header::HOST, HeaderValue::from_str(&host).map_err(|error| bad(&error))?);
    let usual = [
        (header::USER_AGENT, concat!("haft/", env!("CARGO_PKG_VERSION"))),
        (header::ACCEPT, "*/*"),
        // Bodies are not unpacked here.
        (header::ACCEPT_ENCODING, "identity"),
    ];
    for (name, value) in usual {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if let Some(body) = &request.body {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.length()));
    }
    let body = request.body.as_ref().map(Body::out).unwrap_or_default();
    let mut out = Out::new(body);
    *out.method_mut() = request.method.clone();
    *out.uri_mut() = path.parse().map_err(|error: hyper::http::uri::InvalidUri| bad(&error))?;
    *out.headers_mut() = headers;
    Ok(out)
}

/// Returns the fault for a port of the session that can't be connected to.
pub(super) fn unreached(host: &str, port: u16, error: &io::Error) -> Fault {
    let place = with_port(host, port);
    Fault::new(Kind::Unavailable, format!("{place} of this session can't be reached: {error}"))
        .next("Look whether the process that listened there still runs, and what it printed.")
}
