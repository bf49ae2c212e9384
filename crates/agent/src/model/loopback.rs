//! What does a provider answer in a test? A server on loopback that sends given bytes, cut where the test says.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A server that gives its replies in their order, one for each request, and keeps what it was asked.
pub(super) struct Loopback {
    /// Its address up to and with the version: `http://127.0.0.1:PORT/v1`.
    pub(super) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<()>,
}

/// A request that came.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// `POST /v1/messages`.
    pub(super) line: String,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Value,
}

/// What is answered.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    pieces: Vec<Vec<u8>>,
    end: End,
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// As HTTP wants it.
    Whole,
    /// The connection is closed before the end was said.
    Broken,
    /// Nothing more comes, and the connection stays open until the other side closes it.
    Never,
    /// Nothing is answered at all.
    Silent,
}

impl Reply {
    /// Server-sent events, with status 200.
    pub(super) fn events(text: &str) -> Self {
        Self::new(200, "text/event-stream; charset=utf-8", text)
    }

    /// JSON with this status.
    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json", &body.to_string())
    }

    /// A text with this status.
    pub(super) fn new(status: u16, mime: &str, body: &str) -> Self {
        let headers = vec![("content-type".to_owned(), mime.to_owned())];
        Self { status, headers, pieces: vec![body.as_bytes().to_vec()], end: End::Whole }
    }

    /// The connection is closed once the request was read.
    pub(super) fn nothing() -> Self {
        Self { end: End::Silent, ..Self::events("") }
    }

    /// With this header, too.
    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The body in two parts, the first so many bytes long. Each part is an HTTP chunk, and arrives as one.
    pub(super) fn split_at(mut self, at: usize) -> Self {
        let whole = self.pieces.concat();
        let (first, second) = whole.split_at(at.min(whole.len()));
        self.pieces = vec![first.to_vec(), second.to_vec()];
        self
    }

    /// The body in parts of so many bytes.
    pub(super) fn in_parts_of(mut self, bytes: usize) -> Self {
        self.pieces = self.pieces.concat().chunks(bytes).map(<[u8]>::to_vec).collect();
        self
    }

    /// Only so many bytes of the body; then the connection is closed.
    pub(super) fn broken_at(mut self, at: usize) -> Self {
        let mut whole = self.pieces.concat();
        whole.truncate(at);
        self.pieces = vec![whole];
        self.end = End::Broken;
        self
    }

    /// Nothing comes after the body, not even its end.
    pub(super) fn never_ending(mut self) -> Self {
        self.end = End::Never;
        self
    }
}

impl Loopback {
    /// Gives these replies. A request beyond them is answered with status 418.
    pub(super) async fn serve(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let replies = Arc::new(Mutex::new(replies.into_iter().collect::<VecDeque<_>>()));
        let task = tokio::spawn({
            let asked = asked.clone();
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(answer(stream, asked.clone(), replies.clone()));
                }
            }
        });
        Self { url, asked, task }
    }

    /// An address at which nobody answers.
    pub(super) async fn nobody() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}/v1", listener.local_addr().unwrap())
    }

    /// What was asked until now.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Asked {
    /// The header of this name, which is in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }
}

/// One connection has one request: the answer says that it is closed then.
async fn answer(
    mut stream: TcpStream,
    asked: Arc<Mutex<Vec<Asked>>>,
    replies: Arc<Mutex<VecDeque<Reply>>>,
) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let request = read(&mut stream).await?;
    asked.lock().push(request);
    let reply = replies.lock().pop_front();
    let reply = reply.unwrap_or_else(|| Reply::new(418, "text/plain", "the test has no more replies"));
    if reply.end == End::Silent {
        return None;
    }
    let mut head = format!("HTTP/1.1 {} Status\r\nconnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("transfer-encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).await.ok()?;
    for piece in reply.pieces.iter().filter(|it| !it.is_empty()) {
        let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
        chunk.extend_from_slice(piece);
        chunk.extend_from_slice(b"\r\n");
        stream.write_all(&chunk).await.ok()?;
        stream.flush().await.ok()?;
    }
    match reply.end {
        End::Whole => stream.write_all(b"0\r\n\r\n").await.ok()?,
        End::Never => while stream.read(&mut [0; 64]).await.is_ok_and(|count| count > 0) {},
        End::Broken | End::Silent => {}
    }
    stream.shutdown().await.ok()
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8(bytes.get(..head)?.to_vec()).ok()?;
    let mut lines = text.lines();
    let line = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|it| it.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    // A GET request has no body.
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(Some(0), |(_, value)| value.parse::<usize>().ok())?;
    let mut body = bytes.split_off(head + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Some(Asked { line, headers, body })
}
