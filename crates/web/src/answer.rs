//! Answers: JSON, texts, bytes that come as they are read, and streams of events.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper::body::{Body, Frame};
use serde_json::Value;
use tokio::sync::mpsc;

/// The answer to a request.
pub(crate) struct Answer(pub(crate) Response<BoxBody<Bytes, Infallible>>);

/// A body that a task writes. Where the client goes, the task's sender is closed.
struct WrittenBody(mpsc::Receiver<Bytes>);

impl Body for WrittenBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|it| it.map(|bytes| Ok(Frame::data(bytes))))
    }
}

impl Answer {
    pub(crate) fn bytes(status: StatusCode, mime: &str, body: impl Into<Bytes>) -> Self {
        Self::with(status, mime, Full::new(body.into()).boxed())
    }

    pub(crate) fn json(status: StatusCode, value: &Value) -> Self {
        Self::bytes(status, "application/json", value.to_string())
    }

    pub(crate) fn ok(value: &Value) -> Self {
        Self::json(StatusCode::OK, value)
    }

    pub(crate) fn nothing() -> Self {
        let mut answer = Self::bytes(StatusCode::NO_CONTENT, "text/plain", Bytes::new());
        answer.0.headers_mut().remove(header::CONTENT_TYPE);
        answer
    }

    /// An answer whose body a task writes to this channel.
    pub(crate) fn written(mime: &str, body: mpsc::Receiver<Bytes>) -> Self {
        Self::with(StatusCode::OK, mime, WrittenBody(body).boxed())
    }

    fn with(status: StatusCode, mime: &str, body: BoxBody<Bytes, Infallible>) -> Self {
        let mut reply = Response::new(body);
        *reply.status_mut() = status;
        Self(reply).header(header::CONTENT_TYPE, mime)
    }

    /// Sets a header. A value that no header can have is left out.
    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.0.headers_mut().insert(name, value);
        }
        self
    }

    pub(crate) fn status(mut self, status: StatusCode) -> Self {
        *self.0.status_mut() = status;
        self
    }
}
