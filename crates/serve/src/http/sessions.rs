//! MCP sessions of a principal, and their end.
//!
//! Each principal has a table of its own, so that a session's id means nothing with another's token.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
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
            session::local::{LocalSessionManager, LocalSessionManagerError},
        },
    },
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::events::{self, Events};
use crate::{backend::Backend, mcp::Lasting};

/// Maximum number of requests of one session in flight.
const REQUESTS: usize = 64;

/// The sessions of one principal.
pub(super) struct Sessions<H> {
    table: Mutex<HashMap<SessionId, Arc<Entry<H>>>>,
    places: Arc<Semaphore>,
    /// Tracks sessions that are ending.
    endings: TaskTracker,
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
}

type EventStream = Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>;

impl<H: Backend> Sessions<H> {
    pub(super) fn new(at_most: usize, endings: TaskTracker) -> Arc<Self> {
        Arc::new(Self { table: Mutex::default(), places: Arc::new(Semaphore::new(at_most)), endings })
    }

    /// Returns a permit for one more session; `None` at the limit.
    pub(super) fn place(&self) -> Option<Arc<OwnedSemaphorePermit>> {
        Arc::clone(&self.places).try_acquire_owned().ok().map(Arc::new)
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
            && self.last_used.lock().unwrap_or_else(PoisonError::into_inner).elapsed() >= idle
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
        Self { sessions, new: Mutex::new(new) }
    }

    /// Drops the backend of a session that the request did not open after all.
    pub(super) fn tidy(&self) {
        if let Some(opened) = self.take() {
            self.sessions.end(opened);
        }
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
        self.sessions.table().insert(id.clone(), entry);
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

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
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
