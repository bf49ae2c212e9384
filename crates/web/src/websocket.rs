//! WebSocket: the handshake, and a relay of text messages with limits on size, silence and slow readers.

use std::{
    future::pending,
    io,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{
    SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use http::{HeaderName, HeaderValue, Response, StatusCode, Version, header, request::Parts};
use http_body_util::{BodyExt as _, Empty};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use kit::base64;
use serve::acp::MessageChannel;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        error::CapacityError,
        handshake::derive_accept_key,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use crate::{
    answer::Answer,
    call::{Link, StreamAccess},
    problem::Problem,
};

/// The largest message of a client, in bytes.
const LARGEST: usize = 16 << 20;

/// The interval of pings.
const PING: Duration = Duration::from_secs(20);

/// A client of which no byte comes for this long is gone.
const SILENCE: Duration = Duration::from_secs(60);

/// Time for the upgrade, and for the closing handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
const CLOSING: Duration = Duration::from_secs(1);

/// The pings that a client may send between two of ours: each is answered, and answers that it does not read take memory.
const MOST_PINGS: u32 = 256;

/// A handshake that was accepted.
pub(crate) struct Handshake {
    /// Its answer.
    pub(crate) answer: Answer,
    /// The connection, once the answer is sent.
    pub(crate) upgrade: OnUpgrade,
}

/// Checks the handshake of a client (RFC 6455). Takes the connection out of the head.
pub(crate) fn accept(head: &mut Parts) -> Result<Handshake, Problem> {
    let has = |name: HeaderName, wanted: &str| {
        let values = head.headers.get_all(name).iter().filter_map(|it| it.to_str().ok());
        values.flat_map(|it| it.split(',')).any(|it| it.trim().eq_ignore_ascii_case(wanted))
    };
    let needed = |what: &str| {
        let problem = Problem::new(StatusCode::UPGRADE_REQUIRED, "bad_args", what);
        problem.next("Connect with a WebSocket client, version 13, over HTTP/1.1.")
    };
    if head.version != Version::HTTP_11
        || !has(header::UPGRADE, "websocket")
        || !has(header::CONNECTION, "upgrade")
    {
        return Err(needed("this is a WebSocket, and the request does not ask for one"));
    }
    if !has(header::SEC_WEBSOCKET_VERSION, "13") {
        return Err(needed("this WebSocket has version 13"));
    }
    if [header::TRANSFER_ENCODING, header::CONTENT_LENGTH].iter().any(|it| head.headers.contains_key(it)) {
        return Err(Problem::bad("the request for a WebSocket has no body"));
    }
    let mut keys = head.headers.get_all(header::SEC_WEBSOCKET_KEY).iter();
    let key = match (keys.next(), keys.next()) {
        (Some(key), None) => key.to_str().ok().map(str::trim),
        _ => None,
    };
    let key = key.filter(|it| base64::decoded(it).is_some_and(|it| it.len() == 16));
    let key = key.ok_or_else(|| Problem::bad("`Sec-WebSocket-Key` is 16 bytes in base64, once"))?;
    let accepted = derive_accept_key(key.as_bytes());
    let Some(upgrade) = head.extensions.remove::<OnUpgrade>() else {
        return Err(needed("this connection can't become a WebSocket"));
    };
    let mut reply = Response::new(Empty::new().boxed());
    *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    reply.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    let answer = Answer(reply).header(header::SEC_WEBSOCKET_ACCEPT, &accepted);
    Ok(Handshake { answer, upgrade })
}

/// A connection that notes when bytes come.
struct Watched {
    inner: TokioIo<Upgraded>,
    seen: Arc<Seen>,
}

/// When the client was there last.
struct Seen {
    began: Instant,
    /// In milliseconds since the beginning.
    last: AtomicU64,
    /// A message of the client waits until the agent takes it: nothing is read meanwhile.
    is_full: AtomicBool,
}

impl Seen {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn note(&self) {
        self.last.store(self.now(), Ordering::Relaxed);
    }

    fn is_gone(&self) -> bool {
        let silent = self.now().saturating_sub(self.last.load(Ordering::Relaxed));
        !self.is_full.load(Ordering::Relaxed) && Duration::from_millis(silent) >= SILENCE
    }
}

type Socket = WebSocketStream<Watched>;

/// Relays the messages of a client to the agent and back, until either side ends, the access ends, or the server does.
pub(crate) async fn relay(upgrade: OnUpgrade, channel: MessageChannel, access: &StreamAccess, link: &Link) {
    let MessageChannel { to_agent, from_agent } = channel;
    let Ok(Ok(upgraded)) = timeout(HANDSHAKE, upgrade).await else { return };
    let _counted = access.server.counts.stream();
    let seen =
        Arc::new(Seen { began: Instant::now(), last: AtomicU64::new(0), is_full: AtomicBool::new(false) });
    let config = WebSocketConfig::default().max_message_size(Some(LARGEST)).max_frame_size(Some(LARGEST));
    let watched = Watched { inner: TokioIo::new(upgraded), seen: seen.clone() };
    let (mut sink, mut stream) =
        WebSocketStream::from_raw_socket(watched, Role::Server, Some(config)).await.split();
    let close = {
        let mut reading = pin!(read(&mut stream, to_agent, &seen));
        let mut writing = pin!(write(&mut sink, from_agent, &seen));
        tokio::select! {
            close = &mut reading => close,
            close = &mut writing => close,
            () = access.ended() => Some((CloseCode::Policy, "this access has ended")),
            () = access.server.closing.cancelled() => Some((CloseCode::Away, "haft is ending")),
            () = link.pace.lost() => {
                tracing::debug!("dropping a WebSocket whose other end reads too slowly");
                None
            }
        }
    };
    if let Some((code, why)) = close {
        let closing = async {
            let _ = sink.send(Message::Close(Some(CloseFrame { code, reason: why.into() }))).await;
            // Until the client has closed, too: else it may not get what was sent.
            while let Some(Ok(_)) = stream.next().await {}
        };
        let _ = timeout(CLOSING, closing).await;
    }
}

/// Why a socket is closed from here; `None` where the other end is gone.
type Close = Option<(CloseCode, &'static str)>;

/// Reads the messages of the client.
async fn read(stream: &mut SplitStream<Socket>, to_agent: mpsc::Sender<Bytes>, seen: &Seen) -> Close {
    let (mut pings, mut counted_since) = (0, Instant::now());
    loop {
        let text = match stream.next().await? {
            Ok(Message::Text(text)) => text,
            Ok(Message::Ping(_)) => {
                if counted_since.elapsed() >= PING {
                    (pings, counted_since) = (0, Instant::now());
                }
                pings += 1;
                if pings > MOST_PINGS {
                    return Some((CloseCode::Policy, "too many pings"));
                }
                continue;
            }
            Ok(Message::Binary(_)) => {
                return Some((CloseCode::Unsupported, "a message is text: JSON"));
            }
            Ok(Message::Close(_)) => return Some((CloseCode::Normal, "")),
            Ok(Message::Pong(_) | Message::Frame(_)) => continue,
            Err(error) => return of_error(&error),
        };
        seen.is_full.store(true, Ordering::Relaxed);
        if to_agent.send(Bytes::from(text)).await.is_err() {
            // The agent reads no more; its last messages are still written.
            return pending().await;
        }
        seen.note();
        seen.is_full.store(false, Ordering::Relaxed);
    }
}

fn of_error(error: &Error) -> Close {
    match error {
        Error::Capacity(CapacityError::MessageTooLong { .. }) => {
            Some((CloseCode::Size, "a message has at most 16 MiB"))
        }
        Error::Utf8(_) => Some((CloseCode::Invalid, "a message is UTF-8")),
        Error::Protocol(_) => Some((CloseCode::Protocol, "this is not WebSocket")),
        _ => None,
    }
}

/// Writes the messages of the agent, and pings.
async fn write(
    sink: &mut SplitSink<Socket, Message>,
    mut from_agent: mpsc::Receiver<String>,
    seen: &Seen,
) -> Close {
    let mut beat = interval(PING);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat.tick().await;
    loop {
        let message = tokio::select! {
            biased;
            message = from_agent.recv() => match message {
                Some(message) => Message::Text(message.into()),
                None => return Some((CloseCode::Normal, "the session has ended")),
            },
            _ = beat.tick() => {
                if seen.is_gone() {
                    return None;
                }
                Message::Ping(Bytes::new())
            }
        };
        if sink.send(message).await.is_err() {
            return None;
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.seen.note();
        }
        polled
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
