//! A running `haft mcp --http`, and raw requests to it.

use std::{
    fs::{self, OpenOptions},
    io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc::channel},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

pub(crate) const ANN: &str = "token-of-ann-0123456789";
pub(crate) const BOB: &str = "token-of-bob-0123456789";

/// Against a hang, and far above what any of this takes.
const AT_MOST: Duration = Duration::from_secs(120);

/// A workspace `ws`, and state that nobody else has.
pub(crate) struct TestWorkspace {
    folder: Arc<tempfile::TempDir>,
}

/// A server that runs.
pub(crate) struct HttpServer {
    child: Child,
    pub(crate) address: SocketAddr,
    /// The lines on standard error until it listened.
    pub(crate) said: Vec<String>,
    _folder: Arc<tempfile::TempDir>,
}

/// The response of a server.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl TestWorkspace {
    pub(crate) fn new() -> Self {
        let test_ws = Self { folder: Arc::new(tempfile::tempdir().unwrap()) };
        fs::create_dir(test_ws.path("ws")).unwrap();
        test_ws.put("tokens", &format!("# who may\nann {ANN}\nbob {BOB}\n"));
        test_ws
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn put(&self, name: &str, text: &str) {
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(self.path(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// Returns `haft` in this workspace.
    pub(crate) fn haft(&self) -> Command {
        let mut haft = self.haft_contained();
        haft.args(["--sandbox", "full"]);
        haft
    }

    /// The same whose commands are in the sandbox.
    fn haft_contained(&self) -> Command {
        let mut haft = Command::new(env!("CARGO_BIN_EXE_haft"));
        haft.env("HAFT_STATE_DIR", self.path("state"))
            .env("HAFT_CONFIG_DIR", self.path("config"))
            .env_remove("HAFT_MCP_TOKEN")
            .arg("--dir")
            .arg(self.path("ws"))
            .args(["--approve", "auto"]);
        haft
    }

    /// Starts a server for ann and bob.
    pub(crate) fn open(&self) -> HttpServer {
        let tokens = self.path("tokens");
        self.open_with(&["--token-file", tokens.to_str().unwrap()])
    }

    /// The same whose commands are in the sandbox.
    pub(crate) fn open_contained(&self) -> HttpServer {
        let mut haft = self.haft_contained();
        haft.args(["mcp", "--http", "127.0.0.1:0", "--token-file"]).arg(self.path("tokens"));
        HttpServer::start(&mut haft, self.folder.clone())
    }

    pub(crate) fn open_with(&self, arguments: &[&str]) -> HttpServer {
        let mut haft = self.haft();
        haft.args(["mcp", "--http", "127.0.0.1:0"]).args(arguments);
        HttpServer::start(&mut haft, self.folder.clone())
    }
}

impl HttpServer {
    fn start(haft: &mut Command, folder: Arc<tempfile::TempDir>) -> Self {
        let mut child =
            haft.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (to, lines) = channel();
        thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| drop(to.send(line))));
        let mut http_server =
            Self { child, address: ([127, 0, 0, 1], 0).into(), said: Vec::new(), _folder: folder };
        let said = &mut http_server.said;
        loop {
            let line = lines.recv_timeout(AT_MOST).unwrap_or_else(|_| panic!("it never listened: {said:?}"));
            said.push(line);
            let url = said.iter().find_map(|line| line.strip_prefix("haft: MCP at http://"));
            if let Some(address) = url.and_then(|url| url.strip_suffix("/mcp")) {
                http_server.address = address.parse().unwrap();
                // A line about its token follows at once, if there is one.
                said.extend(lines.recv_timeout(Duration::from_millis(200)));
                return http_server;
            }
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(AT_MOST)).unwrap();
        socket
    }

    /// Sends these bytes, and reads all that comes until the connection ends.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Reply {
        let mut socket = self.connect();
        // A server may answer and close before it has read all.
        let _ = socket.write_all(bytes);
        rest(&mut socket)
    }

    /// Sends a request with these headers beside `Host` and `Connection`.
    pub(crate) fn ask(&self, line: &str, headers: &str, body: &str) -> Reply {
        let head = format!("{line} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}", self.address);
        self.raw(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
    }

    /// Sends a message as a valid client does.
    pub(crate) fn post(&self, token: &str, session: Option<&str>, message: &Value) -> Reply {
        let session = session.map(|it| format!("Mcp-Session-Id: {it}\r\n")).unwrap_or_default();
        self.ask("POST /mcp", &format!("{}{session}", good(token)), &message.to_string())
    }

    /// Opens a session; returns its id.
    pub(crate) fn begin(&self, token: &str) -> String {
        let reply = self.post(token, None, &initialize());
        assert_eq!(reply.status, 200, "{reply:?}");
        let id = reply.header("mcp-session-id").unwrap();
        let reply =
            self.post(token, Some(&id), &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(reply.status, 202, "{reply:?}");
        id
    }

    /// Sends a request in a session; returns its result.
    pub(crate) fn request(&self, token: &str, session: &str, method: &str, params: Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let reply = self.post(token, Some(session), &message);
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.message()["result"].clone()
    }

    /// Returns the text of a tool's result.
    pub(crate) fn call(&self, token: &str, session: &str, tool: &str, arguments: Value) -> String {
        let result =
            self.request(token, session, "tools/call", json!({"name": tool, "arguments": arguments}));
        result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}")).to_owned()
    }

    /// Checks that a valid client is served.
    pub(crate) fn is_alive(&self) {
        let session = self.begin(ANN);
        assert_eq!(self.call(ANN, &session, "shell", json!({"command": "echo still here"})), "still here");
        let gone = self.ask("DELETE /mcp", &format!("{}Mcp-Session-Id: {session}\r\n", good(ANN)), "");
        assert!(gone.status < 300, "{gone:?}");
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Tells it to end, and waits until it has.
    pub(crate) fn end(mut self) -> Option<i32> {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Reply {
    fn of(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").unwrap_or(bytes.len());
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let rest = bytes.get(end + 4..).unwrap_or_default();
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
        let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { whole(rest) } else { rest.to_vec() };
        Self { status, head, body: String::from_utf8_lossy(&body).into_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    }

    /// Returns the last message in it.
    pub(crate) fn message(&self) -> Value {
        let mut events =
            self.body.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|it| !it.is_empty());
        let text = events.next_back().unwrap_or(&self.body);
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Returns the headers of a valid client's message.
pub(crate) fn good(token: &str) -> String {
    format!(
        "Authorization: Bearer {token}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
    )
}

pub(crate) fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}})
}

/// Reads everything until the connection ends.
pub(crate) fn rest(socket: &mut TcpStream) -> Reply {
    let mut bytes = Vec::new();
    let mut buffer = [0; 64 * 1024];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error}, after {:?}", String::from_utf8_lossy(&bytes)),
        }
    }
    Reply::of(&bytes)
}

/// Decodes a chunked body.
fn whole(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = chunks.windows(2).position(|it| it == b"\r\n") {
        let size = std::str::from_utf8(&chunks[..end]).ok().and_then(|it| usize::from_str_radix(it, 16).ok());
        let Some(size @ 1..) = size else { break };
        let from = end + 2;
        body.extend_from_slice(chunks.get(from..from + size).unwrap_or(&chunks[from..]));
        chunks = chunks.get(from + size + 2..).unwrap_or_default();
    }
    body
}
