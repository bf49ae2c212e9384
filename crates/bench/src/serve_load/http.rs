//! A small HTTP client: requests on a connection of their own, and bodies that come in pieces.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use super::Outcome;

/// An answer whose body comes in pieces.
pub(super) struct Incoming {
    pub(super) status: u16,
    pub(super) head: String,
    socket: BufReader<TcpStream>,
    /// The bytes of the body that are left; none where it comes in chunks.
    left: Option<usize>,
    is_over: bool,
}

impl Incoming {
    /// Sends a request, and returns its answer once the head is there.
    pub(super) async fn of(address: SocketAddr, head: &str, body: &[u8]) -> Outcome<Self> {
        let head = format!("{head}Connection: close\r\nContent-Length: {}\r\n", body.len());
        Self::sent(address, &head, body).await
    }

    /// Sends a request for another protocol.
    pub(super) async fn upgrade(address: SocketAddr, head: &str) -> Outcome<Self> {
        Self::sent(address, head, b"").await
    }

    async fn sent(address: SocketAddr, head: &str, body: &[u8]) -> Outcome<Self> {
        let mut socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let head = format!("{head}Host: {address}\r\n\r\n");
        socket.write_all(&[head.as_bytes(), body].concat()).await?;
        let mut socket = BufReader::with_capacity(64 << 10, socket);
        let head = read_head(&mut socket).await?;
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
        let status = status.ok_or_else(|| format!("no status in {head:?}"))?;
        let left = match header(&head, "content-length") {
            Some(it) => Some(it.parse()?),
            // A body without a length ends with the connection.
            None if header(&head, "transfer-encoding").is_none() => Some(usize::MAX),
            None => None,
        };
        Ok(Self { status, head, socket, left, is_over: false })
    }

    /// Returns the next piece of the body; none at its end.
    ///
    /// # Errors
    /// When the connection breaks before the end.
    pub(super) async fn next(&mut self) -> Outcome<Option<Vec<u8>>> {
        if self.is_over {
            return Ok(None);
        }
        let piece = match &mut self.left {
            Some(left) => {
                let mut piece = vec![0; (*left).min(64 << 10)];
                let got = self.socket.read(&mut piece).await?;
                piece.truncate(got);
                if *left != usize::MAX {
                    *left -= got;
                }
                piece
            }
            None => {
                let mut line = String::new();
                self.socket.read_line(&mut line).await?;
                let size = usize::from_str_radix(line.trim(), 16)
                    .map_err(|_| format!("{line:?} is not the size of a chunk: the connection broke"))?;
                let mut piece = vec![0; size + 2];
                self.socket.read_exact(&mut piece).await?;
                piece.truncate(size);
                piece
            }
        };
        self.is_over = piece.is_empty();
        Ok((!self.is_over).then_some(piece))
    }

    /// Returns the connection, to read bytes as they come.
    pub(super) fn into_socket(self) -> BufReader<TcpStream> {
        self.socket
    }

    /// Returns the whole body.
    pub(super) async fn all(&mut self) -> Outcome<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(piece) = self.next().await? {
            all.extend(piece);
        }
        Ok(all)
    }
}

/// Reads a head up to its empty line.
pub(super) async fn read_head(socket: &mut BufReader<TcpStream>) -> Outcome<String> {
    let mut head = String::new();
    loop {
        let before = head.len();
        if socket.read_line(&mut head).await? == 0 {
            return Err(format!("the connection ended in a head: {head:?}").into());
        }
        if head.get(before..) == Some("\r\n") {
            return Ok(head);
        }
    }
}

/// Returns the value of a header.
pub(super) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|it| it.0.eq_ignore_ascii_case(name))
        .map(|it| it.1.trim())
}

/// Sends JSON, and returns the status and the JSON of the answer.
pub(super) async fn json(
    address: SocketAddr,
    line: &str,
    headers: &str,
    body: &Value,
) -> Outcome<(u16, Value)> {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let head = format!("{line} HTTP/1.1\r\nContent-Type: application/json\r\n{headers}");
    let mut answer = Incoming::of(address, &head, &body).await?;
    let said = answer.all().await?;
    Ok((answer.status, serde_json::from_slice(&said).unwrap_or_default()))
}
