//! The server of MCP alone: admits requests, hands them to the endpoint or the webhooks, and guards the answers.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use http::{HeaderValue, Request, Response, StatusCode, header, request::Parts};
use hyper::body::Incoming;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{
    Http,
    admission::{Gate, Passed, Verdict, open_to},
    bodies::{BodyPermits, Guarded},
    connections::Connection,
    endpoint::{Admitted, Mounted},
    exchange::{Exchange, Idle},
    listener::Answers,
    replies::{self, Reply},
    slow_connections::Pace,
};
use crate::hooks::{Hooks, LARGEST_HOOK, hook};

/// Maximum number of requests to webhooks that are in flight.
const HOOK_REQUESTS: usize = 32;

/// The person of all webhooks, as the memory permits count them: no token has this name.
const WEBHOOKS: &str = "/webhooks";

/// A server.
pub(super) struct Server {
    gate: Gate,
    endpoint: Arc<dyn Mounted>,
    hooks: Option<Arc<dyn Hooks>>,
    hook_permits: Semaphore,
    body_permits: BodyPermits,
    /// Number of requests so far.
    requests: AtomicU64,
    /// Cancelled when no new requests are accepted.
    closing: CancellationToken,
}

impl Answers for Server {
    type Body = Guarded<Idle>;

    async fn answer(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
        pace: &Arc<Pace>,
    ) -> Response<Self::Body> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let (head, body) = request.into_parts();
        let exchange = Exchange::begin(&head, pace);
        let (mut reply, origin) = match self.gate.look(&head) {
            Verdict::Out(reply, origin) => (reply, origin),
            Verdict::Hook => (self.hook(&head, body, connection).await, None),
            Verdict::In(Passed { principal, origin }) => {
                let on_read = || connection.has_authenticated();
                let permits = &self.body_permits;
                let admitted =
                    Admitted { head, body, principal, person: principal, permits, on_read: &on_read };
                let passed = exchange.caught(self.endpoint.answer(admitted)).await;
                let reply = passed.unwrap_or_else(|| {
                    let what = "haft failed at this; it is a defect of haft";
                    replies::last(StatusCode::INTERNAL_SERVER_ERROR, what)
                });
                (reply, origin)
            }
        };
        if let Some(origin) = origin {
            open_to(origin, &mut reply);
        }
        reply.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        exchange.end(reply, self.closing.is_cancelled())
    }

    fn closing(&self) -> &CancellationToken {
        &self.closing
    }
}

impl Server {
    pub(super) fn new(settings: &Http, port: u16, endpoint: Arc<dyn Mounted>) -> Self {
        Self {
            gate: Gate::new(settings, port),
            endpoint,
            hooks: settings.hooks.clone(),
            hook_permits: Semaphore::new(HOOK_REQUESTS),
            body_permits: BodyPermits::default(),
            requests: AtomicU64::new(0),
            closing: CancellationToken::new(),
        }
    }

    /// Answers one request to a webhook.
    async fn hook(&self, head: &Parts, body: Incoming, connection: &Connection) -> Reply {
        let Some(hooks) = &self.hooks else {
            return replies::text(StatusCode::NOT_FOUND, "there are no webhooks here");
        };
        if self.closing.is_cancelled() {
            return replies::full("haft is ending");
        }
        // A server may send some requests at once; more wait, and are sent again.
        let Ok(_permit) = self.hook_permits.try_acquire() else {
            return replies::full("too many requests are under way");
        };
        match hook(&**hooks, head, async || self.body_permits.read_within(WEBHOOKS, body, LARGEST_HOOK).await)
            .await
        {
            Ok((status, text)) => {
                if status.is_success() {
                    connection.has_authenticated();
                    return replies::text(status, text);
                }
                // The body may not have been read.
                replies::last(status, text)
            }
            Err(reply) => reply,
        }
    }

    /// Stops accepting requests.
    pub(super) fn close(&self) {
        self.closing.cancel();
    }

    /// Returns the number of requests so far.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}
