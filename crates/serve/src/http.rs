//! MCP over Streamable HTTP.
//!
//! rmcp speaks the protocol; who may speak to it at all, how much, and how slowly, is decided here.

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

use crate::{backend::Backend, mcp::About};
use connections::{Connection, Connections};
use server::Server;
use slow_connections::{HEAD, Pace, Paced};
pub use tokens::Principal;

/// At the end, calls may finish by themselves for this long.
const FINISH: Duration = Duration::from_millis(500);

/// After they were told to stop, they, and the jobs of their sessions, may take this long to do so.
const STOP: Duration = Duration::from_millis(2500);

/// How many connections there are at most, where the system has room for as many files.
const CONNECTIONS: usize = 512;

/// How many of them may belong to strangers.
const UNAUTHENTICATED: usize = 128;

/// The head of a request has at most so many bytes, and so many headers.
const HEAD_BYTES: usize = 32 * 1024;
const HEADERS: usize = 64;

/// How often sessions are looked for that nobody uses any more.
const ROUND: Duration = Duration::from_secs(5);

/// What a server over HTTP is told.
#[derive(Debug, Clone)]
pub struct Http {
    /// Who may use it, each by a token. Without any, everybody may who can reach it.
    pub principals: Vec<Principal>,
    /// What it is called beside the names of loopback: `HOST`, `HOST:PORT`, or a URL of these.
    pub public: Vec<String>,
    /// The foreign origins whose pages may use it.
    pub origins: Vec<String>,
    /// Who else gives out its tokens, for its metadata.
    pub authorization_servers: Vec<String>,
    /// A session ends when its client was gone for this long.
    pub idle: Duration,
    /// How many sessions one principal may have at once.
    pub sessions: usize,
    /// Whatever the sessions of a principal are, they work with the same: what was opened as shared.
    pub one_session: bool,
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
        }
    }
}

/// For whom something to work with is opened.
#[derive(Debug, Clone, Copy)]
pub struct Visit<'a> {
    /// The principal; none where no token is wanted.
    pub principal: Option<&'a str>,
    /// Is it for all requests of the principal that belong to no session? From revision 2026-07-28 on none does.
    pub is_shared: bool,
}

/// Is this what a server can be [called](Http::public)?
pub fn is_public_name(text: &str) -> bool {
    admission::is_name(text)
}

/// Is this an [origin](Http::origins)?
pub fn is_origin(text: &str) -> bool {
    admission::is_origin(text)
}

/// Serves MCP over HTTP at `/mcp`, on a socket that listens, until `stop`: then calls finish or are stopped within
/// seconds, and sessions end. `open` gives each session what it works with.
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
    loop {
        sleep(ROUND.min(idle)).await;
        server.end_idle(idle).await;
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
                // Out of files, most likely, or the other end has left already.
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
    // Answers are small, and somebody waits for each.
    let _ = socket.set_nodelay(true);
    let pace = Pace::new();
    let io = TokioIo::new(Paced::new(socket, pace.clone()));
    let connection = Arc::new(connection);
    let answering = service_fn(|request| {
        let (server, connection, pace) = (server.clone(), connection.clone(), pace.clone());
        async move { Ok::<_, std::convert::Infallible>(server.answer(request, &connection, &pace).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_header_size(HEAD_BYTES)
        .max_buf_size(HEAD_BYTES * 2)
        .max_headers(HEADERS)
        .serve_connection(io, answering);
    let mut connection = std::pin::pin!(connection);
    let mut is_closing = false;
    loop {
        tokio::select! {
            served = connection.as_mut() => {
                if let Err(error) = served {
                    tracing::debug!(%peer, %error, "a connection broke");
                }
                return;
            }
            () = server.closing.cancelled(), if !is_closing => {
                is_closing = true;
                connection.as_mut().graceful_shutdown();
            }
            () = pace.lost() => {
                tracing::debug!(%peer, "dropping a connection whose other end is too slow");
                return;
            }
            () = connection.closed.cancelled() => return,
        }
    }
}

/// Says that the house is full, to whoever listens.
async fn turn_away(mut socket: TcpStream) {
    let reply = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let _ = timeout(HEAD, socket.write_all(reply.as_bytes())).await;
}

/// How many connections there may be, with as many files left for the work.
fn connections() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    files.and_then(|it| usize::try_from(it).ok()).map_or(CONNECTIONS, |it| CONNECTIONS.min(it / 2)).max(8)
}
