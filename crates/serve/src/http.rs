//! MCP over Streamable HTTP: authentication, limits and sessions around rmcp's protocol.

mod admission;
mod bodies;
mod connections;
mod events;
mod replies;
mod server;
mod sessions;
mod slow_connections;
mod tokens;

use std::{
    io,
    net::{SocketAddr, TcpListener as StdListener},
    sync::Arc,
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{backend::Backend, hooks::Hooks, mcp::About};
use connections::{Connection, Connections};
use server::Server;
use slow_connections::{HEAD, Pace, Paced};
pub use tokens::Principal;

/// Time for calls to finish by themselves when the server ends.
const FINISH: Duration = Duration::from_millis(500);

/// Time for calls, and the jobs of their sessions, to end after they were cancelled.
const STOP: Duration = Duration::from_millis(2500);

/// Maximum number of connections, if the limit of open files allows it.
const CONNECTIONS: usize = 512;

/// Maximum number of connections that are not authenticated yet.
const UNAUTHENTICATED: usize = 128;

/// Maximum size of a request's head, in bytes, and of its headers.
const HEAD_BYTES: usize = 32 * 1024;
const HEADERS: usize = 64;

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
    admission::is_name(text)
}

/// Returns whether this is an [origin](Http::origins).
pub fn is_origin(text: &str) -> bool {
    admission::is_origin(text)
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
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let address = listener.local_addr()?;
    let idle = settings.idle;
    let server = Arc::new(Server::new(&settings, about, address.port(), Box::new(open)));
    let at_most = connections();
    let connections = Connections::new(at_most, UNAUTHENTICATED.min(at_most / 2));
    let tasks = TaskTracker::new();
    tokio::select! {
        never = accept(&listener, &server, &connections, &tasks) => match never {},
        never = rounds(&server, idle) => match never {},
        () = stop.cancelled() => {}
    }
    drop(listener);
    tasks.close();
    server.close();
    let _ = timeout(FINISH, server.quiet()).await;
    if timeout(STOP, server.end()).await.is_err() {
        tracing::warn!("calls did not stop in time; leaving them");
    }
    let _ = timeout(FINISH, tasks.wait()).await;
    Ok(())
}

async fn rounds<H: Backend>(server: &Server<H>, idle: Duration) -> std::convert::Infallible {
    let (mut before, mut returned) = (0, 0);
    loop {
        sleep(ROUND.min(idle)).await;
        server.end_idle(idle).await;
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

async fn accept<H: Backend>(
    listener: &TcpListener,
    server: &Arc<Server<H>>,
    connections: &Arc<Connections>,
    tasks: &TaskTracker,
) -> std::convert::Infallible {
    loop {
        let (socket, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Too many open files, most likely, or the client has disconnected already.
                tracing::info!(%error, "a connection could not be accepted");
                connections.evict_one();
                sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        match connections.enter(peer.ip()) {
            Some(connection) => drop(tasks.spawn(serve(socket, peer, server.clone(), connection))),
            None => drop(tasks.spawn(turn_away(socket))),
        }
    }
}

async fn serve<H: Backend>(
    socket: TcpStream,
    peer: SocketAddr,
    server: Arc<Server<H>>,
    connection: Connection,
) {
    // Answers are small, and a client waits for each.
    let _ = socket.set_nodelay(true);
    let pace = Pace::new();
    let io = TokioIo::new(Paced::new(socket, pace.clone()));
    let connection = Arc::new(connection);
    let answering = service_fn(|request| {
        let (server, connection, pace) = (server.clone(), connection.clone(), pace.clone());
        async move { Ok::<_, std::convert::Infallible>(server.answer(request, &connection, &pace).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_header_size(HEAD_BYTES)
        .max_buf_size(HEAD_BYTES * 2)
        .max_headers(HEADERS)
        .serve_connection(io, answering);
    let mut serving = std::pin::pin!(serving);
    let mut is_closing = false;
    loop {
        tokio::select! {
            served = serving.as_mut() => {
                if let Err(error) = served {
                    tracing::debug!(%peer, %error, "a connection broke");
                }
                return;
            }
            () = server.closing.cancelled(), if !is_closing => {
                is_closing = true;
                serving.as_mut().graceful_shutdown();
            }
            () = pace.lost() => {
                tracing::debug!(%peer, "dropping a connection whose other end is too slow");
                return;
            }
            () = connection.closed.cancelled() => return,
        }
    }
}

/// Answers 503: the connection limit is reached.
async fn turn_away(mut socket: TcpStream) {
    let reply = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let _ = timeout(HEAD, socket.write_all(reply.as_bytes())).await;
}

/// Returns the maximum number of connections, with as many files left for other work.
fn connections() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    files.and_then(|it| usize::try_from(it).ok()).map_or(CONNECTIONS, |it| CONNECTIONS.min(it / 2)).max(8)
}
