//! A request that was let in: its path, query, headers and body.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderName, header, request::Parts};
use hyper::body::Incoming;
use kit::Fault;
use serde::{Serialize, de::DeserializeOwned};
use serve::gate::{Connection, Pace};
use sessions::Handle;
use tokio::time::sleep;

use crate::{
    access::{Who, hash_of, secret},
    answer::Answer,
    once::GivenKey,
    problem::Problem,
    shared::Shared,
    workspaces::Workspace,
};

/// The longest JSON of a request, in bytes: a prompt has pictures.
const LONGEST: usize = 16 << 20;

/// The next step of whoever sends what can't be read.
pub(crate) const DESCRIBED: &str = "GET /api/v1/openapi.json describes the fields of each request.";

/// The longest idempotency key, in bytes.
const LONGEST_KEY: usize = 96;

/// The interval between looks whether a stream's reader still has access.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// A request.
pub(crate) struct Call {
    pub(crate) server: Arc<Shared>,
    pub(crate) who: Who,
    pub(crate) head: Parts,
    pub(crate) body: Option<Incoming>,
    /// The segments of the path that the route names, in order.
    pub(crate) names: Vec<String>,
    pub(crate) query: HashMap<String, String>,
    /// The address by which the server was asked: `http://127.0.0.1:8723`.
    pub(crate) address: String,
    pub(crate) link: Link,
}

/// The connection of a request, which is held as long as it is used after the answer.
#[derive(Clone)]
pub(crate) struct Link {
    /// Its place among the server's connections.
    pub(crate) connection: Arc<Connection>,
    pub(crate) pace: Arc<Pace>,
}

/// The access by which a stream goes on.
pub(crate) struct StreamAccess {
    pub(crate) server: Arc<Shared>,
    pub(crate) who: Who,
}

impl StreamAccess {
    /// Waits until the token is revoked, the sign-in has ended, or the role is another one.
    pub(crate) async fn ended(&self) {
        loop {
            sleep(LOOK).await;
            if !self.stands() {
                return;
            }
        }
    }

    /// Returns whether the token or sign-in still has its role.
    pub(crate) fn stands(&self) -> bool {
        self.server.stands(&self.who)
    }
}

/// The result of a call.
pub(crate) type Done = Result<Answer, Problem>;

impl Call {
    /// Returns the named segment of the path with this number.
    pub(crate) fn name(&self, at: usize) -> &str {
        self.names.get(at).map_or("", String::as_str)
    }

    /// Returns by what a stream that answers this request is let in.
    pub(crate) fn access(&self) -> StreamAccess {
        StreamAccess { server: self.server.clone(), who: self.who.clone() }
    }

    /// Returns a number of the query.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, Problem> {
        let Some(text) = self.query.get(name) else { return Ok(None) };
        let number = text.parse().map_err(|_| {
            Problem::bad(format!("`{name}={text}` is not a number"))
                .next(format!("Send digits, such as `{name}=0`, or leave it out."))
        })?;
        Ok(Some(number))
    }

    pub(crate) fn header(&self, name: HeaderName) -> Option<&str> {
        self.head.headers.get(name).and_then(|it| it.to_str().ok())
    }

    /// Reads the body, at most so many bytes. It may come slowly: whose access has ended meanwhile is refused.
    pub(crate) async fn bytes(&mut self, largest: usize) -> Result<Bytes, Problem> {
        let Some(body) = self.body.take() else { return Ok(Bytes::new()) };
        let read = self.server.body_permits.read_within(&self.who.name, body, largest).await;
        read.map_err(|reply| {
            let (kind, what, next) = match reply.status() {
                http::StatusCode::PAYLOAD_TOO_LARGE => {
                    let most = if largest >> 20 == 0 {
                        format!("{} KiB", largest >> 10)
                    } else {
                        format!("{} MiB", largest >> 20)
                    };
                    let what = format!("the request is too large: here it has at most {most}");
                    ("too_big", what, "Send less at once.")
                }
                http::StatusCode::REQUEST_TIMEOUT => {
                    ("timeout", "the request comes too slowly".to_owned(), "Send it again.")
                }
                http::StatusCode::SERVICE_UNAVAILABLE => {
                    let what = "too many large requests come at once".to_owned();
                    ("unavailable", what, "Send it again in a moment.")
                }
                _ => ("bad_args", "the body of the request is broken".to_owned(), "Send it again."),
            };
            Problem::new(reply.status(), kind, what).next(next)
        })
        .and_then(|bytes| {
            if self.server.stands(&self.who) { Ok(bytes) } else { Err(Problem::not_signed_in()) }
        })
    }

    /// Reads the body as JSON; an empty one is an empty object.
    pub(crate) async fn json<T: DeserializeOwned>(&mut self) -> Result<T, Problem> {
        let kind = self.header(header::CONTENT_TYPE).unwrap_or_default().to_owned();
        let bytes = self.bytes(LONGEST).await?;
        let essence = kind.split(';').next().unwrap_or_default().trim();
        let is_nothing = bytes.is_empty() && kind.is_empty();
        if !is_nothing && !essence.eq_ignore_ascii_case("application/json") {
            let what = format!("the request is `{kind}`, and should be application/json");
            return Err(Problem::new(http::StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_args", what)
                .next("Send JSON with `Content-Type: application/json`."));
        }
        let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        serde_json::from_slice(text)
            .map_err(|error| Problem::bad(format!("the request can't be read: {error}")).next(DESCRIBED))
    }

    /// Returns the workspace of the session that the path names first.
    pub(crate) async fn workspace(&self) -> Result<Arc<Workspace>, Problem> {
        self.server.workspaces.of_session(self.name(0), self.query.get("workspace")).await
    }

    /// Attaches to the session that the path names first.
    pub(crate) async fn handle(&self) -> Result<(Arc<Workspace>, Handle), Problem> {
        let workspace = self.workspace().await?;
        let handle = workspace.attach(self.name(0), &self.who).await?;
        Ok((workspace, handle))
    }

    /// Returns the idempotency key of the request, or a new one.
    pub(crate) fn key(&self) -> Result<String, Fault> {
        match self.given_key()? {
            Some(key) => Ok(key.to_owned()),
            None => secret().map(|it| it.chars().take(32).collect()),
        }
    }

    /// Returns the idempotency key of the request with the hash of the request, if it has a key.
    pub(crate) fn once(&self, request: &impl Serialize) -> Result<Option<GivenKey>, Problem> {
        let Some(key) = self.given_key()? else { return Ok(None) };
        let of = format!("{}\n{}\n{key}", self.head.uri.path(), self.who.principal());
        let query = self.head.uri.query().unwrap_or_default();
        let request = serde_json::to_string(request)
            .map_err(|error| Problem::bad(error.to_string()).next(DESCRIBED))?;
        Ok(Some(GivenKey { key: hash_of(&of), request: hash_of(&format!("{query}\n{request}")) }))
    }

    /// Returns the idempotency key of the request, if it has one.
    pub(crate) fn given_key(&self) -> Result<Option<&str>, Fault> {
        let Some(given) = self.head.headers.get(HeaderName::from_static("idempotency-key")) else {
            return Ok(None);
        };
        let is_key = |it: &&str| (1..=LONGEST_KEY).contains(&it.len());
        given.to_str().ok().filter(is_key).map(Some).ok_or_else(|| {
            Fault::bad_args(format!("an `Idempotency-Key` has 1 to {LONGEST_KEY} ASCII characters"))
                .next("Make up a new random one for each new request, or send none.")
        })
    }
}

/// Returns the fields of a query or of a form, decoded. The last of one name counts.
pub(crate) fn fields(query: &str) -> HashMap<String, String> {
    let pairs = query.split('&').filter(|it| !it.is_empty());
    let pairs = pairs.map(|it| it.split_once('=').unwrap_or((it, "")));
    pairs.map(|(name, value)| (decoded(name, true), decoded(value, true))).collect()
}

/// Decodes `%20`, and in a query `+`. Bytes that are not UTF-8 are replaced.
pub(crate) fn decoded(text: &str, is_query: bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let hex = |it: Option<u8>| it.and_then(|it| char::from(it).to_digit(16));
        match byte {
            b'+' if is_query => bytes.push(b' '),
            b'%' => {
                let mut ahead = rest.clone();
                match (hex(ahead.next()), hex(ahead.next())) {
                    (Some(high), Some(low)) => {
                        bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                        rest = ahead;
                    }
                    _ => bytes.push(byte),
                }
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let found = fields("path=a%2Fb+c&x=%zz&y&path=last%20one");
        assert_eq!(found.get("path").map(String::as_str), Some("last one"));
        assert_eq!(found.get("x").map(String::as_str), Some("%zz"));
        assert_eq!(found.get("y").map(String::as_str), Some(""));
    }
}
