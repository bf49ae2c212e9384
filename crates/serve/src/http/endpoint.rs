//! HTTP request handling: authenticates, routes to a session, streams the reply.

use std::{
    io,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use http_body_util::Full;
use hyper::body::Incoming;
use rmcp::{
    model::{ClientRequest, ErrorCode, JsonRpcMessage},
    transport::{StreamableHttpServerConfig, StreamableHttpService},
};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Http, Visit,
    admission::{Gate, Passed, Verdict, open_to},
    bodies::{BodyPermits, Guarded},
    connections::Connection,
    listener::Answers,
    replies::{self, Reply},
    sessions::{Entry, Opened, Reading, Resumable, SessionTable, Sessions},
    slow_connections::Pace,
};
use crate::{
    backend::Backend,
    hooks::{Hooks, LARGEST_HOOK, hook},
    mcp::{About, McpServer},
    message::{self, LISTENING, Message, Refusal, understand},
    salvage::repaired,
};

/// Maximum number of a principal's requests without a session that are in flight.
const REQUESTS: usize = 256;

/// Maximum number of requests to webhooks that are in flight.
const HOOK_REQUESTS: usize = 32;

/// Number of a principal's sessions that are reserved for requests without one.
const SHARED: usize = 1;

/// A server.
pub(super) struct Server<H> {
    gate: Gate,
    about: About,
    open: Opening<H>,
    principals: Vec<Place<H>>,
    one_session: bool,
    hooks: Option<Arc<dyn Hooks>>,
    hook_permits: Semaphore,
    body_permits: BodyPermits,
    /// Sessions that are ending.
    endings: TaskTracker,
    under_way: watch::Sender<usize>,
    /// Number of requests so far.
    requests: AtomicU64,
    /// Cancelled when no new requests are accepted.
    closing: CancellationToken,
    /// Cancelled to end rmcp's requests.
    ended: CancellationToken,
}

type Opening<H> = Box<dyn Fn(Visit<'_>) -> io::Result<H> + Send + Sync>;

/// The state of one principal.
struct Place<H> {
    name: Option<String>,
    sessions: Arc<Sessions<H>>,
    resumable: Arc<Resumable<H>>,
    /// The backend of all requests without a session.
    shared: Mutex<Option<Opened<H>>>,
    shared_places: Arc<Semaphore>,
    permits: Arc<Semaphore>,
}

/// A parsed body.
struct Asked {
    opens: bool,
    /// Whether it is a request, whose answer may take a while.
    is_request: bool,
    bytes: Bytes,
}

/// A permit that goes with a request until its work ends.
struct RequestPermit {
    under_way: watch::Sender<usize>,
    _permit: OwnedSemaphorePermit,
}

/// The guards of an answer until it is sent.
type Holding<H> = (Option<Reading<H>>, Idle);

/// Marks the connection as idle when it is dropped.
pub(super) struct Idle(Arc<Pace>);

/// An answer with its guards.
pub(super) type Out<H> = Response<Guarded<Holding<H>>>;

impl<H: Backend> Answers for Server<H> {
    type Body = Guarded<Holding<H>>;

    async fn answer(&self, request: Request<Incoming>, connection: &Connection, pace: &Arc<Pace>) -> Out<H> {
        pace.busy();
        self.requests.fetch_add(1, Ordering::Relaxed);
        let idle = Idle(pace.clone());
        let (head, body) = request.into_parts();
        // Two servers may disagree on the end of such a body, so nothing after it is read.
        let is_chunked = head.headers.contains_key(header::TRANSFER_ENCODING);
        let ends_session = head.method == Method::DELETE;
        let (mut reply, reading, origin) = match self.gate.look(&head) {
            Verdict::Out(reply, origin) => (reply, None, origin),
            Verdict::Hook => (self.hook(&head, body, connection).await, None, None),
            Verdict::In(Passed { principal, origin }) => {
                // A panic here must not end the connection.
                let passed =
                    AssertUnwindSafe(self.pass(head, body, principal, connection)).catch_unwind().await;
                let (reply, reading) = passed.unwrap_or_else(|_| {
                    tracing::error!("the answer to a request panicked");
                    (
                        replies::last(
                            StatusCode::INTERNAL_SERVER_ERROR,
                            "haft failed at this; it is a defect of haft",
                        ),
                        None,
                    )
                });
                (reply, reading, origin)
            }
        };
        // Clients take 202 for a failure here, as nothing remains to be done.
        if ends_session && reply.status() == StatusCode::ACCEPTED {
            *reply.status_mut() = StatusCode::NO_CONTENT;
        }
        if let Some(origin) = origin {
            open_to(origin, &mut reply);
        }
        reply.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // The same applies after a request that one of two servers may have parsed differently.
        let is_bad = reply.status() == StatusCode::BAD_REQUEST;
        if is_chunked || is_bad || self.closing.is_cancelled() {
            reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        reply.map(|body| Guarded::new(body, (reading, idle)))
    }

    fn closing(&self) -> &CancellationToken {
        &self.closing
    }
}

impl<H: Backend> Server<H> {
    pub(super) fn new(settings: &Http, about: About, port: u16, open: Opening<H>) -> Self {
        let gate = Gate::new(settings, port);
        let endings = TaskTracker::new();
        let place = |name: Option<String>| {
            let sessions = Sessions::new(settings.sessions, endings.clone());
            Place {
                name,
                resumable: Arc::new(Resumable(sessions.clone())),
                sessions,
                shared: Mutex::new(None),
                shared_places: Arc::new(Semaphore::new(SHARED)),
                permits: Arc::new(Semaphore::new(REQUESTS)),
            }
        };
        let named: Vec<Place<H>> =
            settings.principals.iter().map(|it| place(Some(it.name().to_owned()))).collect();
        Self {
            gate,
            about,
            open,
            principals: if named.is_empty() { vec![place(None)] } else { named },
            one_session: settings.one_session,
            hooks: settings.hooks.clone(),
            hook_permits: Semaphore::new(HOOK_REQUESTS),
            body_permits: BodyPermits::default(),
            endings,
            under_way: watch::Sender::new(0),
            requests: AtomicU64::new(0),
            closing: CancellationToken::new(),
            ended: CancellationToken::new(),
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
        match hook(&**hooks, head, async || self.body_permits.read_within(body, LARGEST_HOOK).await).await {
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

    /// Answers one request of a principal.
    async fn pass(
        &self,
        mut head: Parts,
        body: Incoming,
        principal: usize,
        connection: &Connection,
    ) -> (Reply, Option<Reading<H>>) {
        let Some(place) = self.principals.get(principal) else {
            return (replies::text(StatusCode::UNAUTHORIZED, "the token is wrong"), None);
        };
        if self.closing.is_cancelled() {
            return (replies::full("haft is ending"), None);
        }
        let asked = if head.method == Method::POST {
            match self.read(&head, body).await {
                Ok(asked) => asked,
                Err(reply) => return (reply, None),
            }
        } else {
            Asked { opens: false, is_request: false, bytes: Bytes::new() }
        };
        // Only once its body is complete: otherwise a client that begins many requests and finishes none
        // would block others.
        connection.has_authenticated();
        if let Some(id) = place.given_up(&head) {
            if head.method == Method::DELETE && place.sessions.forget(&id) {
                return (replies::text(StatusCode::NO_CONTENT, ""), None);
            }
            if let Err(reply) = self.resume(place, &id, &head).await {
                return (*reply, None);
            }
        }
        let session = match place.session(&head) {
            Ok(session) => session,
            Err(reply) => return (*reply, None),
        };
        match &session {
            Some(session) => session.used(),
            None if head.method != Method::POST => return (without_session(&head), None),
            None => {}
        }
        if asked.is_request {
            let permits = session.as_ref().map_or(&place.permits, |session| &session.permits);
            let Ok(permit) = Arc::clone(permits).try_acquire_owned() else {
                return (replies::full("too many requests are under way; wait for an answer"), None);
            };
            head.extensions.insert(Arc::new(RequestPermit::new(&self.under_way, permit)));
        }
        let opened = match self.opened(place, session.as_ref(), asked.opens).await {
            Ok(opened) => opened,
            Err(reply) => return (*reply, None),
        };
        let (opened, new) = if asked.opens { (opened.clone(), Some(opened)) } else { (opened, None) };
        let reply = self.ask_rmcp(place, &opened, new, Request::from_parts(head, asked.bytes)).await;
        // A session that this opened counts as used from now on.
        let id = reply.headers().get("mcp-session-id").and_then(|it| it.to_str().ok());
        let session = session.or_else(|| place.sessions.get(id?));
        (reply, session.map(|it| it.reading()))
    }

    /// Opens a session again that was given up. Its client need not begin anew.
    async fn resume(&self, place: &Place<H>, id: &str, head: &Parts) -> Result<(), Box<Reply>> {
        let _one = place.sessions.resuming.lock().await;
        if !place.sessions.is_given_up(id) {
            return Ok(());
        }
        let opened = self.new_session(place).await?;
        // rmcp resumes a session at the first message that names it; this one says nothing.
        let nothing = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"none"}}"#;
        let mut request = Request::post(head.uri.clone()).body(Bytes::from_static(nothing.as_bytes()));
        if let Ok(request) = &mut request {
            for name in [header::HOST, HeaderName::from_static("mcp-session-id"), header::AUTHORIZATION] {
                let values = head.headers.get(&name).cloned();
                request.headers_mut().extend(values.map(|it| (name, it)));
            }
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().insert(header::CONTENT_TYPE, json);
            let both = HeaderValue::from_static("application/json, text/event-stream");
            request.headers_mut().insert(header::ACCEPT, both);
        }
        let Ok(request) = request else { return Ok(()) };
        let reply = self.ask_rmcp(place, &opened, Some(opened.clone()), request).await;
        if !reply.status().is_success() {
            tracing::warn!(status = %reply.status(), "a session that was given up could not be resumed");
        }
        Ok(())
    }

    async fn ask_rmcp(
        &self,
        place: &Place<H>,
        opened: &Opened<H>,
        new: Option<Opened<H>>,
        request: Request<Bytes>,
    ) -> Reply {
        let (backend, stop) = (opened.backend.clone(), opened.stop.clone());
        let about = self.about.clone();
        let lasting = opened.lasting.clone();
        let server = move || Ok(McpServer::new(backend.clone(), about.clone(), stop.clone(), &lasting));
        let table = Arc::new(SessionTable::new(place.sessions.clone(), new));
        // haft has checked Host and Origin already, more strictly than rmcp.
        let mut config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_cancellation_token(self.ended.clone())
            .with_max_request_body_bytes(usize::MAX);
        config.session_store = Some(place.resumable.clone());
        let service = StreamableHttpService::new(server, table.clone(), config);
        let reply = service.handle(request.map(Full::new)).await;
        table.tidy();
        reply
    }

    /// Returns the backend of the request.
    async fn opened(
        &self,
        place: &Place<H>,
        session: Option<&Arc<Entry<H>>>,
        opens: bool,
    ) -> Result<Opened<H>, Box<Reply>> {
        if let Some(session) = session {
            return Ok(session.opened().clone());
        }
        if opens { self.new_session(place).await } else { self.shared(place) }
    }

    /// Returns the backend of a session that begins now.
    async fn new_session(&self, place: &Place<H>) -> Result<Opened<H>, Box<Reply>> {
        let permit = place.sessions.place().await.ok_or_else(|| {
            Box::new(replies::full(
                "there are too many sessions, and all of them are at work; end one with DELETE",
            ))
        })?;
        if self.one_session {
            let shared = self.shared(place)?;
            return Ok(Opened {
                stop: self.ended.child_token(),
                place: permit,
                lasting: Arc::default(),
                ends: false,
                ..shared
            });
        }
        self.newly_opened(place, false, permit)
    }

    /// Returns the backend of all requests of a principal without a session.
    fn shared(&self, place: &Place<H>) -> Result<Opened<H>, Box<Reply>> {
        let mut shared = place.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = &*shared {
            return Ok(shared.clone());
        }
        let permit = Arc::clone(&place.shared_places).try_acquire_owned();
        let permit = permit.map_err(|_| Box::new(replies::full("haft is ending")))?;
        let opened = self.newly_opened(place, true, Arc::new(permit))?;
        Ok(shared.insert(opened).clone())
    }

    fn newly_opened(
        &self,
        place: &Place<H>,
        is_shared: bool,
        permit: Arc<OwnedSemaphorePermit>,
    ) -> Result<Opened<H>, Box<Reply>> {
        let visit = Visit { principal: place.name.as_deref(), is_shared };
        let backend = (self.open)(visit).map_err(|error| {
            tracing::error!(%error, "no session could be opened");
            Box::new(replies::text(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("no session can be opened: {error}"),
            ))
        })?;
        Ok(Opened {
            backend: Arc::new(backend),
            stop: self.ended.child_token(),
            place: permit,
            lasting: Arc::default(),
            ends: true,
        })
    }

    /// Reads and parses a body.
    async fn read(&self, head: &Parts, body: Incoming) -> Result<Asked, Reply> {
        // A page can't send this type without a preflight request.
        if !is_json(head) {
            let what = "a message is sent as `Content-Type: application/json` in UTF-8, without an encoding";
            return Err(replies::last(StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
        }
        let bytes = self.body_permits.read(body).await?;
        // rmcp parses these bytes once more.
        let bytes = repaired(&bytes).map_or(bytes, Bytes::from);
        let refusal = |refusal: &Refusal| replies::refused(StatusCode::BAD_REQUEST, refusal);
        let value = match message::json(&bytes) {
            Ok(Some(value)) => value,
            Ok(None) => {
                return Err(refusal(&Refusal::new(Value::Null, ErrorCode::PARSE_ERROR, "the body is empty")));
            }
            Err(refused) => return Err(refusal(&refused)),
        };
        if value.is_array() {
            let what = "send one message at a time";
            return Err(refusal(&Refusal::new(Value::Null, ErrorCode::INVALID_REQUEST, what)));
        }
        let is_initialize = value.get("method").is_some_and(|it| it == "initialize");
        let (opens, is_request) = match understand(value) {
            Message::Good(message) => match &*message {
                JsonRpcMessage::Request(request) => (
                    matches!(request.request, ClientRequest::InitializeRequest(_)),
                    request.request.method() != "subscriptions/listen",
                ),
                JsonRpcMessage::Notification(_) | JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {
                    (false, false)
                }
            },
            // rmcp would open a session, in a revision that has none.
            Message::Bad(refused) if refused.code == ErrorCode::METHOD_NOT_FOUND && is_initialize => {
                return Err(replies::refused(StatusCode::NOT_FOUND, &refused));
            }
            // rmcp knows the status that each revision requires.
            Message::Bad(refused) if refused.code == ErrorCode::METHOD_NOT_FOUND => (false, true),
            Message::Bad(refused) if refused.code == ErrorCode::INVALID_PARAMS => {
                return Err(replies::refused(StatusCode::OK, &refused));
            }
            Message::Bad(refused) => return Err(refusal(&refused)),
            Message::Nothing => return Err(replies::text(StatusCode::ACCEPTED, "")),
        };
        Ok(Asked { opens, is_request, bytes })
    }

    /// Resolves when no request is in flight.
    pub(super) async fn quiet(&self) {
        // An error would mean that the sender is gone, but it is in `self`.
        let _ = self.under_way.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Stops accepting requests.
    pub(super) fn close(&self) {
        self.closing.cancel();
    }

    /// Ends all sessions, and waits until they have ended.
    pub(super) async fn end(&self) {
        self.ended.cancel();
        for place in &self.principals {
            place.sessions.end_all().await;
            let shared = place.shared.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(opened) = shared {
                opened.backend.end().await;
            }
        }
        self.endings.close();
        self.endings.wait().await;
    }

    /// Returns the number of requests so far.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Ends the sessions whose clients are gone.
    pub(super) async fn end_idle(&self, idle: Duration) {
        for place in &self.principals {
            place.sessions.end_idle(idle).await;
        }
    }
}

impl<H: Backend> Place<H> {
    /// Returns the id that a request names, if that session was given up.
    fn given_up(&self, head: &Parts) -> Option<String> {
        let id = head.headers.get("mcp-session-id")?.to_str().ok()?;
        self.sessions.is_given_up(id).then(|| id.to_owned())
    }

    /// Returns the session that a request names.
    fn session(&self, head: &Parts) -> Result<Option<Arc<Entry<H>>>, Box<Reply>> {
        let mut ids = head.headers.get_all("mcp-session-id").iter();
        let Some(id) = ids.next() else { return Ok(None) };
        // A proxy may use the other one.
        if ids.next().is_some() {
            let what = "a request has one Mcp-Session-Id header";
            return Err(Box::new(replies::text(StatusCode::BAD_REQUEST, what)));
        }
        match id.to_str().ok().and_then(|id| self.sessions.get(id)) {
            Some(session) => Ok(Some(session)),
            None => Err(Box::new(replies::text(
                StatusCode::NOT_FOUND,
                "there is no such session; begin a new one",
            ))),
        }
    }
}

impl RequestPermit {
    fn new(under_way: &watch::Sender<usize>, permit: OwnedSemaphorePermit) -> Self {
        under_way.send_modify(|count| *count += 1);
        Self { under_way: under_way.clone(), _permit: permit }
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.under_way.send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.0.idle();
    }
}

/// Answers GET and DELETE, which need a session; from revision 2026-07-28 on there are none.
fn without_session(head: &Parts) -> Reply {
    let revision = head.headers.get("mcp-protocol-version").and_then(|it| it.to_str().ok());
    if revision.is_some_and(|it| it >= LISTENING) {
        let mut reply = replies::text(StatusCode::METHOD_NOT_ALLOWED, "this revision of MCP has POST only");
        reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return reply;
    }
    replies::text(StatusCode::BAD_REQUEST, "the header Mcp-Session-Id is missing")
}

fn is_json(head: &Parts) -> bool {
    let mut types = head.headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(value), None) = (types.next(), types.next()) else { return false };
    let mut parts = value.to_str().unwrap_or_default().split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    // JSON is UTF-8, whatever the header says; a client that declares another charset would read the body
    // differently from haft.
    let is_utf8 = parts.all(|it| match it.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
            value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => true,
    });
    let is_plain = head.headers.get(header::CONTENT_ENCODING).is_none_or(|it| it == "identity");
    essence.eq_ignore_ascii_case("application/json") && is_plain && is_utf8
}
