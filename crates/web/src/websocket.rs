//! WebSocket: the handshake, and a relay of text messages with limits on size, silence and slow readers.

use std::{
    future::pending,
    io,
    pin::{Pin, pin},
    sync::Arc,
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
use parking_lot::Mutex;
use serve::{
    acp::MessageChannel,
    gate::{HeldPermits, Pace, due},
};
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

/// A message up to this size needs no permit, in bytes.
const SMALL: usize = 64 << 10;

/// The bytes of a ping or a pong of a client beside its payload.
const CONTROL: usize = 6;

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
        return Err(Problem::bad("the request for a WebSocket has a body")
            .next("Send none: messages come after the handshake."));
    }
    let mut keys = head.headers.get_all(header::SEC_WEBSOCKET_KEY).iter();
    let key = match (keys.next(), keys.next()) {
        (Some(key), None) => key.to_str().ok().map(str::trim),
        _ => None,
    };
    let key = key.filter(|it| base64::decoded(it).is_some_and(|it| it.len() == 16));
    let key = key.ok_or_else(|| {
        Problem::bad("the request has not one `Sec-WebSocket-Key` of 16 bytes in base64")
            .next("Connect with a WebSocket client, which sends it.")
    })?;
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

/// A connection that counts the bytes of a message that is not whole yet.
struct Counting {
    inner: TokioIo<Upgraded>,
    unfinished: Arc<Unfinished>,
}

/// A message that is not whole yet: it has permits for its memory and a time limit, as the body of a request has.
struct Unfinished(Mutex<Part>);

/// The part of a message that has come.
struct Part {
    bytes: usize,
    began: Option<Instant>,
    held: HeldPermits,
    /// Why no more is read.
    refused: Option<(CloseCode, &'static str)>,
}

impl Part {
    fn clear(&mut self) {
        self.held.release();
        (self.bytes, self.began, self.refused) = (0, None, None);
    }
}

impl Unfinished {
    fn came(&self, bytes: usize) -> io::Result<()> {
        let mut part = self.0.lock();
        part.bytes += bytes;
        let Part { bytes, began, held, refused } = &mut *part;
        if *bytes <= SMALL {
            return Ok(());
        }
        let began = *began.get_or_insert_with(Instant::now);
        if !held.hold(*bytes) {
            *refused = Some((CloseCode::Again, "too many large messages at once"));
        } else if Instant::now() > due(began, *bytes) {
            *refused = Some((CloseCode::Policy, "the message comes too slowly"));
        }
        refused.map_or(Ok(()), |it| Err(io::Error::other(it.1)))
    }

    /// A ping or a pong came, maybe within a message.
    fn is_control(&self, payload: usize) {
        let mut part = self.0.lock();
        part.bytes = part.bytes.saturating_sub(payload + CONTROL);
    }

    /// The message came whole, and the agent has it.
    fn is_over(&self) {
        self.0.lock().clear();
    }

    fn refused(&self) -> Close {
        self.0.lock().refused
    }
}

type Socket = WebSocketStream<Counting>;

/// Relays the messages of a client to the agent and back, until either side ends, the access ends, or the server does.
pub(crate) async fn relay(upgrade: OnUpgrade, channel: MessageChannel, access: &StreamAccess, link: &Link) {
    let MessageChannel { to_agent, from_agent } = channel;
    let Ok(Ok(upgraded)) = timeout(HANDSHAKE, upgrade).await else { return };
    let _counted = access.server.counts.stream();
    let held = access.server.body_permits.of(&access.who.name);
    let part = Part { bytes: 0, began: None, held, refused: None };
    let unfinished = Arc::new(Unfinished(Mutex::new(part)));
    let config = WebSocketConfig::default().max_message_size(Some(LARGEST)).max_frame_size(Some(LARGEST));
    let counting = Counting { inner: TokioIo::new(upgraded), unfinished: unfinished.clone() };
    let (mut sink, mut stream) =
        WebSocketStream::from_raw_socket(counting, Role::Server, Some(config)).await.split();
    let silence = Silence { pace: &link.pace, limit: access.server.silence };
    let close = {
        let mut reading = pin!(read(&mut stream, to_agent, &unfinished, &silence));
        let mut writing = pin!(write(&mut sink, from_agent));
        tokio::select! {
            close = &mut reading => close,
            close = &mut writing => close,
            () = access.ended() => Some((CloseCode::Policy, "this access has ended")),
            () = access.server.closing.cancelled() => Some((CloseCode::Away, "haft is ending")),
            () = link.pace.lost() => {
                tracing::debug!("dropping a WebSocket whose other end reads too slowly, or is silent");
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

/// The time limit for a client of which no byte comes.
struct Silence<'a> {
    pace: &'a Pace,
    limit: Duration,
}

/// Reads the messages of the client.
async fn read(
    stream: &mut SplitStream<Socket>,
    to_agent: mpsc::Sender<Bytes>,
    unfinished: &Unfinished,
    silence: &Silence<'_>,
) -> Close {
    silence.pace.limit_silence(silence.limit);
    let (mut pings, mut counted_since) = (0, Instant::now());
    loop {
        let text = match stream.next().await? {
            Ok(Message::Text(text)) => text,
            Ok(Message::Ping(payload)) => {
                unfinished.is_control(payload.len());
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
            Ok(Message::Pong(payload)) => {
                unfinished.is_control(payload.len());
                continue;
            }
            Ok(Message::Frame(_)) => continue,
            Err(error) => return unfinished.refused().or_else(|| of_error(&error)),
        };
        // Nothing is read until the agent takes the message.
        silence.pace.busy();
        if to_agent.send(Bytes::from(text)).await.is_err() {
            // The agent reads no more; its last messages are still written.
            return pending().await;
        }
        unfinished.is_over();
        silence.pace.limit_silence(silence.limit);
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
async fn write(sink: &mut SplitSink<Socket, Message>, mut from_agent: mpsc::Receiver<String>) -> Close {
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
            _ = beat.tick() => Message::Ping(Bytes::new()),
        };
        if sink.send(message).await.is_err() {
            return None;
        }
    }
}

impl AsyncRead for Counting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buffer);
        let bytes = buffer.filled().len() - before;
        if bytes > 0 {
            self.unfinished.came(bytes)?;
        }
        polled
    }
}

impl AsyncWrite for Counting {
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
