//! A client of the Agent Client Protocol by WebSocket.

use std::{
    io::{BufRead as _, BufReader, ErrorKind, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{
    ClientRequestBuilder, Error, Message, WebSocket, client::client, protocol::CloseFrame,
};

use crate::serve::support::{AT_MOST, Served, Stage, token};

/// A connected client.
pub(crate) struct Editor {
    pub(crate) socket: WebSocket<TcpStream>,
    next: u64,
    /// All messages that came, but the answers that were waited for.
    pub(crate) seen: Vec<Value>,
}

/// The headers of a valid handshake, beside `Host` and what lets the client in.
pub(crate) const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// Sends the head of a handshake. Gives its status and its headers.
pub(crate) fn handshake(served: &Served, host: &str, path: &str, headers: &str) -> (u16, String) {
    let mut socket = served.connect();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n");
    socket.write_all(head.as_bytes()).unwrap();
    let mut lines = BufReader::new(socket);
    let mut text = String::new();
    while !text.ends_with("\r\n\r\n") && lines.read_line(&mut text).unwrap() > 0 {}
    (text.split(' ').nth(1).unwrap().parse().unwrap(), text)
}

impl Editor {
    /// Connects as whoever has this role.
    #[track_caller]
    pub(crate) fn connect(served: &Served, role: &str) -> Self {
        Self::with(served, "Authorization", &format!("Bearer {}", token(role)))
    }

    #[track_caller]
    pub(crate) fn with(served: &Served, header: &str, value: &str) -> Self {
        let uri = format!("ws://{}/acp", served.address).parse().unwrap();
        let request = ClientRequestBuilder::new(uri).with_header(header, value);
        let (socket, _) = client(request, served.connect()).unwrap();
        Self { socket, next: 1, seen: Vec::new() }
    }

    /// Connects and initializes.
    #[track_caller]
    pub(crate) fn open(served: &Served, role: &str) -> Self {
        let mut editor = Self::connect(served, role);
        let hello = editor.ask("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
        assert_eq!(hello["result"]["agentInfo"]["name"], "haft", "{hello}");
        editor
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.socket.send(Message::text(message.to_string())).unwrap();
    }

    /// Sends a request. Gives its id.
    pub(crate) fn begin(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a request, and waits for its answer.
    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id)
    }

    #[track_caller]
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        self.until(|it| it["id"] == id && it.get("method").is_none())
    }

    #[track_caller]
    pub(crate) fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Returns the error of a request that is refused.
    #[track_caller]
    pub(crate) fn refused(&mut self, method: &str, params: Value) -> String {
        let answer = self.ask(method, params);
        answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{method}: {answer}")).to_owned()
    }

    /// Opens a new session.
    #[track_caller]
    pub(crate) fn session(&mut self, stage: &Stage) -> String {
        let opened = self.result("session/new", json!({"cwd": stage.path("ws"), "mcpServers": []}));
        opened["sessionId"].as_str().unwrap().to_owned()
    }

    /// Sends a prompt. Gives the id of the request.
    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{"type": "text", "text": text}]);
        self.begin("session/prompt", json!({"sessionId": session, "prompt": prompt}))
    }

    /// Waits for a message.
    #[track_caller]
    pub(crate) fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.seen.iter().position(&is_it) {
            return self.seen.remove(at);
        }
        loop {
            let message = self.socket.read().unwrap_or_else(|error| panic!("{error}, after {:?}", self.seen));
            let Message::Text(text) = message else { continue };
            let message: Value = serde_json::from_str(&text).unwrap();
            if is_it(&message) {
                return message;
            }
            self.seen.push(message);
        }
    }

    /// Returns the text of the agent's messages until now.
    pub(crate) fn text(&self) -> String {
        let updates = self.seen.iter().map(|it| &it["params"]["update"]);
        let chunks = updates.filter(|it| it["sessionUpdate"] == "agent_message_chunk");
        chunks.filter_map(|it| it["content"]["text"].as_str()).collect()
    }

    /// Reads until the server closes the connection. Gives its reason.
    #[track_caller]
    pub(crate) fn closed(&mut self) -> Option<CloseFrame> {
        let (began, mut reason) = (Instant::now(), None);
        loop {
            match self.socket.read() {
                Ok(Message::Close(frame)) => reason = frame,
                Ok(Message::Text(text)) => self.seen.push(serde_json::from_str(&text).unwrap()),
                Ok(_) => {}
                Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => panic!("it never closed"),
                Err(_) => return reason,
            }
            assert!(began.elapsed() < AT_MOST + Duration::from_secs(1), "it never closed");
        }
    }
}
