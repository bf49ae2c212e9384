//! A web server that is broken or malicious.
//!
//! The path of a request says how the server answers, so that a test shows what it tries. The server writes HTTP
//! itself: no library would send these bytes.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

/// The decompressed size of a bomb.
const BOMB: u64 = 10 << 30;

/// A server on loopback, until it is dropped.
pub(crate) struct Hostile {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    requests: Mutex<Vec<ReceivedRequest>>,
    connections: AtomicUsize,
    sent: AtomicUsize,
    stop: AtomicBool,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The address that was connected to.
    pub(crate) at: SocketAddr,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Hostile {
    pub(crate) fn start() -> Self {
        Self::listen("127.0.0.1:0")
    }

    pub(crate) fn listen(address: &str) -> Self {
        Self::on(TcpListener::bind(address).unwrap())
    }

    pub(crate) fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let of_thread = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if of_thread.stop.load(Ordering::Acquire) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                of_thread.connections.fetch_add(1, Ordering::AcqRel);
                let state = of_thread.clone();
                // A client may disconnect early; that is not a failure here.
                thread::spawn(move || drop(serve(&state, stream)));
            }
        });
        Self { address, state }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// `127.0.0.1:PORT`, as a grant names it.
    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// Returns the address at which the server behaves as this path says.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.host())
    }

    /// Returns the received requests, in order.
    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.state.requests.lock().unwrap().clone()
    }

    pub(crate) fn last(&self) -> ReceivedRequest {
        self.requests().pop().unwrap()
    }

    /// Returns the number of connections, whatever was sent over them.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::Acquire)
    }

    /// Returns the number of bytes of large bodies that the client received.
    pub(crate) fn sent(&self) -> usize {
        self.state.sent.load(Ordering::Acquire)
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Release);
        // Wakes it up, so that it sees that it is over.
        drop(TcpStream::connect(("127.0.0.1", self.port())));
    }
}

/// Returns the byte at a position of a body that can be checked at any position.
pub(crate) fn byte_at(place: usize) -> u8 {
    u8::try_from(place % 251).unwrap()
}

fn read(stream: &TcpStream) -> std::io::Result<Option<ReceivedRequest>> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut request = ReceivedRequest { method, target, headers, body: Vec::new(), at: stream.local_addr()? };
    if let Some(length) = request.header("content-length").and_then(|it| it.parse().ok()) {
        request.body = vec![0; length];
        reader.read_exact(&mut request.body)?;
    } else if request.header("transfer-encoding").is_some() {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let length = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
            let mut piece = vec![0; length + 2];
            reader.read_exact(&mut piece)?;
            if length == 0 {
                break;
            }
            request.body.extend_from_slice(&piece[..length]);
        }
    }
    Ok(Some(request))
}

fn serve(state: &State, mut stream: TcpStream) -> std::io::Result<()> {
    let Some(request) = read(&stream)? else { return Ok(()) };
    state.requests.lock().unwrap().push(request.clone());
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let mut parts = path.trim_start_matches('/').splitn(2, '/');
    let (what, more) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let out = &mut stream;
    match what {
        "text" => whole(out, "200 OK", "Content-Type: text/plain\r\n", b"hello\n"),
        "json" => whole(
            out,
            "200 OK",
            "Content-Type: application/json\r\nETag: \"7\"\r\nX-Other: yes\r\n",
            br#"{"name":"haft","list":[1,2,{"deep":true}]}"#,
        ),
        "html" => whole(
            out,
            "200 OK",
            "Content-Type: text/html\r\n",
            b"<!doctype html><title>A page</title><p>A paragraph.",
        ),
        "page" => whole(
            out,
            "200 OK",
            "Content-Type: text/html\r\n",
            b"<!doctype html><title>A page</title><p><a href='/text?of-a-page'>One</a> <a href='/302?/text?behind'>two</a>.",
        ),
        "latin1" => {
            whole(out, "200 OK", "Content-Type: text/plain; charset=iso-8859-1\r\n", b"caf\xe9 cr\xe8me\n")
        }
        "binary" => whole(out, "200 OK", "Content-Type: image/png\r\n", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        "controls" => {
            whole(out, "200 OK", "Content-Type: text/plain\r\n", "a\u{1b}[2Jb\u{202e}c\u{e0041}d".as_bytes())
        }
        // Echoes the request: the lines of the head, an empty one, the body.
        "echo" => {
            let mut said = format!("{} {}\n", request.method, request.target);
            for (name, value) in &request.headers {
                said.push_str(&format!("{name}: {value}\n"));
            }
            said.push('\n');
            whole(out, "200 OK", "Content-Type: text/plain\r\n", &[said.as_bytes(), &request.body].concat())
        }
        "status" => whole(
            out,
            &format!("{more} Said So"),
            "Content-Type: application/json\r\nRetry-After: 7\r\n",
            br#"{"error":"because"}"#,
        ),
        // Where to is the query, as it is.
        "301" | "302" | "303" | "307" | "308" => {
            whole(out, &format!("{what} Elsewhere"), &format!("Location: {query}\r\n"), b"")
        }
        // A redirect that never stops talking.
        "302-with-body" => {
            write!(out, "HTTP/1.1 302 Found\r\nLocation: {query}\r\nContent-Length: {BOMB}\r\n\r\n")?;
            again(state, out, &[b'x'; 64 * 1024], BOMB)
        }
        "loop" => whole(out, "302 Found", "Location: /loop\r\n", b""),
        "chain" => {
            let left: usize = more.parse().unwrap_or(0);
            let to = if left == 0 { "/text".to_owned() } else { format!("/chain/{}", left - 1) };
            whole(out, "302 Found", &format!("Location: {to}\r\n"), b"")
        }
        "endless-headers" => {
            write!(out, "HTTP/1.1 200 OK\r\n")?;
            again(state, out, b"X-Header: some value that goes on\r\n", BOMB)
        }
        "endless-header" => {
            write!(out, "HTTP/1.1 200 OK\r\nX-Header: ")?;
            again(state, out, &[b'x'; 4096], BOMB)
        }
        "endless-status" => again(state, out, &[b'H'; 4096], BOMB),
        "endless-continue" => again(state, out, b"HTTP/1.1 100 Continue\r\n\r\n", BOMB),
        "http09" => out.write_all(b"<html>no head at all</html>\n"),
        "noise" => out.write_all(&[0x16, 3, 1, 0, 0xff, 0, 7, b'\r', b'\n', b'\r', b'\n']),
        "nothing" => Ok(()),
        "slow-head" => until_gone(out),
        "slow-body" => {
            write!(out, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\nhello")?;
            until_gone(out)
        }
        "too-short" => {
            out.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\nhello")
        }
        "too-long" => {
            out.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello HTTP/1.1 200 OK\r\n\r\n")
        }
        "two-lengths" => {
            out.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 50\r\n\r\nhello")
        }
        "cut-chunks" => {
            out.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nffff\r\nhe")
        }
        "bad-chunks" => {
            out.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhello")
        }
        "split-header" => out.write_all(
            b"HTTP/1.1 200 OK\r\nX-One: a\rSet-Cookie: b\r\nX-Two: c\nX-Three: d\r\nContent-Length: 2\r\n\r\nok",
        ),
        "null-header" => out.write_all(b"HTTP/1.1 200 OK\r\nX-One: a\0b\r\nContent-Length: 2\r\n\r\nok"),
        // Says that it is a picture, or text, and is the other.
        "lying-png" => whole(out, "200 OK", "Content-Type: image/png\r\n", b"just some text\n"),
        "lying-text" => whole(out, "200 OK", "Content-Type: text/plain\r\n", &[0, 159, 146, 150, 0, 1, 2, 3]),
        "lying-json" => whole(out, "200 OK", "Content-Type: application/json\r\n", b"not json {"),
        "lying-gzip" => whole(out, "200 OK", "Content-Encoding: gzip\r\n", b"not gzip at all"),
        "huge" => {
            write!(out, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n")?;
            again(state, out, "all work and no play\n".repeat(3000).as_bytes(), BOMB)
        }
        "bytes" => {
            let length: usize = more.parse().unwrap_or(0);
            write!(out, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {length}\r\n\r\n")?;
            numbered(out, length)
        }
        // As many as it says less one, and then nothing.
        "bytes-cut" => {
            let length: usize = more.parse().unwrap_or(0);
            write!(out, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {length}\r\n\r\n")?;
            numbered(out, length - 1)
        }
        "bomb" => bomb(state, out, more),
        _ => whole(out, "404 Not Found", "Content-Type: text/plain\r\n", b"nothing here\n"),
    }
}

fn whole(out: &mut impl Write, status: &str, headers: &str, body: &[u8]) -> std::io::Result<()> {
    write!(out, "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
    out.write_all(body)
}

/// Writes this over and over, until it was so many bytes or nobody takes them any more.
fn again(state: &State, out: &mut impl Write, piece: &[u8], most: u64) -> std::io::Result<()> {
    let once = piece.repeat((64 * 1024_usize).div_ceil(piece.len()));
    let mut written = 0;
    while written < most && !state.stop.load(Ordering::Acquire) {
        out.write_all(&once)?;
        written += once.len() as u64;
        state.sent.fetch_add(once.len(), Ordering::AcqRel);
    }
    Ok(())
}

fn numbered(out: &mut impl Write, length: usize) -> std::io::Result<()> {
    let period: Vec<u8> = (0..251 * 256).map(byte_at).collect();
    let mut left = length;
    while left > 0 {
        let piece = left.min(period.len());
        out.write_all(&period[..piece])?;
        left -= piece;
    }
    Ok(())
}

/// Waits, and says nothing, until the other side has hung up.
fn until_gone(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut byte = [0];
    while stream.read(&mut byte)? > 0 {}
    Ok(())
}

/// Ten gigabytes of nothing, packed as `how` says.
fn bomb(state: &State, out: &mut impl Write, how: &str) -> std::io::Result<()> {
    let (head, piece, unpacked): (Vec<u8>, Vec<u8>, u64) = match how {
        "gzip" | "deflate" => {
            let wrapper: &[u8] =
                if how == "gzip" { &[31, 139, 8, 0, 0, 0, 0, 0, 0, 255] } else { &[0x78, 0x9c] };
            // Past the first two bytes, 13 bytes say eight times "258 bytes as the last one was".
            let stream = deflated(2 + 13 * 1000);
            ([wrapper, &stream[..2]].concat(), stream[2..].to_vec(), 8 * 258 * 1000)
        }
        "br" => (
            vec![0xcb, 0xff, 0xff, 0x1f, 0, 0x24, 0, 0xe2, 0xb1, 0x40, 0x72, 0xef, 0x7f, 0x0c],
            vec![0xfc, 0xff, 0xff, 1, 0x40, 2, 0x20, 0x0e, 0x0b, 0x40, 0xf7, 0xfe, 0xc7, 0],
            4 << 20,
        ),
        // A frame with a window of 128 KiB; each block says "128 KiB of this byte".
        _ => (vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x38], vec![0x02, 0x00, 0x10, 0], 128 << 10),
    };
    write!(
        out,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: {how}\r\nConnection: close\r\n\r\n"
    )?;
    out.write_all(&head)?;
    again(state, out, &piece, BOMB / unpacked * piece.len() as u64)
}

/// Returns the beginning of a deflate stream of zeros: one block with the fixed codes that does not end.
fn deflated(length: usize) -> Vec<u8> {
    // Not the last block, fixed codes, the byte 0; then a length of 258 at a distance of 1.
    let first = [0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0];
    let copy = [1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0];
    let mut bits = first.into_iter().chain(copy.into_iter().cycle());
    (0..length).map(|_| (0..8).fold(0, |byte, place| byte | (bits.next().unwrap_or(0_u8) << place))).collect()
}
