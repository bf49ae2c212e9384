//! MCP sessions of a principal: opened, given up for others, resumed, and ended.
//!
//! At the limit, the session that has been idle longest is given up: its memory is freed, and the next request with
//! its id resumes it with a new backend. So a client that goes away without DELETE locks nobody out.
//!
//! Each principal has a table of its own, so that a session's id means nothing with another's token.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::Stream;
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::{
        common::server_side_http::ServerSseMessage,
        streamable_http_server::{
            SessionId, SessionManager,
            session::{
                RestoreOutcome, SessionState, SessionStore, SessionStoreError,
                local::{LocalSessionManager, LocalSessionManagerError},
            },
        },
    },
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::events::{self, Events};
use crate::{backend::Backend, mcp::Lasting};

/// Maximum number of requests of one session in flight.
const REQUESTS: usize = 64;

/// Maximum number of given-up sessions of one principal that can be resumed; the oldest are forgotten.
const GIVEN_UP: usize = 4096;

/// The sessions of one principal.
pub(super) struct Sessions<H> {
    table: Mutex<HashMap<SessionId, Arc<Entry<H>>>>,
    given_up: Mutex<GivenUp>,
    /// Held while a session is resumed.
    pub(super) resuming: tokio::sync::Mutex<()>,
    places: Arc<Semaphore>,
    /// Tracks sessions that are ending.
    endings: TaskTracker,
}

/// Sessions that were given up, each with what its client said in `initialize`.
#[derive(Default)]
struct GivenUp {
    states: HashMap<SessionId, SessionState>,
    /// Their ids, oldest first; some may be resumed by now.
    order: VecDeque<SessionId>,
}

/// One session.
pub(super) struct Entry<H> {
    local: LocalSessionManager,
    events: Arc<Events>,
    opened: Opened<H>,
    /// Permits for requests.
    pub(super) permits: Arc<Semaphore>,
    streams: AtomicUsize,
    last_used: Mutex<Instant>,
    /// The state from which it is resumed.
    state: OnceLock<SessionState>,
}

/// The backend of a session, with its state.
pub(super) struct Opened<H> {
    pub(super) backend: Arc<H>,
    /// Cancels its calls.
    pub(super) stop: CancellationToken,
    /// Its permit among the sessions of its principal.
    pub(super) place: Arc<OwnedSemaphorePermit>,
    /// State that outlives a request, for its own requests only.
    pub(super) lasting: Arc<Lasting>,
    /// Whether the backend ends with the session. Not if other sessions share it.
    pub(super) ends: bool,
}

impl<H> Clone for Opened<H> {
    fn clone(&self) -> Self {
        Self {
            backend: self.backend.clone(),
            stop: self.stop.clone(),
            place: self.place.clone(),
            lasting: self.lasting.clone(),
            ends: self.ends,
        }
    }
}

/// Keeps a session in use while a client reads an answer from it.
pub(super) struct Reading<H>(Arc<Entry<H>>);

/// The session manager of rmcp, for one request of one principal.
pub(super) struct SessionTable<H> {
    sessions: Arc<Sessions<H>>,
    /// The backend of a session that this request opens, until it is opened.
    new: Mutex<Option<Opened<H>>>,
    /// The session that this request has opened.
    made: OnceLock<Weak<Entry<H>>>,
}

type EventStream = Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>;

impl<H: Backend> Sessions<H> {
    pub(super) fn new(at_most: usize, endings: TaskTracker) -> Arc<Self> {
        Arc::new(Self {
            table: Mutex::default(),
            given_up: Mutex::default(),
            resuming: tokio::sync::Mutex::default(),
            places: Arc::new(Semaphore::new(at_most)),
            endings,
        })
    }

    /// Returns a permit for one more session. At the limit it gives up the one that has been idle longest, and
    /// none with a call, a job or a reading client; `None` if there is no such.
    pub(super) async fn place(&self) -> Option<Arc<OwnedSemaphorePermit>> {
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            return Some(Arc::new(permit));
        }
        let (id, entry) = {
            let mut table = self.table();
            let idle = table.iter().filter(|(_, it)| it.is_idle(Duration::ZERO));
            let mut idle: Vec<(Instant, SessionId)> =
                idle.map(|(id, it)| (it.last_used(), id.clone())).collect();
            idle.sort_unstable_by_key(|it| it.0);
            let (_, id) = idle.into_iter().find(|(_, id)| {
                table.get(id).is_some_and(|it| !it.opened.ends || !it.opened.backend.is_working())
            })?;
            let entry = table.remove(&id)?;
            (id, entry)
        };
        tracing::info!("giving up the session that was idle longest; its next request resumes it");
        if let Some(state) = entry.state.get() {
            self.given_up().put(id.clone(), state.clone());
        }
        // The new session has its place at once, although the old one takes a moment to end.
        let place = entry.opened.place.clone();
        self.finish(&id, &entry).await;
        Some(place)
    }

    /// Returns whether a session of this id was given up and can be resumed.
    pub(super) fn is_given_up(&self, id: &str) -> bool {
        self.given_up().states.contains_key(id)
    }

    /// Forgets a session that was given up. Returns whether there was one.
    pub(super) fn forget(&self, id: &str) -> bool {
        self.given_up().states.remove(id).is_some()
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Entry<H>>> {
        self.table().get(id).cloned()
    }

    /// Ends the sessions that were idle for this long.
    pub(super) async fn end_idle(&self, idle: Duration) {
        let entries: Vec<(SessionId, Arc<Entry<H>>)> =
            self.table().iter().map(|(id, entry)| (id.clone(), entry.clone())).collect();
        for (id, entry) in entries {
            if entry.is_idle(idle) {
                tracing::info!("ending a session that its client has not used for {} s", idle.as_secs());
                self.close(&id).await;
            }
        }
    }

    /// Ends all of them.
    pub(super) async fn end_all(&self) {
        let ids: Vec<SessionId> = self.table().keys().cloned().collect();
        for id in ids {
            self.close(&id).await;
        }
    }

    async fn close(&self, id: &SessionId) {
        let Some(entry) = self.table().remove(id) else { return };
        self.finish(id, &entry).await;
    }

    async fn finish(&self, id: &SessionId, entry: &Entry<H>) {
        entry.opened.stop.cancel();
        // Its worker may have ended already.
        let _ = entry.local.close_session(id).await;
        self.end(entry.opened.clone());
    }

    /// Ends a backend that is no longer needed.
    fn end(&self, opened: Opened<H>) {
        if opened.ends {
            self.endings.spawn(async move {
                opened.backend.end().await;
                drop(opened);
            });
        }
    }

    fn given_up(&self) -> MutexGuard<'_, GivenUp> {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn table(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Entry<H>>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Backend> Entry<H> {
    fn new(opened: Opened<H>) -> Arc<Self> {
        let events = Events::new();
        let mut local = LocalSessionManager::default().with_event_store(events.clone());
        // haft decides how long a session lives: rmcp's own timeout would run during a call.
        local.session_config.keep_alive = None;
        Arc::new(Self {
            local,
            events,
            opened,
            permits: Arc::new(Semaphore::new(REQUESTS)),
            streams: AtomicUsize::new(0),
            last_used: Mutex::new(Instant::now()),
            state: OnceLock::new(),
        })
    }

    /// Returns its backend.
    pub(super) fn opened(&self) -> &Opened<H> {
        &self.opened
    }

    /// Marks it as used.
    pub(super) fn used(&self) {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Keeps it in use while a client reads an answer from it.
    pub(super) fn reading(self: &Arc<Self>) -> Reading<H> {
        self.streams.fetch_add(1, Ordering::Relaxed);
        Reading(Arc::clone(self))
    }

    fn is_idle(&self, idle: Duration) -> bool {
        self.streams.load(Ordering::Relaxed) == 0
            && self.permits.available_permits() == REQUESTS
            && self.last_used().elapsed() >= idle
    }

    fn last_used(&self) -> Instant {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GivenUp {
    fn put(&mut self, id: SessionId, state: SessionState) {
        if self.states.insert(id.clone(), state).is_none() {
            self.order.push_back(id);
        }
        while self.order.len() > GIVEN_UP
            && let Some(oldest) = self.order.pop_front()
        {
            self.states.remove(&oldest);
        }
    }
}

/// The state with which rmcp resumes a session.
pub(super) struct Resumable<H>(pub(super) Arc<Sessions<H>>);

type Stored<'a, T> = Pin<Box<dyn Future<Output = Result<T, SessionStoreError>> + Send + 'a>>;

impl<H: Backend> SessionStore for Resumable<H> {
    fn load<'a, 'b, 'd>(&'a self, id: &'b str) -> Stored<'d, Option<SessionState>>
    where
        'a: 'd,
        'b: 'd,
        Self: 'd,
    {
        let state = self.0.given_up().states.get(id).cloned();
        Box::pin(async move { Ok(state) })
    }

    fn store<'a, 'b, 'c, 'd>(&'a self, id: &'b str, state: &'c SessionState) -> Stored<'d, ()>
    where
        'a: 'd,
        'b: 'd,
        'c: 'd,
        Self: 'd,
    {
        if let Some(entry) = self.0.get(id) {
            // A session is initialized once.
            let _ = entry.state.set(state.clone());
        }
        Box::pin(async { Ok(()) })
    }

    fn delete<'a, 'b, 'd>(&'a self, id: &'b str) -> Stored<'d, ()>
    where
        'a: 'd,
        'b: 'd,
        Self: 'd,
    {
        self.0.forget(id);
        Box::pin(async { Ok(()) })
    }
}

impl<H> Drop for Reading<H> {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
        *self.0.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

impl<H: Backend> SessionTable<H> {
    pub(super) fn new(sessions: Arc<Sessions<H>>, new: Option<Opened<H>>) -> Self {
        Self { sessions, new: Mutex::new(new), made: OnceLock::new() }
    }

    /// Drops the backend of a session that the request did not open after all.
    pub(super) fn tidy(&self) {
        if let Some(opened) = self.take() {
            self.sessions.end(opened);
        }
    }

    fn insert(&self, id: SessionId, entry: Arc<Entry<H>>) {
        // A request opens one session.
        let _ = self.made.set(Arc::downgrade(&entry));
        self.sessions.table().insert(id, entry);
    }

    fn take(&self) -> Option<Opened<H>> {
        self.new.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn entry(&self, id: &SessionId) -> Result<Arc<Entry<H>>, LocalSessionManagerError> {
        self.sessions.get(id).ok_or_else(|| LocalSessionManagerError::SessionNotFound(id.clone()))
    }
}

impl<H: Backend> SessionManager for SessionTable<H> {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let Some(opened) = self.take() else {
            return Err(LocalSessionManagerError::SessionNotFound("new".into()));
        };
        let entry = Entry::new(opened);
        let (id, transport) = entry.local.create_session().await?;
        self.insert(id.clone(), entry);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.entry(id)?.local.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.sessions.get(id).is_some())
    }

    async fn restore_session(&self, id: SessionId) -> Result<RestoreOutcome<Self::Transport>, Self::Error> {
        let Some(opened) = self.take() else { return Ok(RestoreOutcome::NotSupported) };
        let entry = Entry::new(opened);
        let restored = entry.local.restore_session(id.clone()).await?;
        if let Some(state) = self.sessions.given_up().states.remove(&id) {
            let _ = entry.state.set(state);
        }
        self.insert(id, entry);
        Ok(restored)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        // The worker of a session that was given up must not end the resumed one.
        let is_another = |made: &Weak<Entry<H>>| {
            self.sessions.get(id).is_none_or(|it| !std::ptr::eq(Arc::as_ptr(&it), made.as_ptr()))
        };
        if self.made.get().is_some_and(is_another) {
            return Ok(());
        }
        self.sessions.close(id).await;
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let stream: EventStream = Box::pin(self.entry(id)?.local.create_stream(id, message).await?);
        Ok(stream)
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.entry(id)?.local.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let stream: EventStream = Box::pin(self.entry(id)?.local.create_standalone_stream(id).await?);
        Ok(stream)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let entry = self.entry(id)?;
        // rmcp's name for the beginning of the stream without a request.
        if last == "0" {
            let stream: EventStream = Box::pin(entry.local.create_standalone_stream(id).await?);
            return Ok(stream);
        }
        let events = entry.events.clone();
        let unknown = || LocalSessionManagerError::SessionNotFound(id.clone());
        events::replay(&events, &last).ok_or_else(unknown)
    }
}
