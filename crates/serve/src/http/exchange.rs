//! One request and its answer, as each server begins and ends it.

use std::{future::Future, panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use http::{HeaderValue, Response, StatusCode, header, request::Parts};

use super::{bodies::Guarded, replies::Reply, slow_connections::Pace};

/// A request that is being answered.
pub struct Exchange {
    pace: Arc<Pace>,
    is_chunked: bool,
}

/// Marks the connection as idle when it is dropped.
pub struct Idle(Option<Arc<Pace>>);

impl Exchange {
    /// Begins with the head of a request: its connection is busy from now on.
    pub fn begin(head: &Parts, pace: &Arc<Pace>) -> Self {
        pace.busy();
        // Two servers may disagree on the end of such a body, so nothing after it is read.
        let is_chunked = head.headers.contains_key(header::TRANSFER_ENCODING);
        Self { pace: pace.clone(), is_chunked }
    }

    /// Waits for an answer. Returns `None` for one that panicked: a panic must not end the connection.
    pub async fn caught<T>(&self, answering: impl Future<Output = T>) -> Option<T> {
        let answer = AssertUnwindSafe(answering).catch_unwind().await;
        answer.inspect_err(|_| tracing::error!("the answer to a request panicked")).ok()
    }

    /// Ends with the answer. Nothing more is read from the connection of a request that one of two servers may have parsed
    /// differently, and of one to a server that ends.
    pub fn end(self, mut reply: Reply, is_closing: bool) -> Response<Guarded<Idle>> {
        let is_bad = reply.status() == StatusCode::BAD_REQUEST;
        if self.is_chunked || is_bad || is_closing {
            reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        // A connection that goes on as another protocol has its own times.
        let is_upgraded = reply.status() == StatusCode::SWITCHING_PROTOCOLS;
        let idle = Idle(Some(self.pace).filter(|_| !is_upgraded));
        reply.map(|body| Guarded::new(body, idle))
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        if let Some(pace) = &self.0 {
            pace.idle();
        }
    }
}
