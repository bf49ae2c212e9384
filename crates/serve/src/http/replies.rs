//! HTTP replies without a tool call: errors, texts, JSON.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use serde_json::Value;

use crate::message::Refusal;

/// Any reply.
pub type Reply = Response<BoxBody<Bytes, Infallible>>;

/// Replies with one line of text.
pub(super) fn text(status: StatusCode, text: impl Into<String>) -> Reply {
    let mut line = text.into();
    line.push('\n');
    with(status, "text/plain; charset=utf-8", line.into())
}

/// Replies with text and closes the connection.
pub(super) fn last(status: StatusCode, words: impl Into<String>) -> Reply {
    let mut reply = text(status, words);
    reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    reply
}

/// Replies with JSON.
pub(super) fn json(status: StatusCode, value: &Value) -> Reply {
    with(status, "application/json", value.to_string().into())
}

/// Replies to a refused message with a JSON-RPC error.
pub(super) fn refused(status: StatusCode, refusal: &Refusal) -> Reply {
    json(status, &refusal.to_json())
}

/// Replies that a limit is reached.
pub(super) fn full(what: &str) -> Reply {
    let mut reply = text(StatusCode::SERVICE_UNAVAILABLE, what);
    reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    reply
}

fn with(status: StatusCode, mime: &'static str, body: Bytes) -> Reply {
    let mut reply = Response::new(Full::new(body).boxed());
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(mime));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}
