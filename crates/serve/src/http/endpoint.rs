//! The MCP endpoint: answers the requests of principals that a server has let in, whichever HTTP server mounts it.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, header, request::Parts};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use kit::services::Soon;
use rmcp::{
    model::{ClientRequest, ErrorCode, JsonRpcMessage},
    transport::{StreamableHttpServerConfig, StreamableHttpService},
};
use serde_json::Value;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Visit,
    bodies::{BodyPermits, Guarded},
    replies::{self, Reply},
    sessions::{Entry, Opened, Reading, Resumable, SessionTable, Sessions},
};
use crate::{
    backend::Backend,
    erased::Erased,
    mcp::{About, McpServer},
    message::{self, LISTENING, Message, Refusal, understand},
    salvage::repaired,
};

/// Maximum number of a principal's requests without a session that are in flight.
const REQUESTS: usize = 256;

/// Number of a principal's sessions that are reserved for requests without one.
const SHARED: usize = 1;

/// Time for calls to finish by themselves when the endpoint ends.
const FINISH: Duration = Duration::from_millis(500);

/// Time for calls, and the jobs of their sessions, to end after they were cancelled.
const STOP: Duration = Duration::from_millis(2500);

/// An MCP endpoint, as HTTP servers mount it: [`endpoint`] creates one.
pub trait Mounted: Send + Sync {
    /// Answers one request.
    fn answer<'a>(&'a self, request: Admitted<'a>) -> Soon<'a, Reply>;

    /// Returns the principals that have sessions, or had some.
    fn principals(&self) -> Vec<String>;

    /// Ends all sessions, calls and streams of a principal, whose access has ended.
    fn dismiss<'a>(&'a self, principal: &'a str) -> Soon<'a, ()>;

    /// Ends the sessions whose clients are gone for this long.
    fn end_idle(&self, idle: Duration) -> Soon<'_, ()>;

    /// Ends: accepts no more requests, lets calls finish or cancels them within seconds, and ends all sessions.
    fn finish(&self) -> Soon<'_, ()>;
}

/// A request that a server has let in.
pub struct Admitted<'a> {
    /// Its head. Host, origin and token were checked.
    pub head: Parts,
    /// Its body.
    pub body: Incoming,
    /// Its principal, who alone can use the sessions that it opens; empty if tokens are not required.
    pub principal: &'a str,
    /// The name of the person, who may have several principals.
    pub person: &'a str,
    /// The memory permits of the server.
    pub permits: &'a BodyPermits,
    /// Called once the body is complete.
    pub on_read: &'a (dyn Fn() + Sync),
}

/// The settings of an endpoint.
pub struct Endpoints {
    /// Maximum number of sessions of one principal at once.
    pub sessions: usize,
    /// Whether all sessions of a principal share one backend.
    pub one_session: bool,
}

/// Creates an endpoint; `open` creates the backend of each session.
pub fn endpoint<H: Backend>(
    settings: Endpoints,
    about: About,
    open: impl Fn(Visit<'_>) -> io::Result<H> + Send + Sync + 'static,
) -> Arc<dyn Mounted> {
    erased(settings, about, Box::new(move |visit| open(visit).map(Erased::new)))
}

fn erased(settings: Endpoints, about: About, open: Opening<Erased>) -> Arc<dyn Mounted> {
    Arc::new(Endpoint::new(settings, about, open))
}

/// An endpoint.
pub(super) struct Endpoint<H> {
    settings: Endpoints,
    about: About,
    open: Opening<H>,
    principals: Mutex<HashMap<String, Arc<Place<H>>>>,
    /// Sessions that are ending.
    endings: TaskTracker,
    under_way: watch::Sender<usize>,
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
    /// Cancelled to end the principal's requests.
    ended: CancellationToken,
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

impl<H: Backend> Mounted for Endpoint<H> {
    fn answer<'a>(&'a self, request: Admitted<'a>) -> Soon<'a, Reply> {
        Box::pin(async move {
            let ends_session = request.head.method == Method::DELETE;
            let (mut reply, reading) = self.pass(request).await;
            // Clients take 202 for a failure here, as nothing remains to be done.
            if ends_session && reply.status() == StatusCode::ACCEPTED {
                *reply.status_mut() = StatusCode::NO_CONTENT;
            }
            match reading {
                // The session is in use until its client has read the answer.
                Some(reading) => reply.map(|body| Guarded::new(body, reading).boxed()),
                None => reply,
            }
        })
    }

    fn principals(&self) -> Vec<String> {
        self.places().keys().cloned().collect()
    }

    fn dismiss<'a>(&'a self, principal: &'a str) -> Soon<'a, ()> {
        Box::pin(async move {
            let place = self.places().remove(principal);
            if let Some(place) = place {
                place.end().await;
            }
        })
    }

    fn end_idle(&self, idle: Duration) -> Soon<'_, ()> {
        Box::pin(async move {
            for place in self.all() {
                place.sessions.end_idle(idle).await;
            }
        })
    }

    fn finish(&self) -> Soon<'_, ()> {
        Box::pin(async move {
            self.closing.cancel();
            let _ = timeout(FINISH, self.quiet()).await;
            if timeout(STOP, self.end()).await.is_err() {
                tracing::warn!("calls did not stop in time; leaving them");
            }
        })
    }
}

impl<H: Backend> Endpoint<H> {
    pub(super) fn new(settings: Endpoints, about: About, open: Opening<H>) -> Self {
        Self {
            settings,
            about,
            open,
            principals: Mutex::default(),
            endings: TaskTracker::new(),
            under_way: watch::Sender::new(0),
            closing: CancellationToken::new(),
            ended: CancellationToken::new(),
        }
    }

    fn places(&self) -> MutexGuard<'_, HashMap<String, Arc<Place<H>>>> {
        self.principals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<Arc<Place<H>>> {
        self.places().values().cloned().collect()
    }

    /// Returns the state of a principal.
    fn place(&self, principal: &str) -> Arc<Place<H>> {
        let mut places = self.places();
        if let Some(place) = places.get(principal) {
            return place.clone();
        }
        let sessions = Sessions::new(self.settings.sessions, self.endings.clone());
        let place = Arc::new(Place {
            name: Some(principal).filter(|it| !it.is_empty()).map(str::to_owned),
            resumable: Arc::new(Resumable(sessions.clone())),
            sessions,
            shared: Mutex::new(None),
            shared_places: Arc::new(Semaphore::new(SHARED)),
            permits: Arc::new(Semaphore::new(REQUESTS)),
            ended: self.ended.child_token(),
        });
        places.insert(principal.to_owned(), place.clone());
        place
    }

    /// Answers one request of a principal.
    async fn pass(&self, request: Admitted<'_>) -> (Reply, Option<Reading<H>>) {
        let Admitted { mut head, body, principal, person, permits, on_read } = request;
        let place = &self.place(principal);
        if self.closing.is_cancelled() {
            return (replies::full("haft is ending"), None);
        }
        let asked = if head.method == Method::POST {
            match read(permits, person, &head, body).await {
                Ok(asked) => asked,
                Err(reply) => return (reply, None),
            }
        } else {
            Asked { opens: false, is_request: false, bytes: Bytes::new() }
        };
        // Only once its body is complete: otherwise a client that begins many requests and finishes none
        // would block others.
        on_read();
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
        if place.ended.is_cancelled() {
            // The principal was dismissed meanwhile, and this may have opened a session.
            place.sessions.end_all().await;
        }
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
            .with_cancellation_token(place.ended.clone())
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
        if self.settings.one_session {
            let shared = self.shared(place)?;
            return Ok(Opened {
                stop: place.ended.child_token(),
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
        if place.ended.is_cancelled() {
            return Err(Box::new(replies::full("this access has ended, or haft is ending")));
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
            stop: place.ended.child_token(),
            place: permit,
            lasting: Arc::default(),
            ends: true,
        })
    }

    /// Resolves when no request is in flight.
    async fn quiet(&self) {
        // An error would mean that the sender is gone, but it is in `self`.
        let _ = self.under_way.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Ends all sessions, and waits until they have ended.
    async fn end(&self) {
        self.ended.cancel();
        for place in self.all() {
            place.end().await;
        }
        self.endings.close();
        self.endings.wait().await;
    }
}

impl<H: Backend> Place<H> {
    /// Ends the principal's requests and sessions.
    async fn end(&self) {
        self.ended.cancel();
        self.sessions.end_all().await;
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(opened) = shared {
            opened.backend.end().await;
        }
    }

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

/// Reads and parses a body.
async fn read(permits: &BodyPermits, person: &str, head: &Parts, body: Incoming) -> Result<Asked, Reply> {
    // A page can't send this type without a preflight request.
    if !is_json(head) {
        let what = "a message is sent as `Content-Type: application/json` in UTF-8, without an encoding";
        return Err(replies::last(StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
    }
    let bytes = permits.read(person, body).await?;
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
