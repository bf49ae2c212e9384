//! A running `haft serve` with a scripted model, and requests to it.

use std::{
    fs::{self, OpenOptions},
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc::channel},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::http::support::{Reply, rest};

/// Against a hang, and far above what any of this takes.
pub(crate) const AT_MOST: Duration = Duration::from_secs(120);

pub(crate) const ROLES: [&str; 4] = ["view", "say", "approve", "own"];

/// Returns the token of whoever has this role.
pub(crate) fn token(role: &str) -> String {
    format!("token-of-{role}-0123456789")
}

/// A workspace `ws`, a script for the model, tokens, and state that nobody else has.
#[derive(Clone)]
pub(crate) struct Stage {
    folder: Arc<tempfile::TempDir>,
}

/// A server that runs.
pub(crate) struct Served {
    child: Child,
    pub(crate) address: SocketAddr,
    /// The one-use code of the printed address.
    pub(crate) code: String,
}

impl Stage {
    pub(crate) fn new(script: &[Value]) -> Self {
        let stage = Self { folder: Arc::new(tempfile::tempdir().unwrap()) };
        for name in ["ws", "home"] {
            fs::create_dir(stage.path(name)).unwrap();
        }
        let tokens: String = ROLES.iter().map(|role| format!("{role}er {role} {}\n", token(role))).collect();
        stage.private("tokens", &tokens);
        stage.script(script);
        stage
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn script(&self, lines: &[Value]) {
        let text: String = lines.iter().map(|it| format!("{it}\n")).collect();
        fs::write(self.path("script"), text).unwrap();
    }

    pub(crate) fn private(&self, name: &str, text: &str) {
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(self.path(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path("ws").join(path), text).unwrap();
    }

    pub(crate) fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path("ws").join(path)).ok()
    }

    pub(crate) fn remove(&self, path: &str) {
        fs::remove_file(self.path("ws").join(path)).unwrap();
    }

    /// `haft serve` with these arguments.
    pub(crate) fn haft(&self, arguments: &[&str]) -> Command {
        let mut haft = self.haft_in(&self.path("ws"));
        haft.arg("serve")
            .arg("--model")
            .arg(format!("script:{}", self.path("script").display()))
            .args(arguments);
        haft
    }

    /// haft in this folder, with the state of this stage.
    pub(crate) fn haft_in(&self, folder: &Path) -> Command {
        let mut haft = self.haft_at(folder);
        haft.arg("--dir").arg(folder);
        haft
    }

    /// haft as a person starts it in this folder.
    pub(crate) fn haft_at(&self, folder: &Path) -> Command {
        let mut haft = Command::new(env!("CARGO_BIN_EXE_haft"));
        haft.env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("HAFT_STATE_DIR", self.path("state"))
            .env("HAFT_CONFIG_DIR", self.path("config"))
            .current_dir(folder)
            .stdin(Stdio::null());
        haft
    }

    /// Starts a server whose tokens are those of all roles.
    pub(crate) fn serve(&self) -> Served {
        self.serve_with(&[])
    }

    /// Starts one with these limits: agents in all, of one person, and the silence of a WebSocket in milliseconds.
    pub(crate) fn serve_within(&self, limits: [u32; 3]) -> Served {
        let tokens = self.path("tokens");
        let mut haft =
            self.haft(&["--addr", "127.0.0.1:0", "--tokens", tokens.to_str().unwrap(), "--approve", "auto"]);
        haft.env("HAFT_SERVE_LIMITS", limits.map(|it| it.to_string()).join(","));
        Served::start(&mut haft)
    }

    pub(crate) fn serve_with(&self, arguments: &[&str]) -> Served {
        let tokens = self.path("tokens");
        let all = [&["--addr", "127.0.0.1:0", "--tokens", tokens.to_str().unwrap()], arguments].concat();
        Served::start(&mut self.haft(&all))
    }
}

impl Served {
    #[expect(
        clippy::zombie_processes,
        reason = "a test that panics here ends anyway; `Drop` waits otherwise"
    )]
    pub(crate) fn start(haft: &mut Command) -> Self {
        let mut child = haft.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (to, lines) = channel();
        let to_too = to.clone();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || stdout.lines().map_while(Result::ok).for_each(|it| drop(to.send(it))));
        let stderr = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|it| drop(to_too.send(it))));
        let mut said = Vec::new();
        loop {
            let line = lines.recv_timeout(AT_MOST).unwrap_or_else(|_| panic!("it never listened: {said:?}"));
            if let Some((address, code)) =
                line.strip_prefix("http://").and_then(|it| it.split_once("/#code="))
            {
                return Self { child, address: address.parse().unwrap(), code: code.to_owned() };
            }
            said.push(line);
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(AT_MOST)).unwrap();
        socket
    }

    /// Sends a request with these headers beside `Host` and `Connection`.
    pub(crate) fn raw(&self, line: &str, headers: &str, body: &[u8]) -> Reply {
        let mut socket = self.connect();
        let head = format!(
            "{line} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        // A server may answer and close before it has read all.
        let _ = socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(body));
        rest(&mut socket)
    }

    /// Sends a request as whoever has this role.
    pub(crate) fn ask(&self, role: &str, line: &str, body: &Value) -> Reply {
        let kind = "Content-Type: application/json\r\n";
        let headers = format!("Authorization: Bearer {}\r\n{kind}", token(role));
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.raw(line, &headers, body.as_bytes())
    }

    /// Asks as the owner. Gives the JSON of an answer with this status.
    #[track_caller]
    pub(crate) fn does(&self, status: u16, line: &str, body: &Value) -> Value {
        let reply = self.ask("own", line, body);
        assert_eq!(reply.status, status, "{line}: {reply:?}");
        serde_json::from_str(&reply.body).unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        self.does(200, &format!("GET /api/v1/{path}"), &Value::Null)
    }

    /// Begins a session with this prompt. Gives its id.
    #[track_caller]
    pub(crate) fn begin(&self, prompt: &str) -> String {
        let session = self.does(201, "POST /api/v1/sessions", &json!({"prompt": {"text": prompt}}));
        session["id"].as_str().unwrap().to_owned()
    }

    /// Prompts a session, and waits until the turn has ended. Gives the rows from then on.
    #[track_caller]
    pub(crate) fn prompt(&self, session: &str, text: &str) -> Vec<Row> {
        let head = self.get(&format!("sessions/{session}/rows?limit=20000"))["head"].as_u64().unwrap();
        let mut stream = self.watch(session, head);
        self.does(202, &format!("POST /api/v1/sessions/{session}/prompt"), &json!({"text": text}));
        stream.until(|row| row.kind() == "turn_ended")
    }

    /// Watches a session as the owner.
    pub(crate) fn watch(&self, session: &str, after: u64) -> Stream {
        let headers = format!("Authorization: Bearer {}\r\nLast-Event-ID: {after}\r\n", token("own"));
        self.stream(&format!("/api/v1/sessions/{session}/events"), &headers)
    }

    pub(crate) fn stream(&self, path: &str, headers: &str) -> Stream {
        let mut socket = self.connect();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", self.address);
        socket.write_all(head.as_bytes()).unwrap();
        let mut lines = BufReader::new(socket);
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.contains(" 200 "), "{line}");
        Stream { lines, id: None, name: String::new() }
    }

    /// Waits for the first approval of the session.
    #[track_caller]
    pub(crate) fn approval(&self, session: &str) -> Value {
        let mut stream = self.watch(session, 0);
        let rows = stream.until(|row| row.kind() == "approval_opened");
        rows.last().unwrap().event.clone()
    }

    /// Signs in with the printed code. Gives the header with the cookie.
    #[track_caller]
    pub(crate) fn sign_in(&self) -> String {
        self.sign_in_with(&json!({"code": self.code}))
    }

    /// Signs in with a code or a token. Gives the header with the cookie.
    #[track_caller]
    pub(crate) fn sign_in_with(&self, body: &Value) -> String {
        let headers = "Content-Type: application/json\r\nX-Haft: 1\r\n";
        let reply = self.raw("POST /api/v1/sign-in", headers, body.to_string().as_bytes());
        assert_eq!(reply.status, 200, "{reply:?}");
        format!("Cookie: {}\r\n", reply.header("set-cookie").unwrap().split(';').next().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has ended.
    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Repeats a look until it finds something.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < AT_MOST, "{what} never came");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A row as the stream gives it.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) seq: u64,
    pub(crate) whole: Value,
    pub(crate) event: Value,
}

impl Row {
    pub(crate) fn kind(&self) -> &str {
        self.event["event"].as_str().unwrap_or_default()
    }
}

/// A stream of events.
pub(crate) struct Stream {
    lines: BufReader<TcpStream>,
    id: Option<u64>,
    name: String,
}

/// One event: a row, or a named one.
#[derive(Debug)]
pub(crate) enum Sent {
    Row(Row),
    Named(String, Value),
}

impl Stream {
    /// Returns the next event; `None` when the stream has ended.
    pub(crate) fn next(&mut self) -> Option<Sent> {
        loop {
            let mut line = String::new();
            match self.lines.read_line(&mut line) {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
            // Sizes of chunks, and the head, are none of these.
            if let Some(id) = line.strip_prefix("id: ") {
                self.id = id.trim().parse().ok();
            } else if let Some(name) = line.strip_prefix("event: ") {
                name.trim().clone_into(&mut self.name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                let whole: Value =
                    serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"));
                let name = std::mem::take(&mut self.name);
                return Some(match self.id.take() {
                    Some(seq) => {
                        assert_eq!(whole["seq"].as_u64(), Some(seq));
                        Sent::Row(Row { seq, event: whole["event"].clone(), whole })
                    }
                    None => Sent::Named(name, whole),
                });
            }
        }
    }

    pub(crate) fn row(&mut self) -> Option<Row> {
        loop {
            if let Sent::Row(row) = self.next()? {
                return Some(row);
            }
        }
    }

    /// Returns the rows up to one that is wanted.
    #[track_caller]
    pub(crate) fn until(&mut self, is_last: impl Fn(&Row) -> bool) -> Vec<Row> {
        let mut rows = Vec::new();
        loop {
            let row = self.row().unwrap_or_else(|| panic!("the stream ended after {rows:?}"));
            let done = is_last(&row);
            rows.push(row);
            if done {
                return rows;
            }
        }
    }
}
