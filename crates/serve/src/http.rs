//! MCP over Streamable HTTP: authentication, limits and sessions around rmcp's protocol.

mod admission;
pub(crate) mod bodies;
pub(crate) mod connections;
pub(crate) mod endpoint;
mod events;
pub(crate) mod exchange;
pub(crate) mod listener;
pub(crate) mod names;
pub(crate) mod replies;
mod server;
mod sessions;
pub(crate) mod slow_connections;
pub(crate) mod tokens;

use std::{io, net::TcpListener as StdListener, sync::Arc, time::Duration};

use kit::services::Soon;
use tokio::{
    net::TcpListener,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{backend::Backend, hooks::Hooks, mcp::About};
use endpoint::{Endpoints, Mounted, endpoint};
use listener::accept;
use server::Server;
pub use tokens::Principal;

/// Time for answers to be sent when the server ends.
const FINISH: Duration = Duration::from_millis(500);

/// Interval at which idle sessions are ended, and after which a server at rest returns free memory.
const ROUND: Duration = Duration::from_secs(5);

/// The settings of a server over HTTP.
#[derive(Clone)]
pub struct Http {
    /// The principals, each with a token. If there are none, everybody who can reach the server may use it.
    pub principals: Vec<Principal>,
    /// Its names besides those of loopback: `HOST`, `HOST:PORT`, or a URL of these.
    pub public: Vec<String>,
    /// The foreign origins whose pages may use it.
    pub origins: Vec<String>,
    /// External authorization servers, for its metadata.
    pub authorization_servers: Vec<String>,
    /// Time after which a session without a client ends.
    pub idle: Duration,
    /// Maximum number of sessions of one principal at once.
    pub sessions: usize,
    /// Whether all sessions of a principal share one backend.
    pub one_session: bool,
    /// The webhooks, if it has any.
    pub hooks: Option<Arc<dyn Hooks>>,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            principals: Vec::new(),
            public: Vec::new(),
            origins: Vec::new(),
            authorization_servers: Vec::new(),
            idle: Duration::from_secs(3600),
            sessions: 128,
            one_session: false,
            hooks: None,
        }
    }
}

/// The session for which a backend is opened.
#[derive(Debug, Clone, Copy)]
pub struct Visit<'a> {
    /// The principal; `None` if tokens are not required.
    pub principal: Option<&'a str>,
    /// Whether it is for all requests of the principal without a session: from revision 2026-07-28 on there
    /// are no sessions.
    pub is_shared: bool,
}

/// Returns whether this can be a [name](Http::public) of a server.
pub fn is_public_name(text: &str) -> bool {
    names::is_name(text)
}

/// Returns whether this is an [origin](Http::origins).
pub fn is_origin(text: &str) -> bool {
    names::is_origin(text)
}

/// Serves MCP over HTTP at `/mcp`, on a listening socket, until `stop`: then calls finish or are cancelled
/// within seconds, and sessions end. `open` creates the backend of each session.
///
/// # Errors
/// When the socket can't be used.
pub async fn http<H: Backend>(
    listener: StdListener,
    settings: Http,
    about: About,
    open: impl Fn(Visit<'_>) -> io::Result<H> + Send + Sync + 'static,
    stop: CancellationToken,
) -> io::Result<()> {
    let of_endpoint = Endpoints { sessions: settings.sessions, one_session: settings.one_session };
    serve(listener, settings, endpoint(of_endpoint, about, open), stop).await
}

/// A trait object, so that the server is compiled in this crate.
fn serve(
    listener: StdListener,
    settings: Http,
    endpoint: Arc<dyn Mounted>,
    stop: CancellationToken,
) -> Soon<'static, io::Result<()>> {
    Box::pin(async move {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        let idle = settings.idle;
        let server = Arc::new(Server::new(&settings, address.port(), endpoint.clone()));
        let tasks = TaskTracker::new();
        tokio::select! {
            never = accept(&listener, &server, &tasks) => match never {},
            never = rounds(&server, &*endpoint, idle) => match never {},
            () = stop.cancelled() => {}
        }
        drop(listener);
        tasks.close();
        server.close();
        endpoint.finish().await;
        let _ = timeout(FINISH, tasks.wait()).await;
        Ok(())
    })
}

async fn rounds(server: &Server, endpoint: &dyn Mounted, idle: Duration) -> std::convert::Infallible {
    let (mut before, mut returned) = (0, 0);
    loop {
        sleep(ROUND.min(idle)).await;
        endpoint.end_idle(idle).await;
        // After a busy time, once there is a round without a request.
        let requests = server.requests();
        if requests == before && requests != returned {
            returned = requests;
            // If it fails, the memory stays for later requests.
            let _ = tokio::task::spawn_blocking(kit::memory::give_back).await;
        }
        before = requests;
    }
}
