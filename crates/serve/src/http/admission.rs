//! Admission: checks a request before its body is read.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts};
use serde_json::json;

use super::{
    Http,
    names::{Name, Names, bearer},
    replies::{self, Reply},
    tokens::{Principal, whose},
};
use crate::hooks::HOOKS;

/// The path of the MCP endpoint.
pub(super) const ENDPOINT: &str = "/mcp";

/// The paths of the metadata on authentication (RFC 9728); a client tries the first, with the path of the
/// endpoint, before the second.
const METADATA: [&str; 2] =
    ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"];

/// The checks that don't need the body.
pub(super) struct Gate {
    names: Names,
    settings: Http,
}

/// An admitted request.
pub(super) struct Passed<'a> {
    /// The name of the principal; empty if tokens are not required.
    pub(super) principal: &'a str,
    /// The foreign origin that may read the answer.
    pub(super) origin: Option<HeaderValue>,
}

/// The result of the checks.
pub(super) enum Verdict<'a> {
    In(Passed<'a>),
    /// A request to a webhook, which has a signature in place of a token.
    Hook,
    /// Refused, with this answer, and the foreign origin that may read it.
    Out(Reply, Option<HeaderValue>),
}

impl Gate {
    /// Creates the checks of a server that listens on this port.
    pub(super) fn new(settings: &Http, port: u16) -> Self {
        let names = Names::new(&settings.public, &settings.origins, port);
        Self { names, settings: settings.clone() }
    }

    /// Checks the head of a request.
    pub(super) fn look(&self, head: &Parts) -> Verdict<'_> {
        let (name, authority) = match self.names.name(&head.uri, &head.headers) {
            Ok(found) => found,
            Err(reply) => return Verdict::Out(*reply, None),
        };
        let origin = match self.names.origin(&head.headers, &authority) {
            Ok(origin) => origin,
            Err(reply) => return Verdict::Out(*reply, None),
        };
        if self.settings.hooks.is_some() && head.uri.path().starts_with(HOOKS) {
            return Verdict::Hook;
        }
        match self.principal(head, name, &authority, origin.is_some()) {
            Ok(principal) => Verdict::In(Passed { principal, origin }),
            Err(reply) => Verdict::Out(*reply, origin),
        }
    }

    fn principal(
        &self,
        head: &Parts,
        name: &Name,
        authority: &str,
        is_foreign: bool,
    ) -> Result<&str, Box<Reply>> {
        let path = head.uri.path();
        if METADATA.contains(&path) {
            return Err(Box::new(self.metadata(&head.method, name, authority)));
        }
        if path != ENDPOINT {
            let what = format!("there is nothing here; MCP is spoken at {ENDPOINT}");
            return Err(Box::new(replies::text(StatusCode::NOT_FOUND, what)));
        }
        if head.method == Method::OPTIONS {
            return Err(Box::new(preflight(&head.headers, is_foreign)));
        }
        if ![Method::GET, Method::POST, Method::DELETE].contains(&head.method) {
            let mut reply = replies::last(StatusCode::METHOD_NOT_ALLOWED, "MCP takes POST, GET and DELETE");
            reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, POST, DELETE"));
            return Err(Box::new(reply));
        }
        if self.settings.principals.is_empty() {
            return Ok("");
        }
        let given = bearer(&head.headers);
        let known = given.and_then(|token| whose(&self.settings.principals, token));
        let known = known.and_then(|at| self.settings.principals.get(at)).map(Principal::name);
        known.ok_or_else(|| Box::new(unauthorized(name, authority, given.is_some())))
    }

    /// Returns the metadata on authentication. haft checks the tokens itself, so it names only configured
    /// authorization servers.
    fn metadata(&self, method: &Method, name: &Name, authority: &str) -> Reply {
        if method != Method::GET {
            let mut reply = replies::last(StatusCode::METHOD_NOT_ALLOWED, "this can be read with GET");
            reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
            return reply;
        }
        let mut document = json!({
            "resource": format!("{}://{authority}{ENDPOINT}", name.scheme),
            "resource_name": "haft",
            "bearer_methods_supported": ["header"],
        });
        if !self.settings.authorization_servers.is_empty()
            && let Some(object) = document.as_object_mut()
        {
            object.insert("authorization_servers".to_owned(), json!(self.settings.authorization_servers));
        }
        replies::json(StatusCode::OK, &document)
    }
}

fn unauthorized(name: &Name, authority: &str, was_given: bool) -> Reply {
    let wrong = if was_given { "error=\"invalid_token\", " } else { "" };
    let [metadata, _] = METADATA;
    let challenge = format!("Bearer {wrong}resource_metadata=\"{}://{authority}{metadata}\"", name.scheme);
    let what = if was_given {
        "the token is wrong"
    } else {
        "a token is needed: the header `Authorization: Bearer …` that haft printed when it began"
    };
    let mut reply = replies::last(StatusCode::UNAUTHORIZED, what);
    if let Ok(challenge) = HeaderValue::try_from(challenge) {
        reply.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    reply
}

/// Answers a CORS preflight request.
fn preflight(asked: &HeaderMap, is_foreign: bool) -> Reply {
    let mut reply = replies::text(StatusCode::NO_CONTENT, "");
    *reply.body_mut() = Default::default();
    let headers = reply.headers_mut();
    headers.remove(header::CONTENT_TYPE);
    headers.insert(header::ALLOW, HeaderValue::from_static("GET, POST, DELETE, OPTIONS"));
    if !is_foreign {
        return reply;
    }
    let is_ours = |name: &str| {
        ["accept", "authorization", "content-type", "last-event-id"].contains(&name)
            || name.starts_with("mcp-")
    };
    let wanted = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS).and_then(|it| it.to_str().ok());
    let wanted = wanted.unwrap_or_default().split(',').map(|it| it.trim().to_ascii_lowercase());
    let allowed: Vec<String> = wanted.filter(|it| is_ours(it) && it.parse::<HeaderName>().is_ok()).collect();
    if let Ok(allowed) = HeaderValue::try_from(allowed.join(", ")) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    }
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    reply
}

/// Lets the foreign origin read the answer.
pub(super) fn open_to(origin: HeaderValue, reply: &mut Reply) {
    let headers = reply.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("Mcp-Session-Id, WWW-Authenticate, Retry-After"),
    );
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
}
