//! Connections of a server over HTTP: accepted up to a limit, dropped where the other end is too slow.

use std::{convert::Infallible, future::Future, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use hyper::{
    body::{Body, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    connections::{Connection, Connections},
    slow_connections::{HEAD, Pace, Paced},
};

/// Maximum number of connections, if the limit of open files allows it.
const CONNECTIONS: usize = 512;

/// Maximum number of connections that are not authenticated yet.
const UNAUTHENTICATED: usize = 128;

/// Maximum size of a request's head, in bytes, and of its headers.
const HEAD_BYTES: usize = 32 * 1024;
const HEADERS: usize = 64;

/// A server's answers to requests.
pub trait Answers: Send + Sync + 'static {
    /// The body of an answer.
    type Body: Body<Data = Bytes, Error = Infallible> + Send + 'static;

    /// Answers one request. Call [`Pace::busy`] at its beginning and [`Pace::idle`] once the answer is sent. Whoever upgrades the
    /// connection holds it from then on, and drops it once [`Pace::lost`] resolves.
    fn answer(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
        pace: &Arc<Pace>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// Cancelled when no new requests are accepted.
    fn closing(&self) -> &CancellationToken;
}

/// Accepts connections, and answers their requests in `tasks`, until the future is dropped.
pub async fn accept<S: Answers>(listener: &TcpListener, server: &Arc<S>, tasks: &TaskTracker) -> Infallible {
    let at_most = connections();
    let connections = Connections::new(at_most, UNAUTHENTICATED.min(at_most / 2));
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

async fn serve<S: Answers>(socket: TcpStream, peer: SocketAddr, server: Arc<S>, connection: Connection) {
    // Answers are small, and a client waits for each.
    let _ = socket.set_nodelay(true);
    let pace = Pace::new();
    let io = TokioIo::new(Paced::new(socket, pace.clone()));
    let connection = Arc::new(connection);
    let answering = service_fn(|request| {
        let (server, connection, pace) = (server.clone(), connection.clone(), pace.clone());
        async move { Ok::<_, Infallible>(server.answer(request, &connection, &pace).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_header_size(HEAD_BYTES)
        .max_buf_size(HEAD_BYTES * 2)
        .max_headers(HEADERS)
        .serve_connection(io, answering)
        .with_upgrades();
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
            () = server.closing().cancelled(), if !is_closing => {
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
