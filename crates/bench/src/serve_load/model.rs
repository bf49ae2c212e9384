//! A model for a load: a server that speaks Chat Completions and streams at a fixed pace, each piece with the time when it left.

use std::{
    net::SocketAddr,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    time::{MissedTickBehavior, interval},
};

use super::{
    Outcome,
    http::{header, read_head},
};

/// Words that follow the time in a piece.
const WORDS: &str = "and so the answer grows by some words ";
/// Pieces of a paragraph.
const PARAGRAPH: usize = 12;
/// An answer with a limit up to this many tokens is asked for a title or a summary, and is not of the load.
const SHORT: u64 = 1000;
/// Time between two pieces.
pub(super) const PACE: Duration = Duration::from_millis(100);

static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Returns the nanoseconds since this process began to measure.
pub(super) fn now() -> u64 {
    u64::try_from(BEGAN.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// A model that listens on a thread of its own.
pub(super) struct Model {
    pub(super) address: SocketAddr,
}

impl Model {
    /// Begins to listen. Each answer has so many pieces.
    pub(super) fn start(pieces: usize) -> Outcome<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::spawn(move || {
            runtime.block_on(async move {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                while let Ok((socket, _)) = listener.accept().await {
                    // A client that goes away ends its own answer alone.
                    tokio::spawn(async move { answer(socket, pieces).await.map_err(|it| it.to_string()) });
                }
            });
        });
        Ok(Self { address })
    }
}

/// Answers one request.
async fn answer(socket: TcpStream, pieces: usize) -> Outcome<()> {
    socket.set_nodelay(true)?;
    let mut socket = BufReader::new(socket);
    let head = read_head(&mut socket).await?;
    let length = header(&head, "content-length").unwrap_or("0").parse()?;
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await?;
    let asked: Value = serde_json::from_slice(&body)?;
    let limit = ["max_tokens", "max_completion_tokens"].iter().find_map(|it| asked.get(it)?.as_u64());
    let is_short = limit.is_some_and(|it| it <= SHORT);
    let kind = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    socket.write_all(kind.as_bytes()).await?;
    // All streams do not speak at the same moment.
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let turn = ASKED.fetch_add(1, Ordering::Relaxed) as u32 % 64;
    tokio::time::sleep(PACE * turn / 64).await;
    let mut ticks = interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for at in 0..if is_short { 1 } else { pieces } {
        ticks.tick().await;
        let end = if at % PARAGRAPH == PARAGRAPH - 1 { "\n\n" } else { "" };
        let text = if is_short { "A title".to_owned() } else { format!("@{};{WORDS}{end}", now()) };
        socket.write_all(&event(&json!({"content": text}), &Value::Null)).await?;
    }
    socket.write_all(&event(&json!({}), &json!("stop"))).await?;
    socket.write_all(b"data: [DONE]\n\n").await?;
    socket.shutdown().await?;
    Ok(())
}

fn event(delta: &Value, end: &Value) -> Vec<u8> {
    let usage = if end.is_null() {
        Value::Null
    } else {
        json!({"prompt_tokens": 100, "completion_tokens": 100, "total_tokens": 200})
    };
    let choice = json!({"index": 0, "delta": delta, "finish_reason": end});
    let chunk = json!({"id": "load", "object": "chat.completion.chunk", "created": 1, "model": "load",
        "choices": [choice], "usage": usage});
    format!("data: {chunk}\n\n").into_bytes()
}

/// The times in a text that comes in any pieces.
#[derive(Default)]
pub(super) struct Stamps {
    rest: String,
    /// The times that were found, in order.
    pub(super) sent: Vec<u64>,
}

impl Stamps {
    /// Takes more of the text, and returns how many new times it has.
    pub(super) fn take(&mut self, text: &str) -> usize {
        self.rest.push_str(text);
        let before = self.sent.len();
        while let Some((earlier, later)) = self.rest.split_once(';') {
            if let Some(sent) = earlier.rsplit_once('@').and_then(|it| it.1.parse().ok()) {
                self.sent.push(sent);
            }
            self.rest = later.to_owned();
        }
        self.sent.len() - before
    }
}
