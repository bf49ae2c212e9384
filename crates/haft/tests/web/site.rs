//! A web site on loopback.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// A site on loopback, for as long as the test runs.
pub(crate) struct Site {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// A request that a site received.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// The path, with its query.
    pub(crate) path: String,
    /// The headers, in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

/// The response of a site.
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Site {
    pub(crate) fn new(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (asked.clone(), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer) = (log.clone(), answer.clone());
                thread::spawn(move || serve(stream, &log, &*answer));
            }
        });
        Self { address, asked }
    }

    /// Starts a site that gives the same answer to every request.
    pub(crate) fn of(kind: &str, body: impl Into<Vec<u8>>) -> Self {
        let (kind, body) = (kind.to_owned(), body.into());
        Self::new(move |_| ok(&kind, body.clone()))
    }

    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Everything that it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

pub(crate) fn ok(kind: &str, body: impl Into<Vec<u8>>) -> Answer {
    status(200, kind, body)
}

pub(crate) fn status(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Answer {
    Answer { status, headers: vec![("Content-Type".to_owned(), kind.to_owned())], body: body.into() }
}

impl Answer {
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Vec<Asked>>, answer: &dyn Fn(&Asked) -> Answer) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut first, mut head) = (String::new(), String::new());
    if reader.read_line(&mut first).unwrap_or(0) == 0 {
        return;
    }
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|it| it > 2) {
        head.push_str(&line.to_lowercase());
        line.clear();
    }
    let length = head.lines().find_map(|it| it.strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let asked = Asked { method, path, head, body: String::from_utf8_lossy(&body).into_owned() };
    log.lock().unwrap().push(asked.clone());
    let answer = answer(&asked);
    let mut out = format!(
        "HTTP/1.1 {} Said\r\nContent-Length: {}\r\nConnection: close\r\n",
        answer.status,
        answer.body.len()
    );
    for (name, value) in answer.headers.iter().filter(|it| !it.1.is_empty()) {
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    // The client may have disconnected.
    let _ = stream.write_all(out.as_bytes()).and_then(|()| stream.write_all(b"\r\n"));
    let _ = stream.write_all(&answer.body);
}
