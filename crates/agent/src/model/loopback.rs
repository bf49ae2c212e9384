//! Test server on loopback: sends given bytes as a provider, cut where the test wants it.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A server that sends its replies in order, one for each request, and records the requests.
pub(super) struct Loopback {
    /// Its base URL including the version: `http://127.0.0.1:PORT/v1`.
    pub(super) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<()>,
}

/// A recorded request.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// The request line, such as `POST /v1/messages`.
    pub(super) line: String,
    /// The headers, with names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Value,
}

/// A response.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    pieces: Vec<Vec<u8>>,
    end: End,
}

/// The end of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Complete, as HTTP requires.
    Whole,
    /// The connection is closed before the end.
    Broken,
    /// Nothing more is sent, and the connection stays open until the client closes it.
    Never,
    /// Nothing is sent at all.
    Silent,
}

impl Reply {
    /// Returns server-sent events, with status 200.
    pub(super) fn events(text: &str) -> Self {
        Self::new(200, "text/event-stream; charset=utf-8", text)
    }

    /// Returns JSON with this status.
    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json", &body.to_string())
    }

    /// Returns a text with this status.
    pub(super) fn new(status: u16, mime: &str, body: &str) -> Self {
        let headers = vec![("content-type".to_owned(), mime.to_owned())];
        Self { status, headers, pieces: vec![body.as_bytes().to_vec()], end: End::Whole }
    }

    /// Closes the connection once the request was read.
    pub(super) fn nothing() -> Self {
        Self { end: End::Silent, ..Self::events("") }
    }

    /// Adds a header.
    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Splits the body at this byte. Each part is an HTTP chunk, and arrives as one.
    pub(super) fn split_at(mut self, at: usize) -> Self {
        let whole = self.pieces.concat();
        let (first, second) = whole.split_at(at.min(whole.len()));
        self.pieces = vec![first.to_vec(), second.to_vec()];
        self
    }

    /// Splits the body into parts of `bytes` bytes.
    pub(super) fn in_parts_of(mut self, bytes: usize) -> Self {
        self.pieces = self.pieces.concat().chunks(bytes).map(<[u8]>::to_vec).collect();
        self
    }

    /// Closes the connection after this many bytes of the body.
    pub(super) fn broken_at(mut self, at: usize) -> Self {
        let mut whole = self.pieces.concat();
        whole.truncate(at);
        self.pieces = vec![whole];
        self.end = End::Broken;
        self
    }

    /// Sends nothing after the body, not even its end.
    pub(super) fn never_ending(mut self) -> Self {
        self.end = End::Never;
        self
    }
}

impl Loopback {
    /// Starts a server with these replies. Further requests get status 418.
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

    /// Returns an address where no server listens.
    pub(super) async fn nobody() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}/v1", listener.local_addr().unwrap())
    }

    /// Returns the requests so far.
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
    /// Returns the header of this name, which is in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }
}

/// Answers one connection. It has one request: the response closes it.
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
